"""Why there is an edge, and why a transaction of unknown outcome committed: said by the keys that know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers.transactions.by_key.parts import How, inferred
from splitbrain.checkers.transactions.by_key.rest import Step
from splitbrain.checkers.transactions.by_key.rows import Part, Ref, part_of, reads_committed
from splitbrain.checkers.transactions.columns import READ, Ints
from splitbrain.checkers.transactions.inference import Because


class Reason(msgspec.Struct, frozen=True):
    """Why there is an edge: a `Because`, by places in the whole history."""

    step: Step
    kind: int
    key: str
    before: Ref
    after: Ref
    shown: Ref | None
    rule: str
    given: tuple[Ref, ...] = ()


class Proof(msgspec.Struct, frozen=True):
    """That a transaction of unknown outcome committed: what it wrote, and a read of that."""

    write: Ref
    read: Ref


class Why(msgspec.Struct, frozen=True):
    """What some keys know."""

    reasons: tuple[Reason, ...] = ()
    proofs: tuple[Proof, ...] = ()


def why(how: How, table: pa.Table, proven: Ints, steps: Sequence[Step], unknown: Sequence[int]) -> Why:
    """What some keys know of edges, and of transactions of unknown outcome.

    Args:
        how: the history is judged.
        table: all rows of `rows.MOPS` of these keys.
        proven: transactions of unknown outcome that committed.
        steps: edges.
        unknown: transactions of unknown outcome.
    """
    part = part_of(table)
    return Why(tuple(_reasons(how, part, proven, steps)), tuple(_proofs(part, unknown)))


def _reasons(how: How, part: Part, proven: Ints, steps: Sequence[Step]) -> Iterator[Reason]:
    number = {txn: place for place, txn in enumerate(part.transactions.invoked.tolist())}
    mine = [step for step in steps if step[0] in number and step[1] in number]
    if not mine:
        return
    reasons = inferred(how, part, proven).reasons
    for step in mine:
        try:
            because = reasons.because(number[step[0]], number[step[1]], step[2])
        except AssertionError:  # keys of another group know
            continue
        yield _reason(part, step, because)


def _reason(part: Part, step: Step, because: Because) -> Reason:
    shown = None if because.shown < 0 else part.ref(because.shown)
    key = part.transactions.key_names[because.key]
    before, after, given = part.ref(because.before), part.ref(because.after), tuple(map(part.ref, because.given))
    return Reason(step, because.kind, key, before, after, shown, because.rule, given)


def _proofs(part: Part, unknown: Sequence[int]) -> Iterator[Proof]:
    found = part.transactions
    owner = np.repeat(np.arange(len(found)), np.diff(found.mop_start))
    writes = np.flatnonzero((found.mop_kind != READ) & np.isin(found.invoked[owner], np.array(unknown, np.int64)))
    is_read = reads_committed(found, owner)
    for write in writes.tolist():
        value = int(found.mop_value[write])
        for read in np.flatnonzero(is_read & (found.mop_key == found.mop_key[write])).tolist():
            begin, length = int(found.list_start[read]), int(found.list_length[read])
            if length > 0 and value in found.elements[begin : begin + length]:
                yield Proof(part.ref(write), part.ref(read))
                break
            if length < 0 and found.mop_value[read] == value:
                yield Proof(part.ref(write), part.ref(read))
                break
