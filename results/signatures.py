"""Signatures identify a violation across runs: checker, anomaly, shape of the witness, faults in force.

Nothing in a signature depends on the seed, the time, or the names of nodes, keys and values: the same bug, found by
another run, has the same one. It is written with slashes, and so it stands in `verdict.json`, in what `splitbrain hunt`
and `splitbrain nightly` answer, and in the baseline file of a project:

    linearizable/nonlinearizable/read/partition
    list-append/G-single/rw-wr/none
    durability/vote-forgotten/follower/power

`*` stands for anything: so a baseline has entries for many signatures, and so those of runs are read that were judged
by an earlier version, which kept neither shapes nor faults.

A run that fails has one signature for each anomaly that a checker names. The first of them is its leading one: of the
checker whose violation was complete first, since what follows it is often a consequence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, TypeVar, cast, get_args

import msgspec
import pyarrow as pa

from splitbrain.results.calls import ints
from splitbrain.results.errors import UsageError
from splitbrain.results.faults import Window, run_events
from splitbrain.results.findings import all_op_indexes, moments_of, op_indexes
from splitbrain.results.witness import EdgeKind, witnesses_of

ANY: Final = "*"
"""The part of a signature that any other part matches."""

NONE: Final = "none"
"""No fault was in force."""

HARNESS: Final = "harness"
"""The checker of a signature that stands for an error of the harness."""

V = TypeVar("V")

_PART: Final = re.compile(r"[^A-Za-z0-9._:#+*-]+")
_ERROR_CHARS: Final = 80
_PARTS: Final = 4
_COMPLETED: Final = ("completed_index", "completed")
_KINDS: Final = frozenset(get_args(EdgeKind))


class Signature(msgspec.Struct, frozen=True, order=True):
    """Identifies a violation across runs.

    Attributes:
        checker: who found it.
        anomaly: its name for what it found.
        shape: of the witness: the edges of a cycle, the function of an op, the role of a node, how a node ended; "-" if
            the evidence has none of these.
        faults: the kinds of faults in force while it happened, sorted and joined by "+"; "none" without any.
    """

    checker: str
    anomaly: str
    shape: str = ANY
    faults: str = ANY

    def __str__(self) -> str:
        return "/".join((self.checker, self.anomaly, self.shape, self.faults))

    def matches(self, other: Signature) -> bool:
        """Whether both may stand for the same: each part is the same, or `*` in one of them."""
        return all(
            ANY in (one, another) or one == another
            for one, another in zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        )

    @staticmethod
    def parse(text: str) -> Signature:
        """A signature as it is written; parts that are left out at the end are `*`.

        Raises:
            UsageError: it is none.
        """
        parts = text.strip().split("/")
        if not 2 <= len(parts) <= _PARTS or not all(parts) or any(_PART.search(part) for part in parts):
            raise UsageError(
                f"{text!r} is no signature: write CHECKER/ANOMALY/SHAPE/FAULTS, * for any part, such as "
                "linearizable/nonlinearizable/read/partition."
            )
        return Signature(*parts)

    @staticmethod
    def of_error(message: str) -> Signature:
        """That of an error of the harness: its first words, without numbers."""
        return Signature(HARNESS, "error", part(anonymous(message)), ANY)


def part(text: str) -> str:
    """Text as a part of a signature: what has a meaning there is replaced."""
    return _PART.sub("_", text.replace(ANY, "_")).strip("_") or "-"


def leading_first(verdicts: Iterable[V], checker: Callable[[V], str], signatures: Sequence[object]) -> list[V]:
    """Verdicts in their order, but those of the checker of the leading signature first: so both speak of the same.

    Args:
        verdicts: those that found something.
        checker: the name of the checker of one.
        signatures: of the run, the leading one first.
    """
    leading = str(signatures[0]).partition("/")[0] if signatures else None
    return sorted(verdicts, key=lambda each: part(checker(each)) != leading)


def anonymous(message: str) -> str:
    """The first words of a message with `#` for each number: the same for other seeds, times and sizes."""
    return re.sub(r"-?\d+", "#", message)[:_ERROR_CHARS]


def families(signatures: Iterable[Signature]) -> str:
    """Checkers with their anomalies, sorted, for people and for counting: "quorum-progress: Q2, Q3; set: lost"."""
    named: dict[str, dict[str, None]] = {}
    for each in sorted(signatures):
        named.setdefault(each.checker, {})[each.anomaly] = None
    return "; ".join(f"{checker}: {', '.join(anomalies)}" for checker, anomalies in named.items())


class Setting(msgspec.Struct, frozen=True):
    """What a run says of when its ops happened, and of what was wrong then.

    Attributes:
        time_of: when an op with this index was recorded, in nanoseconds of the run; None if there is no such op.
        windows: when which fault was in force; None where that is not known.
    """

    time_of: Callable[[int], int | None]
    windows: Sequence[Window] | None


UNKNOWN: Final = Setting(lambda _: None, None)
"""Of a run whose history cannot be read."""


def setting_of(history: pa.Table) -> Setting:
    """That of a history, sorted by its indexes, which begin with 0 and have no gap."""
    times = ints(history, "time")
    return Setting(lambda index: int(times[index]) if 0 <= index < len(times) else None, run_events(history).windows)


def signatures_of(verdicts: Iterable[Mapping[str, Any]], setting: Setting) -> tuple[Signature, ...]:
    """The signatures of a run, the leading one first, each once.

    Args:
        verdicts: as verdict.json has them; those with `valid` other than false count for nothing.
        setting: of the run.
    """
    guilty = [verdict for verdict in verdicts if verdict.get("valid") in (False, "false")]
    found = [_of_verdict(verdict, setting) for verdict in guilty]
    ordered = sorted(found, key=lambda each: each[0])  # stable: the order of the checkers where times are equal
    return tuple(dict.fromkeys(signature for _, signatures in ordered for signature in signatures))


def _of_verdict(verdict: Mapping[str, Any], setting: Setting) -> tuple[float, list[Signature]]:
    """When the first of its violations was complete, and a signature for each anomaly, those of the fewest edges first.

    A read of what was aborted shows in many cycles, of which each run has others.
    """
    checker, evidence = part(str(verdict.get("checker", "?"))), verdict.get("evidence")
    first, signatures = float("inf"), list[Signature]()
    for name in verdict.get("anomalies") or ["violation"]:
        shown = _shown(evidence, str(name))
        end_ns = _evident_ns(shown, setting)
        signatures.append(Signature(checker, part(str(name)), _shape(shown), _faults(end_ns, setting)))
        first = min(first, float("inf") if end_ns is None else end_ns)
    return first, sorted(signatures, key=lambda each: _edges(each.shape))


def _edges(shape: str) -> int:
    """How many edges a cycle of this shape has; 0 for what is none."""
    kinds = shape.split("-")
    return len(kinds) if all(kind in _KINDS for kind in kinds) else 0


# --- the witness ------------------------------------------------------------------------------------------------------


def _shown(evidence: Any, anomaly: str) -> Any:
    """The first finding of this anomaly; the whole evidence where findings are not named, or there are none."""
    if not isinstance(evidence, dict):
        return None
    known = cast("dict[str, Any]", evidence)
    named = known.get("anomalies")
    listed: list[Any] = list(_list(known.get("findings")))
    if isinstance(named, dict):
        listed += _list(cast("dict[str, Any]", named).get(anomaly))
    for finding in listed:
        if isinstance(finding, dict) and anomaly in (finding.get("rule"), finding.get("anomaly"), finding.get("type")):
            return cast("Any", finding)
    return cast("Any", known)


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _first(listed: Any) -> dict[str, Any] | None:
    """The first object of a list; None if there is none."""
    return next((cast("dict[str, Any]", each) for each in _list(listed) if isinstance(each, dict)), None)


def _shape(shown: Any) -> str:
    """What the witness looks like, without names, numbers and values."""
    if not isinstance(shown, dict):
        return "-"
    known = cast("dict[str, Any]", shown)
    cycle = _cycle(known)
    if cycle:
        return cycle
    failing = known.get("failing_op")
    if isinstance(failing, dict):
        return part(str(cast("dict[str, Any]", failing).get("f", "-")))
    ended = _first(known.get("ended"))
    if ended is not None:
        return _crash(ended)
    row = _first([known.get("row")]) or _first(known.get("rows"))
    if row is not None:
        # Not its event: what a node happened to report first after it went wrong differs from run to run.
        return part(str(row.get("role") or "-"))
    return "-"


def _crash(ended: Mapping[str, Any]) -> str:
    """How a node ended, in its own words without its name and numbers."""
    words = str(ended.get("exit", ""))
    node = ended.get("node")
    if isinstance(node, str) and node:
        words = re.sub(rf"\b{re.escape(node)}\b", "node", words)
    return part(anonymous(words))


def _cycle(finding: Mapping[str, Any]) -> str:
    """The kinds of a cycle's edges in order, from the least of its rotations; equal neighbours count once.

    A cycle through more transactions, related in the same ways, is of the same shape.
    """
    [witness] = witnesses_of({"findings": [finding]}) or [None]
    if witness is None or not witness.edges:
        return ""
    kinds = [kind for kind, _ in groupby(edge.kind for edge in witness.edges)]
    if len(kinds) > 1 and kinds[0] == kinds[-1]:
        kinds.pop()
    return "-".join(min(kinds[shift:] + kinds[:shift] for shift in range(len(kinds))))


# --- the faults -------------------------------------------------------------------------------------------------------


def _evident_ns(shown: Any, setting: Setting) -> int | None:
    """When what is shown was complete."""
    if not isinstance(shown, dict):
        return None
    failing = cast("dict[str, Any]", shown).get("failing_op")
    rows = [*op_indexes(shown), *_completions(shown if failing is None else failing)]
    times = [time for row in rows if (time := setting.time_of(row)) is not None]
    return max([*times, *(round(moment.time_s * 1e9) for moment in moments_of(shown))], default=None)


def named_rows(evidence: Any) -> set[int]:
    """The rows of a history whose times say when the violations of a piece of evidence were complete."""
    return {*all_op_indexes(evidence), *_completions(evidence)}


def _completions(value: Any) -> Iterator[int]:
    """The indexes of completions that evidence names beside those of invocations."""
    if isinstance(value, dict):
        known = cast("dict[str, Any]", value)
        if "process" in known:  # an op or a transaction, and no figures
            yield from (row for name in _COMPLETED if isinstance(row := known.get(name), int))
        for child in known.values():
            yield from _completions(child)
    elif isinstance(value, list):
        for child in cast("list[Any]", value):
            yield from _completions(child)


def _faults(end_ns: int | None, setting: Setting) -> str:
    """The kinds of faults that were in force when it was complete."""
    if setting.windows is None:
        return ANY
    if end_ns is None:
        return NONE if not setting.windows else ANY
    kinds = {part(window.fault) for window in setting.windows if window.begin_ns <= end_ns <= window.end_ns}
    return "+".join(sorted(kinds)) or NONE
