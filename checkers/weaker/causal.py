"""Causal memory and causal convergence, by bad patterns, of a history in which it is known who reads from where.

Bouajjani, Enea, Guerraoui and Hamza ("On verifying causal consistency", POPL 2017) define three models of read-write
memory, and show which patterns of ops each of them excludes:

-   causal consistency (CC): CyclicCO, ThinAirRead, WriteCORead, WriteCOInitRead. `reads_from` looks for these;
-   causal convergence (CCv): also CyclicCF. Everybody agrees on one order of concurrent writes;
-   causal memory (CM; Ahamad, Neiger, Burns, Kohli and Hutto 1995): also WriteHBInitRead, CyclicHB. Each process agrees
    with itself on an order of concurrent writes.

CC is weaker than either; neither of CCv and CM implies the other; sequential consistency implies all. The patterns are
those of histories in which each value is written once, or, what is the same, the source of each read is known. A
compare-and-set counts as a read and then a write of its process.
"""

from __future__ import annotations

from splitbrain.checkers.weaker.calls import NOTHING, Calls, Registers
from splitbrain.checkers.weaker.order import CycleError, Order
from splitbrain.checkers.weaker.reads_from import INITIAL, Writes, candidates_of
from splitbrain.checkers.weaker.work import Work


class Causality:
    """A history that is causally consistent (CC), with the source of each read."""

    def __init__(self, calls: Calls, registers: Registers, source: dict[int, int], order: Order, work: Work) -> None:
        """Take the causal order, and the source of all reads, those of crashed ops that happened among them."""
        read = set(source.values())
        self._calls, self._source, self._order, self._work = calls, source, order, work
        happened = [op for op, certain in enumerate(calls.certain) if certain or op in read]
        self._writes = Writes(calls, registers, happened)

    def converges(self) -> tuple[int, ...]:
        """CCv: the ops of a cycle that it excludes (CyclicCF), empty if there is none.

        Raises:
            OutOfWorkError: there is no work left.
        """
        conflicts = self._order.copy(self._work)
        for op, write in self._source.items():
            try:
                for other in self._earlier(self._order, op, write):
                    conflicts.add(other, write)
            except CycleError as cycle:
                return tuple(cycle.ops)
        return ()

    def is_memory(self) -> tuple[int, ...]:
        """CM: the ops of a pattern that it excludes, the reader last, empty if there is none.

        Raises:
            OutOfWorkError: there is no work left.
        """
        for chain in self._calls.chains:
            reads = [op for op in self._session(chain) if op in self._source]
            if reads and (found := self._happens_before(reads)):
                return found
        return ()

    def _session(self, chain: list[int]) -> list[int]:
        """What a process called; of one that crashed, up to the op with which it did."""
        before = self._calls.after[chain[0]]
        if before == NOTHING:
            return chain
        return [*self._calls.chains[self._calls.chain[before]][: self._calls.place[before] + 1], *chain]

    def _happens_before(self, reads: list[int]) -> tuple[int, ...]:
        """Whether one process can order what it knows: WriteHBInitRead, CyclicHB."""
        own = self._order.copy(self._work)
        more = True
        while more:
            more = False
            for op in reads:
                write = self._source[op]
                try:
                    for other in self._earlier(own, op, write):
                        if write == INITIAL:
                            return (other, op)
                        more |= own.add(other, write)
                except CycleError as cycle:
                    return (*cycle.ops, op)
        return ()

    def _earlier(self, order: Order, op: int, write: int) -> list[int]:
        """By chain, the last other write of a read's key before the read; nothing of INITIAL under CCv."""
        key = self._calls.key[op]
        self._work.spend(1 + len(self._writes.places[key]))
        return [other for other in self._writes.last_before(key, order, op, but=op) if other != write]


def guessed_sources(
    calls: Calls, registers: Registers, source: dict[int, int], candidates: dict[int, list[int]], work: Work
) -> dict[int, int]:
    """A source for every read: the one that is known, else the latest write that a read can have met in real time.

    If a model holds with these sources it holds; if not, it may hold with others.
    """
    found = dict(source)
    waiting = [op for op, certain in enumerate(calls.certain) if certain and registers.sees[op] != NOTHING]
    while waiting:
        op = waiting.pop()
        if op not in found:
            among = candidates.get(op) or candidates_of(calls, registers, op)
            work.spend(len(among))
            found[op] = max(among, key=lambda write: _nearness(calls, op, write))
        write = found[op]
        if write != INITIAL and not calls.certain[write] and registers.sees[write] != NOTHING and write not in found:
            waiting.append(write)
    return found


def _nearness(calls: Calls, op: int, write: int) -> tuple[bool, bool, int]:
    if write == INITIAL:
        return (True, True, -1)
    return (calls.begin[write] < calls.end[op], calls.certain[write], calls.begin[write])
