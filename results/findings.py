"""What the evidence of a verdict names: findings, the ops that show them, and reports of nodes.

Each checker has evidence of its own form; this reads all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, cast

import pyarrow as pa

from splitbrain.results.text import clip

_INDEXES: Final = ("index", "invoked_index", "invoked")
"""What the index of an op is called in an object that stands for it."""


class Moment(NamedTuple):
    """A report of a node, as part of the evidence: it is marked on the node's lane."""

    node: str
    time_s: float
    words: str


class Finding(NamedTuple):
    """One of the violations that a checker found.

    Attributes:
        rule: its rule or anomaly, "" where it has none.
        sentence: what happened.
        ops: indexes of the ops that show it.
        moments: reports of nodes that show it.
        window: the number of the window of quorum progress in which it did, None if it belongs to none.
    """

    rule: str
    sentence: str
    ops: list[int]
    moments: list[Moment]
    window: int | None = None


def evident_ns(history: pa.Table, evidence: Any) -> int | None:
    """When the first finding was complete: the time of the last op, or report of a node, that shows it.

    Where the evidence has neither findings nor ops, each report of a node is one by itself (nodes that ended).

    Args:
        history: of the run, the indexes of its ops from 0 on without a gap.
        evidence: of a verdict of "false".

    Returns:
        Nanoseconds of the run; None if the evidence names no op and no time.
    """
    times = history["time"]

    def complete(ops: Iterable[int], moments: Iterable[Moment] = ()) -> int | None:
        known = [times[index].as_py() for index in ops if index < len(times)]
        return max([*known, *(round(moment.time_s * 1e9) for moment in moments)], default=None)

    ends = [complete(finding.ops, finding.moments) for finding in findings_of(evidence)]
    if not ends:
        ops = op_indexes(evidence)
        ends = [complete(ops)] if ops else [complete((), [moment]) for moment in moments_of(evidence)]
    return min((end for end in ends if end is not None), default=None)


def findings_of(evidence: Any) -> list[Finding]:
    """The findings in a piece of evidence: under `findings`, or under `anomalies` by their names."""
    if not isinstance(evidence, dict):
        return []
    known = cast("dict[str, Any]", evidence)
    listed = _listed(known.get("findings"))
    if isinstance(known.get("anomalies"), dict):
        listed = listed + [finding for found in known["anomalies"].values() for finding in _listed(found)]
    findings = [cast("dict[str, Any]", finding) for finding in listed if isinstance(finding, dict)]
    return [
        Finding(
            rule=clip(str(finding.get("rule") or finding.get("anomaly") or ""), 40),
            sentence=str(finding.get("sentence", "")),
            ops=list(dict.fromkeys([*_indexes(finding.get("ops")), *_walk(finding)])),
            moments=list(moments_of(finding)),
            window=finding["window"] if isinstance(finding.get("window"), int) else None,
        )
        for finding in findings
        if finding.get("sentence")
    ]


def moments_of(value: Any) -> Iterable[Moment]:
    """Rows of the telemetry in a finding or in evidence: objects with a node and a time that are no ops."""
    if isinstance(value, dict):
        known = cast("dict[str, Any]", value)
        node, time_s = known.get("node"), known.get("time_s")
        if isinstance(node, str) and isinstance(time_s, (int, float)) and _index(known) is None:
            words = (f"{name} {known[name]}" for name in ("event", "role", "term", "commit_index") if name in known)
            yield Moment(node, float(time_s), clip(", ".join(words), 120))
        for child in known.values():
            yield from moments_of(child)
    elif isinstance(value, list):
        for child in cast("list[Any]", value):
            yield from moments_of(child)


def op_indexes(evidence: Any) -> list[int]:
    """Indexes of the ops on which a piece of evidence rests.

    The smallest set that the evidence offers is taken: `witness` (a list of ops, or an object that has them as `ops`),
    then `ops`, then `failing_op` with its `window`; failing all, every op in it. An op is an index in the history, or
    an object with an `index`, an `invoked_index` or `invoked` (as witnesses of transactions have it).
    """
    if not isinstance(evidence, dict):
        return []
    known = cast("dict[str, Any]", evidence)
    witness = known.get("witness")
    if isinstance(witness, dict):
        witness = cast("dict[str, Any]", witness).get("ops")
    for offered in (witness, known.get("ops"), [*_listed(known.get("window")), known.get("failing_op")]):
        if found := _indexes(offered):
            return list(dict.fromkeys(found))
    return list(dict.fromkeys(_walk(known)))


def all_op_indexes(evidence: Any) -> list[int]:
    """Indexes of all ops that a piece of evidence names, each once."""
    of_findings = [op for finding in findings_of(evidence) for op in finding.ops]
    return list(dict.fromkeys([*op_indexes(evidence), *of_findings, *_walk(evidence)]))


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _indexes(ops: Any) -> list[int]:
    """Of a list of ops, each an index or an object that has one."""
    return [index for op in _listed(ops) if (index := _index(op)) is not None]


def _index(op: Any) -> int | None:
    if isinstance(op, dict):
        known = cast("dict[str, Any]", op)
        op = next((known[name] for name in _INDEXES if name in known), None)
    return op if isinstance(op, int) and not isinstance(op, bool) and 0 <= op < 2**63 else None


def _walk(value: Any) -> Iterable[int]:
    if isinstance(value, dict):
        index = _index(cast("Any", value))
        if index is not None:
            yield index
        for child in cast("dict[str, Any]", value).values():
            yield from _walk(child)
    elif isinstance(value, list):
        for child in cast("list[Any]", value):
            if isinstance(child, (dict, list)):
                yield from _walk(child)
