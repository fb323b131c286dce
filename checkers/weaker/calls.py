"""A run as weaker models see it: the ops of all keys, in chains by process.

Real time says nothing here; what counts is the order in which a process called its ops (program order), and values. All
keys are looked at together: sequential and causal consistency are not local (Herlihy and Wing 1990), so that runs whose
keys are consistent one by one need not be.

A session is a process. When an op crashes its process ends, and the client goes on as another process, with a new
session. A crashed op comes after what its process did before, and before nothing; it may not have happened at all.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from splitbrain.checkers.linearizable.ops import Ops, read_ops
from splitbrain.checkers.linearizable.transitions import assignments, steps_by_assignment
from splitbrain.checkers.models import KeyValue, Model, Special
from splitbrain.results.columns import array, codes, numbers

NOTHING: Final = -1
"""No op, no value."""


@dataclass(frozen=True)
class Registers:
    """The ops as reads and writes of registers, one a key. Values are numbered over all keys.

    Attributes:
        sees: the value that an op requires, by op; NOTHING if none. A compare-and-set sees one and leaves another.
        leaves: the value that an op writes, by op; NOTHING if none.
        refuses: the value that an op saw not to be there, by op; NOTHING if none.
        initial: the value at the beginning, by key.
        writers: the ops that leave a value, by value.
    """

    sees: list[int]
    leaves: list[int]
    refuses: list[int]
    initial: list[int]
    writers: list[list[int]]


@dataclass(frozen=True)
class _Values:
    """What each transition requires, leaves and refuses, and what a key holds at first."""

    sees: list[Hashable]
    leaves: list[Hashable]
    refuses: list[Hashable]
    initial: Hashable


@dataclass(frozen=True)
class Calls:
    """The ops that may have happened, in the order of their invocations.

    Attributes:
        ops: as read from the history.
        key: number of the key, by op.
        keys: how many keys there are.
        chains: the ops of each process, in order; a crashed op is a chain of its own.
        chain: number of its chain, by op.
        place: how many ops come before it in its chain, by op.
        after: the op that its process called before it, by op; NOTHING for the first one.
        begin: row of the invocation, by op.
        end: row of the completion, by op; the number of rows for a crashed one.
        certain: whether it happened, by op.
        registers: the same as reads and writes; None where the model is no register, or not only one.
    """

    ops: Ops
    key: list[int]
    keys: int
    chains: list[list[int]]
    chain: list[int]
    place: list[int]
    after: list[int]
    begin: list[int]
    end: list[int]
    certain: list[bool]
    registers: Registers | None

    def next_of(self, op: int) -> int:
        """The op that follows in the chain, or NOTHING."""
        chain, place = self.chains[self.chain[op]], self.place[op] + 1
        return chain[place] if place < len(chain) else NOTHING


def read_calls(history: pa.Table, model: Model, functions: Collection[str] | None = None) -> Calls:
    """The calls of a run; crashed ops that no other op can have seen are left out.

    Args:
        history: all rows, in order, columns as in `splitbrain.results.arrow.HISTORY_SCHEMA`.
        model: of every key.
        functions: those that are judged; None for all.

    Raises:
        HistoryFormatError: completions do not fit invocations, or a process has two ops under way.
        UsageError, ModelError: the model cannot make sense of an op.
    """
    clients = numbers(history.column("process")) >= 0
    table = history if clients.all() else history.filter(array(clients))
    ops = read_ops(table, model, functions)
    of_row, names = codes(table.column("key"))
    crashed: list[bool] = ops.crashed.tolist()
    transition: list[int] = ops.transition.tolist()
    key: list[int] = of_row[ops.invoked].tolist()
    values = _values(ops, model)
    refuses_nothing = values is not None and all(refused is Special.UNKNOWN for refused in values.refuses)
    seen = set[tuple[int, Hashable]]() if values is None else _seen(key, transition, values.sees)

    def matters(op: int) -> bool:
        """Whether a crashed op can have been noticed."""
        if values is not None and refuses_nothing:
            return (key[op], values.leaves[transition[op]]) in seen
        what = ops.transitions[transition[op]]
        return not model.observes(what.f, what.value, what.result)

    kept = [op for op, lost in enumerate(crashed) if not lost or matters(op)]
    processes: list[int] = numbers(table.column("process"))[ops.invoked].tolist()
    return _chained(ops, kept, (processes, key), len(names), values)


def _seen(key: list[int], transition: list[int], sees: list[Hashable]) -> set[tuple[int, Hashable]]:
    return {(of, sees[t]) for of, t in zip(key, transition, strict=True) if sees[t] is not Special.ANY}


def _chained(
    ops: Ops,
    kept: list[int],
    of_ops: tuple[list[int], list[int]],
    keys: int,
    values: _Values | None,
) -> Calls:
    """The calls of the ops that are kept; `of_ops` are the processes and the keys of all."""
    processes, key = of_ops
    chains: list[list[int]] = []
    chain, place, after = list[int](), list[int](), list[int]()
    of_process: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, op in enumerate(kept):
        process = processes[op]
        after.append(last.get(process, NOTHING))
        if ops.crashed[op]:
            mine = len(chains)
            chains.append([])
        else:
            mine = of_process.setdefault(process, len(chains))
            if mine == len(chains):
                chains.append([])
            last[process] = number
        chain.append(mine)
        place.append(len(chains[mine]))
        chains[mine].append(number)
    rows, completed = ops.table.num_rows, ops.completed.tolist()
    chosen = Ops(
        ops.table, ops.invoked[kept], ops.completed[kept], ops.crashed[kept], ops.transition[kept], ops.transitions
    )
    of_call = [key[op] for op in kept]
    return Calls(
        ops=chosen,
        key=of_call,
        keys=keys,
        chains=chains,
        chain=chain,
        place=place,
        after=after,
        begin=chosen.invoked.tolist(),
        end=[rows if ops.crashed[op] else completed[op] for op in kept],
        certain=[not lost for lost in chosen.crashed.tolist()],
        registers=None if values is None else _registers(chosen.transition.tolist(), of_call, keys, values),
    )


def _registers(transition: list[int], key: list[int], keys: int, values: _Values) -> Registers:
    number: dict[tuple[int, Hashable], int] = {}

    def numbered(said: list[Hashable], nothing: Special) -> list[int]:
        return [
            NOTHING if said[t] is nothing else number.setdefault((of, said[t]), len(number))
            for of, t in zip(key, transition, strict=True)
        ]

    seen, left = numbered(values.sees, Special.ANY), numbered(values.leaves, Special.ANY)
    refused = numbered(values.refuses, Special.UNKNOWN)
    at_first = [number.setdefault((of, values.initial), len(number)) for of in range(keys)]
    writers: list[list[int]] = [[] for _ in number]
    for op, value in enumerate(left):
        if value != NOTHING:
            writers[value].append(op)
    return Registers(seen, left, refused, at_first, writers)


def _values(ops: Ops, model: Model) -> _Values | None:
    """The ops as those of registers; None if that is not all there is to say."""
    if steps_by_assignment(model):
        each = assignments(model, ops.transitions)
        return _Values(
            [one.requires for one in each],
            [one.becomes for one in each],
            [one.refuses for one in each],
            model.init(),
        )
    if type(model) is KeyValue:
        facts = [model.facts(what.f, what.value, what.result) for what in ops.transitions]
        known = [one for one in facts if one is not None]
        if len(known) == len(facts):
            return _Values(
                [one.sees.get(None, Special.ANY) for one in known],
                [one.leaves.get(None, Special.ANY) for one in known],
                [Special.UNKNOWN] * len(known),
                model.init(),
            )
    return None
