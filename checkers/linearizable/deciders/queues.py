"""FIFO queues and unordered queues of distinct values.

That a FIFO queue's history is linearizable unless one of a few patterns occurs was shown by Henzinger, Sezgin and
Vafeiadis (Aspect-oriented linearizability proofs, CONCUR 2013) and, with pending ops, by Bouajjani, Emmi, Enea and
Hamza (On reducing linearizability to state reachability, ICALP 2015). The patterns are

- a dequeue of a value that was never enqueued, or was dequeued by another, or was enqueued only later,
- two values of which one went in surely before the other and came out surely after it, or never,
- a dequeue that found nothing, while in every moment of it something was surely inside.

Each is found by a sort and a sweep.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from splitbrain.checkers.linearizable.deciders import Decision, fifo_pairs
from splitbrain.checkers.linearizable.deciders.containers import (
    EMPTY,
    NEVER,
    NONE,
    PUT,
    TAKE,
    Clash,
    Stays,
    by_transition,
    decide,
    in_order,
    read_stays,
)
from splitbrain.checkers.linearizable.deciders.crashed_takes import decide_crashed
from splitbrain.checkers.linearizable.deciders.moments import unfounded_empty
from splitbrain.checkers.linearizable.deciders.ranks import decide_ranked
from splitbrain.checkers.linearizable.limits import WITHOUT_END, Budget
from splitbrain.checkers.linearizable.ops import Ops, show
from splitbrain.checkers.models import Model


def fifo(ops: Ops, model: Model, budget: Budget = WITHOUT_END) -> Decision | None:
    """Decide a FIFO queue, in O(n log n); None for values enqueued twice and dequeues that crashed."""
    del model
    return decide(read_stays(ops, "enqueue", "dequeue"), ops, _fifo_clash, _explain_fifo, budget)


def fifo_crashed(ops: Ops, model: Model, budget: Budget = WITHOUT_END) -> Decision | None:
    """Decide a FIFO queue in which dequeues crashed; None for values enqueued twice, and where that takes too long."""
    del model
    return decide_crashed(ops, "enqueue", "dequeue", _fifo_clash, _explain_fifo, budget)


def unordered_crashed(ops: Ops, model: Model, budget: Budget = WITHOUT_END) -> Decision | None:
    """Decide an unordered queue in which dequeues crashed; None as for `fifo_crashed`."""
    del model
    return decide_crashed(ops, "enqueue", "dequeue", unfounded_empty, _explain_empty, budget)


def unordered(ops: Ops, model: Model, budget: Budget = WITHOUT_END) -> Decision | None:
    """Decide an unordered queue, in O(n log n).

    Values do not depend on each other, but for dequeues that found nothing. None where there is such a dequeue, and
    besides a value that was enqueued twice, or a dequeue that crashed and may have taken a value.
    """
    del model
    return decide(read_stays(ops, "enqueue", "dequeue"), ops, unfounded_empty, _explain_empty, budget) or _uncovered(
        ops
    )


def fifo_ranked(ops: Ops, model: Model, budget: Budget = WITHOUT_END) -> Decision | None:
    """Decide a FIFO queue in which values repeat, in O(n log n); None where it is not certain which is which."""
    del model
    return decide_ranked(ops, "enqueue", "dequeue", _fifo_clash, _explain_fifo, budget)


def fifo_ranked_exactly(ops: Ops, model: Model, budget: Budget = WITHOUT_END) -> Decision | None:
    """The same; of what is refuted a short search looks for the smallest prefix."""
    decision = fifo_ranked(ops, model, budget)
    if decision is None or decision.valid:
        return decision
    smallest = fifo_pairs.fifo_in_short(ops, model, budget)
    if smallest is None:
        return decision
    ends = [int(ops.completed[list(each.culprits)].max()) for each in (smallest, decision)]
    return replace(smallest, reason=decision.reason) if ends[0] == ends[1] else smallest


def unordered_ranked(ops: Ops, model: Model, budget: Budget = WITHOUT_END) -> Decision | None:
    """Decide an unordered queue in which values repeat; None as for `fifo_ranked`."""
    del model
    return decide_ranked(ops, "enqueue", "dequeue", unfounded_empty, _explain_empty, budget)


def _uncovered(ops: Ops) -> Decision | None:
    """Decide an unordered queue in which no dequeue found nothing; values may be enqueued twice, and ops may crash.

    Then a value in it does no harm: enqueues may take effect at once and dequeues as late as possible, and those that
    crashed not at all. What must be is that a value has been dequeued no oftener than it had begun to be enqueued.
    """
    known = by_transition(ops, "enqueue", "dequeue")
    if known is None or bool(np.any(known.kind[ops.transition] == EMPTY)):
        return None
    put, put_value = known.of_kind(ops, PUT)
    take, take_value = known.of_kind(ops, TAKE)
    op = np.concatenate((put, take))
    value = np.concatenate((put_value, take_value))
    when = np.concatenate((ops.invoked[put], ops.completed[take]))
    order = np.lexsort((when, value))
    left = np.cumsum(np.where(np.arange(len(op)) < len(put), 1, -1)[order])
    starts = np.flatnonzero(np.diff(value[order], prepend=-1))
    before = np.repeat(np.append(0, left)[starts], np.diff(np.append(starts, len(op))))
    wrong = left < before
    if not bool(np.any(wrong)):
        return Decision(True)
    last = int(np.flatnonzero(wrong)[np.argmin(when[order][wrong])])
    first = int(starts[np.searchsorted(starts, last, side="right") - 1])
    culprits = cast("list[int]", np.sort(op[order[first : last + 1]]).tolist())
    taken = (len(culprits) + 1) // 2
    text = show(ops.transitions[int(ops.transition[op[order[last]]])].result)
    reason = f"{text} was dequeued more often than enqueues of it had begun: {taken} times, and {taken - 1}"
    return Decision(False, tuple(culprits), reason)


def _fifo_clash(stays: Stays) -> Clash | None:
    return _overtaken(stays) or unfounded_empty(stays)


def _overtaken(stays: Stays) -> Clash | None:
    """The value that came out first though another that went in surely before it came out surely after it.

    Each value is compared with the one that came out last among all that had gone in before it.
    """
    if not len(stays.put):
        return None
    by_put = np.argsort(stays.put_until)
    latest = np.maximum.accumulate(stays.take_from[by_put])
    before = np.searchsorted(stays.put_until[by_put], stays.put_from)
    wrong = (before > 0) & (latest[np.maximum(before - 1, 0)] > stays.take_until)
    if not bool(np.any(wrong)):
        return None
    second = int(np.flatnonzero(wrong)[np.argmin(stays.take_until[wrong])])
    earlier = by_put[: before[second]]
    first = int(earlier[np.argmax(stays.take_from[earlier])])
    return Clash(np.array([first, second], np.int64), NONE)


def _explain_fifo(stays: Stays, values: list[str]) -> str:
    if len(stays.empty):
        return _explain_empty(stays, values)
    first, second = in_order(values, stays.put_from)
    if NEVER in stays.take:
        return f"{second} was dequeued, and {first}, which had been enqueued before it, never was"
    return f"{first} was enqueued before {second} and dequeued after it"


def _explain_empty(stays: Stays, values: list[str]) -> str:
    return found_nothing("dequeue", stays, values)


def found_nothing(take: str, stays: Stays, values: list[str]) -> str:
    """Why the one empty take of a clash is wrong."""
    inside = in_order(values, stays.put_until)
    if len(inside) == 1:
        return f"a {take} found nothing while {inside[0]} was inside"
    return f"a {take} found nothing, and at every moment of it one of {', '.join(inside)} was inside"
