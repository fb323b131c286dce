"""What the nemesis did, as rows of a table: to whom, what was in force afterwards, and how that was seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from splitbrain.results.faults import FaultOp
from splitbrain.results.quantities import counted
from splitbrain.results.report.run_view import RunView
from splitbrain.results.text import clip

FAULTS_MAX: Final = 300
"""The largest number of nemesis ops in the table."""

_RAW_MAX: Final = 2000
_WORDS_MAX: Final = 8
"""The largest number of facts of a piece of evidence in words; the record beside them has all."""

_DEPTH_MAX: Final = 3


def fault_rows(view: RunView) -> list[dict[str, Any]]:
    """One row per op of the nemesis, in the order of time."""
    return [_row(op) for op in view.events.fault_ops[:FAULTS_MAX]]


def _row(op: FaultOp) -> dict[str, Any]:
    evidence = op.said.evidence.measured
    words = evidence_words(evidence)
    raw = clip(evidence, _RAW_MAX) if evidence else ""
    return {
        "index": op.invoke.index,
        "f": op.invoke.f,
        "detail": op.said.shape or op.said.spec,
        "target": op.said.target,
        "time_s": op.invoke.time / 1e9,
        "took_s": (op.completion.time - op.invoke.time) / 1e9 if op.completion else None,
        "verified": op.verified,
        "error": op.error,
        "state": _state(op),
        "words": words or clip(raw, 90),
        "raw": raw,
    }


def _state(op: FaultOp) -> str:
    said = op.said
    found = [f"{counted(len(said.cut), 'link')} cut"] if said.cut else []
    found += [f"{counted(len(said.links), 'link')} disturbed"] if said.links else []
    states = (("down", said.down), ("paused", said.paused), ("disks", said.disks), ("clocks", said.clocks))
    found += [f"{name}: {' '.join(nodes)}" for name, nodes in states if nodes]
    return ", ".join(found) or "nothing in force"


def evidence_words(evidence: Any) -> str:
    """The numbers and words in a piece of evidence, with where they stand in it; lists are left to the record."""
    facts = list(_facts(evidence, ()))
    more = f"; {len(facts) - _WORDS_MAX} more" if len(facts) > _WORDS_MAX else ""
    return "; ".join(facts[:_WORDS_MAX]) + more


def _facts(value: Any, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, dict):
        known = cast("dict[str, Any]", value)
        if path and known.keys() == {"before", "after"}:
            yield f"{' '.join(path)} {_change(known['before'], known['after'])}"
        elif len(path) < _DEPTH_MAX:
            for name, part in known.items():
                yield from _facts(part, (*path, clip(str(name).replace("_", " "), 40)))
    elif value is not None and not isinstance(value, list) and path:
        if path[-1] == "bit":
            yield " ".join((*path[:-1], "effect seen" if value else "no effect seen"))
        else:
            words = {True: "yes", False: "no"}[value] if isinstance(value, bool) else clip(value, 60)
            yield f"{' '.join(path)} {words}"


def _change(before: Any, after: Any) -> str:
    """What is not as it was, such as "state running → stopped"."""
    was, is_now = _flat(before), _flat(after)
    changed = [name for name in (was | is_now) if was.get(name) != is_now.get(name)]
    words = (f"{name} {was.get(name, 'none')} → {is_now.get(name, 'none')}".strip() for name in changed)
    return ", ".join(words) or "as it was"


def _flat(value: Any, path: tuple[str, ...] = ()) -> dict[str, str]:
    """The leaves of a record by the names that lead to them."""
    if not isinstance(value, dict):
        return {" ".join(path): clip(value, 60)}
    found: dict[str, str] = {}
    if len(path) < _DEPTH_MAX:
        for name, part in cast("dict[str, Any]", value).items():
            found |= _flat(part, (*path, clip(str(name).replace("_", " "), 40)))
    return found
