"""Durability of the log: what a node said is durable is there when it starts again.

    log-forgotten   a node recovered a log that ends before an index which it had said is durable

Replication repairs such a log, so that clients seldom see it: it takes the loss of a majority. The node itself shows it
at its next start. A log is also shorter when another leader's entries took the place of its own, which the node reports
before it cuts them off, and when its disk lost data, which nemesis ops say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

import pyarrow as pa

from splitbrain.checkers.consensus.rows import LISTED, Row, of_group, refuse_options, rows
from splitbrain.checkers.verdict import Verdict, Whole
from splitbrain.results.faults import FaultOp, run_events
from splitbrain.results.quantities import counted

_LOSSES: Final = ("truncate", "rot", "wipe")
"""Faults of a disk (fields of `splitbrain.harness.contract.faults.DiskFault`) that take what was durable."""


class LogDurability:
    """Judges every row of event "start" with a `last_index` behind the first of a node. No options.

    It is compared with the newest `last_index` of the node's life before, in a row of any event but "role" and "start".
    A node whose disk lost data by a nemesis op, begun before it started, is left out from then on, and so is one that
    left and came back as another member. The figures: `restarts` judged, `excused`, `highest` index that was said to be
    durable, and `broken` restarts.
    """

    name = "log-durability"
    partition: Whole = "whole run"

    def check(self, history: pa.Table, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge a run: its nemesis ops, and the telemetry of its nodes."""
        refuse_options(self.name, options)
        restarts = list(_restarts(rows(telemetry)))
        losses = [op for op in run_events(history).fault_ops if _loses(op)]
        judged = [(said, start) for said, start in restarts if not _is_excused(start, losses)]
        found = [_finding(said, start) for said, start in judged if _last(start) < _last(said)]
        return Verdict(
            checker=self.name,
            valid="false" if found else "true",
            algorithm="start by start",
            sentence=_sentence(found, len(judged), len(restarts) - len(judged)),
            anomalies=("log-forgotten",) if found else (),
            evidence={"findings": found[:LISTED]} if found else {},
            figures={
                "restarts": len(judged),
                "excused": len(restarts) - len(judged),
                "highest": max((_last(said) for said, _ in judged), default=0),
                "broken": len(found),
            },
        )

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """A run is one partition: there is one verdict."""
        (verdict,) = verdicts
        return verdict


def _restarts(table: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """For each start what the node had said last, and the row of the start."""
    said: dict[tuple[str | None, str], Row] = {}
    for row in table:
        member = (row.group, row.node)
        if row.event == "new-member":
            said.pop(member, None)
        elif row.event == "start":
            before = said.pop(member, None)
            if row.last_index is not None:
                if before is not None:
                    yield before, row
                said[member] = row
        elif row.event != "role" and row.last_index is not None:
            said[member] = row


def _loses(op: FaultOp) -> bool:
    spoil = _mapping(_mapping(op.invoke.value).get("spoil"))
    return any(spoil.get(loss) for loss in _LOSSES)


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _is_excused(start: Row, losses: Iterable[FaultOp]) -> bool:
    return any(op.invoke.time < start.time and _may_hit(op, start.node) for op in losses)


def _may_hit(op: FaultOp, node: str) -> bool:
    """Whether the op hit a node, or does not say which it hit."""
    return not op.verified or node in op.said.target.replace(",", " ").split()


def _last(row: Row) -> int:
    return row.last_index or 0


def _finding(said: Row, start: Row) -> dict[str, Any]:
    return {
        "anomaly": "log-forgotten",
        "sentence": (
            f"Log forgotten: {start.node}{of_group(start.group)} had said that its log is durable up to entry "
            f"{_last(said)} ({said.at}), and recovered a log that ends at {_last(start)} ({start.at})."
        ),
        "missing": [_last(start) + 1, _last(said)],
        "said": said.shown(),
        "start": start.shown(),
    }


def _sentence(found: list[dict[str, Any]], judged: int, excused: int) -> str:
    left_out = f" ({counted(excused, 'restart')} on disks that had lost data left out.)" if excused else ""
    if found:
        more = f" ({len(found)} restarts in all.)" if len(found) > 1 else ""
        return f"{found[0]['sentence']}{more}"
    if not judged:
        return f"No node that says how far its log is durable was restarted.{left_out}"
    return f"After {counted(judged, 'restart')} each log had all that its node had said is durable.{left_out}"
