"""Orders of the versions of registers that follow from what the user says may be assumed.

Each assumption gives, for each key, pairs of versions of which one comes before the other. If the pairs of a key make a
cycle, the versions are cyclic: the assumption does not hold there, and is left out for that key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.columns import COMMITTED, NIL, OPEN, READ, UNKNOWN, Transactions
from splitbrain.checkers.transactions.components import TRIVIAL, components
from splitbrain.checkers.transactions.graph import KINDS, RW, WW, Bools, Edges, graph_of
from splitbrain.checkers.transactions.inference import Because, Case
from splitbrain.checkers.transactions.writes import Writes

Pair: TypeAlias = tuple[int, int]
"""Two values of a key, or two micro-operations that have them; the earlier one first."""

Given: TypeAlias = tuple[str, int, int]
"""Why one version comes before another one: the rule, and the micro-operations that it follows from."""

PAIRS: Final = 2_000_000
"""How many pairs of versions assumptions may give; those of real time are as many as transactions follow each other."""

LOOKS: Final = 5_000_000
"""How many pairs the search for a shortest cycle of one key looks at, beyond those that find a first one."""


class Access(NamedTuple):
    """What a transaction did to one key.

    Attributes:
        transaction: which.
        read: micro-operation of its first read, before any write of its own; -1 for none.
        write: micro-operation of its last write; -1 for none.
    """

    transaction: int
    read: int
    write: int


@dataclass(frozen=True)
class Versions:
    """Pairs of versions, and what follows.

    Attributes:
        edges: ww and rw edges between transactions.
        cyclic: a case for each key with cyclic versions.
        rules: by key and pair which assumption gave it, and what it follows from.
        writes: micro-operations.
        spent: of how many keys an assumption was left out, as the allowance was spent.
    """

    edges: Edges
    cyclic: tuple[Case, ...]
    rules: dict[tuple[int, int, int], Given]
    writes: Writes
    spent: int = 0

    def because(self, before: int, after: int, base: int) -> Because | None:
        """Why the second micro-operation's write overwrites what the first one wrote or read."""
        mops = self.writes.mops
        if (mops.kind[before] == READ) != (base == RW) or mops.kind[after] == READ:
            return None
        key = int(mops.key[before])
        given = self.rules.get((key, int(mops.value[before]), int(mops.value[after])))
        return None if given is None else Because(base, key, before, after, rule=given[0], given=given[1:])


def assumed_versions(
    transactions: Transactions, writes: Writes, committed: Bools, assumptions: Assumptions
) -> Versions:
    """The orders that follow from some assumptions."""
    by_key = _accesses(writes, committed, len(transactions.key_names))
    rules: dict[tuple[int, int, int], Given] = {}
    cyclic: list[Case] = []
    spent = set[int]()
    left = PAIRS
    for key, accesses in enumerate(by_key):
        known = dict(_initial(writes, accesses))
        for rule, pairs in _assumed(transactions, writes, accesses, assumptions):
            if len(pairs) > left:
                spent.add(key)
                continue
            left -= len(pairs)
            more = dict(known)
            for one, other in pairs:
                pair = (int(writes.mops.value[one]), int(writes.mops.value[other]))
                if pair[0] != pair[1]:
                    more.setdefault(pair, (rule, one, other))
            cycle = _cycle(list(more))
            if cycle:
                cyclic.append(_case(writes, key, cycle, more))
            else:
                known = more
        rules.update({(key, *pair): given for pair, given in known.items() if given[0] != "initial"})
    return Versions(_edges(writes, by_key, rules), tuple(cyclic), rules, writes, len(spent))


def _accesses(writes: Writes, committed: Bools, keys: int) -> list[list[Access]]:
    """Of each key the accesses of committed transactions, in order of invocation."""
    mops = writes.mops
    found: list[list[Access]] = [[] for _ in range(keys)]
    for transaction in np.flatnonzero(committed).tolist():
        begin, end = int(mops.start[transaction]), int(mops.start[transaction + 1])
        mine: dict[int, Access] = {}
        for mop in range(begin, end):
            key = int(mops.key[mop])
            before = mine.get(key, Access(transaction, -1, -1))
            if mops.kind[mop] != READ:
                mine[key] = before._replace(write=mop)
            elif before == (transaction, -1, -1) and mops.value[mop] != UNKNOWN:
                mine[key] = before._replace(read=mop)
        for key, access in mine.items():
            found[key].append(access)
    return found


def _case(writes: Writes, key: int, cycle: tuple[int, ...], known: Mapping[Pair, Given]) -> Case:
    """What shows that some versions would each have to come before the next one, and the last before the first."""
    given = [known[pair] for pair in zip(cycle, (*cycle[1:], cycle[0]), strict=True)]
    mops = tuple(mop for _, *shown in given for mop in shown)
    owners = tuple(dict.fromkeys(int(writes.mops.owner[mop]) for mop in mops))
    return Case("cyclic-versions", owners, key, mops, cycle, tuple(rule for rule, *_ in given))


def _last(access: Access) -> int:
    return access.write if access.write >= 0 else access.read


def _first(access: Access) -> int:
    return access.read if access.read >= 0 else access.write


def _initial(writes: Writes, accesses: list[Access]) -> Iterator[tuple[Pair, Given]]:
    for access in accesses:
        for mop in (access.read, access.write):
            if mop >= 0 and writes.mops.value[mop] != NIL:
                yield (NIL, int(writes.mops.value[mop])), ("initial", mop, mop)


def _assumed(
    transactions: Transactions, writes: Writes, accesses: list[Access], assumptions: Assumptions
) -> Iterator[tuple[str, list[Pair]]]:
    """What each assumption gives for one key: pairs of micro-operations, the earlier one's version first."""
    if assumptions.transaction_order:
        yield "transaction-order", list(pairwise(_in_order(transactions, accesses, assumptions.transaction_order)))
    if assumptions.wfr_keys:
        yield "wfr-keys", [(each.read, each.write) for each in accesses if each.read >= 0 and each.write >= 0]
    if assumptions.sequential_keys:
        last: dict[int, Access] = {}
        pairs = list[Pair]()
        for each in accesses:
            process = int(transactions.process[each.transaction])
            if process in last:
                pairs.append((_last(last[process]), _first(each)))
            if transactions.status[each.transaction] == COMMITTED:
                last[process] = each
        yield "sequential-keys", _different(writes, pairs)
    if assumptions.linearizable_keys:
        both = islice(_in_real_time(transactions, accesses), PAIRS + 1)
        yield "linearizable-keys", _different(writes, [(_last(one), _first(other)) for one, other in both])


def _different(writes: Writes, pairs: list[Pair]) -> list[Pair]:
    """Those pairs of micro-operations that have different versions."""
    value = writes.mops.value
    return [(one, other) for one, other in pairs if value[one] != value[other]]


def _in_order(transactions: Transactions, accesses: list[Access], order: Mapping[int, int]) -> list[int]:
    """The last writes of transactions, in the order that the system says it used."""
    places = [(order.get(int(transactions.completed[each.transaction])), each) for each in accesses if each.write >= 0]
    known = sorted((place, each.transaction, each.write) for place, each in places if place is not None)
    return [write for _, _, write in known]


def _in_real_time(transactions: Transactions, accesses: list[Access]) -> Iterator[tuple[Access, Access]]:
    """Pairs of which one completed before the other began, without those that follow from others."""
    events: list[tuple[int, int, Access]] = []
    for each in accesses:
        events.append((int(transactions.invoked[each.transaction]), 0, each))
        done = int(transactions.completed[each.transaction])
        if transactions.status[each.transaction] == COMMITTED and done != OPEN:
            events.append((done, 1, each))
    before: dict[int, list[int]] = {}
    recent: dict[int, Access] = {}
    for _, completes, access in sorted(events):
        if not completes:
            before[access.transaction] = list(recent)
            for other in recent.values():
                yield other, access
            continue
        for covered in before.pop(access.transaction):
            recent.pop(covered, None)
        recent[access.transaction] = access


def _cycle(pairs: list[Pair]) -> tuple[int, ...]:
    """The versions of a shortest cycle, in order; none if there is no cycle."""
    number: dict[int, int] = {}
    for pair in pairs:
        for value in pair:
            number.setdefault(value, len(number))
    source = np.array([number[one] for one, _ in pairs], np.int32)
    target = np.array([number[other] for _, other in pairs], np.int32)
    graph = graph_of(len(number), len(number), [Edges(source, target, np.zeros(len(pairs), np.uint8))])
    component = components(graph, np.ones(KINDS, np.bool_))
    if (component == TRIVIAL).all():
        return ()
    inside: dict[int, list[int]] = {}
    for one, other in pairs:
        if component[number[one]] != TRIVIAL and component[number[one]] == component[number[other]]:
            inside.setdefault(one, []).append(other)
    best: tuple[int, ...] = ()
    looks = 0
    for begin in inside:
        if len(best) == 2 or (best and looks > LOOKS):
            break
        found, looked = _shortest_from(inside, begin, len(best))
        looks += looked
        best = found or best
    return best


def _shortest_from(after: Mapping[int, list[int]], begin: int, limit: int) -> tuple[tuple[int, ...], int]:
    """A shortest cycle through a version, if it has fewer than so many (0: any number), and how many pairs it took."""
    came: dict[int, int] = {}
    now, distance, looked = [begin], 1, 0
    while now and (not limit or distance < limit):
        following: list[int] = []
        for one in now:
            for other in after[one]:
                looked += 1
                if other == begin:
                    back = [one]
                    while back[-1] != begin:
                        back.append(came[back[-1]])
                    return tuple(reversed(back)), looked
                if other not in came:
                    came[other] = one
                    following.append(other)
        now, distance = following, distance + 1
    return (), looked


def _edges(writes: Writes, by_key: list[list[Access]], rules: dict[tuple[int, int, int], Given]) -> Edges:
    """From writers and readers of the earlier version of each pair to the writer of the later one."""
    readers: dict[Pair, list[int]] = {}
    writers: dict[Pair, int] = {}
    for key, accesses in enumerate(by_key):
        for each in accesses:
            if each.read >= 0:
                readers.setdefault((key, int(writes.mops.value[each.read])), []).append(each.transaction)
            if each.write >= 0:
                writers[(key, int(writes.mops.value[each.write]))] = each.transaction
    rows: list[tuple[int, int, int]] = []
    for key, one, other in rules:
        writer = writers.get((key, other))
        if writer is None:
            continue
        earlier = [(each, RW) for each in readers.get((key, one), [])]
        if (key, one) in writers:
            earlier.append((writers[(key, one)], WW))
        rows.extend((each, writer, kind) for each, kind in earlier if each != writer)
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return Edges(columns[:, 0].astype(np.int32), columns[:, 1].astype(np.int32), columns[:, 2].astype(np.uint8))
