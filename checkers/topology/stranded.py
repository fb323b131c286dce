"""Queues of connections that are all gone, and that are in the way of others long after: `stranded`.

A queue that is exclusive to a connection goes with it. Where the node dies at that moment its record stays, and some
node has to remove it later. Until then the name is refused to all other connections, and nothing else shows that: a
claim of unknown outcome may have made the queue, too, so no single refusal is wrong. It is once everything was healed,
and every connection that may have had the queue had ended, for `STRANDED_S`.

When a connection has certainly ended: an op of its process had an unknown outcome, after which the runner closes it, or
the process ended its connection itself. (A process whose op failed may go on over the same one.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding
from splitbrain.checkers.topology.ops import CLAIM, DISCONNECT, Answered
from splitbrain.checkers.topology.timelines import NEVER
from splitbrain.results.calls import Ints, ints
from splitbrain.results.faults import run_events
from splitbrain.results.notes import Usable

STRANDED_S: Final = 30.0
"""A node looks for such queues once a second, asks others for two, and a late message may take ten."""


def stranded(history: pa.Table, ops: Sequence[Answered]) -> Iterator[Finding]:
    """The first refusal of each queue that no connection can have had for long."""
    healed_ns = _healed_ns(history)
    if healed_ns is None:
        return
    time, ends, claims = ints(history, "time"), _ends(ops), _claims(ops)
    found = set[tuple[str, str]]()
    for op in ops:
        if op.f != CLAIM or op.type != "fail" or op.error.partition(":")[0] != "resource_locked":
            continue
        v, q = op.asked
        begun_ns = int(time[op.invoke])
        if (v, q) in found or begun_ns - healed_ns < STRANDED_S * 1e9:
            continue
        free_ns = _free_ns([each for each in claims.get((v, q), ()) if each.invoke < op.complete], ends, time)
        if free_ns is not None and begun_ns - free_ns >= STRANDED_S * 1e9:
            found.add((v, q))
            ago_s = (begun_ns - free_ns) / 1e9
            yield Finding(
                "stranded",
                f"Stranded: queue {q!r} in vhost {v!r} was refused as exclusive to another connection, {ago_s:.0f} s "
                f"after the last one ended that may have had it, with all healed "
                f"({by_key.answer(history, op.complete)}).",
                (op.invoke, op.complete),
            )


def _healed_ns(history: pa.Table) -> int | None:
    """Since when the system is known to be usable again, None if that is not known."""
    notes = run_events(history).notes("recovered", Usable)
    return next((op.time for op, usable in notes if usable.seconds is not None), None)


def _claims(ops: Iterable[Answered]) -> Mapping[tuple[str, str], list[Answered]]:
    """The claims that may have made each queue."""
    found: dict[tuple[str, str], list[Answered]] = {}
    for op in ops:
        if op.f == CLAIM and op.type != "fail":
            v, q = op.asked
            found.setdefault((v, q), []).append(op)
    return found


def _ends(ops: Iterable[Answered]) -> Mapping[int, list[tuple[int, int]]]:
    """For each process its ops after which its connection has certainly ended: rows of invocation and completion."""
    found: dict[int, list[tuple[int, int]]] = {}
    for op in ops:
        if op.complete != NEVER and (op.type == "info" or (op.f == DISCONNECT and op.type == "ok")):
            found.setdefault(op.process, []).append((op.invoke, op.complete))
    return found


def _free_ns(claims: Sequence[Answered], ends: Mapping[int, list[tuple[int, int]]], time: Ints) -> int | None:
    """When the last connection that made one of these claims had ended; None if one may be open, or there is none."""
    rows = list[int]()
    for claim in claims:
        later = [complete for invoke, complete in ends.get(claim.process, ()) if invoke >= claim.invoke]
        if not later:
            return None
        rows.append(min(later))
    return int(time[max(rows)]) if rows else None
