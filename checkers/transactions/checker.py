"""The checkers `list-append`, `rw-register` and `closed-predicate`: isolation of transactions, as Elle judges it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers import left_out
from splitbrain.checkers.kernels import cpu_s
from splitbrain.checkers.partitions import by_key
from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.graph import DERIVED, PROCESS, RW, RWP, WR, WRP, parts
from splitbrain.checkers.transactions.judging import DEFAULT_MODELS, Expected, Workload
from splitbrain.checkers.transactions.models import EMPTY_GRAPH, EXISTS, refuse_untestable
from splitbrain.checkers.transactions.report import Judged, judged, judged_by_summary
from splitbrain.checkers.transactions.universes import merged
from splitbrain.checkers.transactions.weak import is_weak
from splitbrain.checkers.verdict import Partition, Valid, Verdict
from splitbrain.results.columns import codes, numbers
from splitbrain.results.errors import UsageError
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason
from splitbrain.results.summarized import SummarizedHistory

ALGORITHM: Final = "dependency graph"
WEAK: Final = f"{ALGORITHM} and vector clocks"
JUDGED: Final = ("txn", "init")
"""Functions of ops that are judged; the second one begins histories of predicates."""

_NO_OTHERS: Final = "Leave those ops out of the history, or give them the function txn if they are transactions."

_LISTED: Final = 20
"""The largest number of keys that a sentence or the evidence lists."""


_Index: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,18}$")]
_Place: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a history should satisfy, and what may be assumed of it.

    Attributes:
        consistency_models: names of consistency models.
        anomalies: further anomalies that it should not have.
        sequential_keys, linearizable_keys, wfr_keys: see `Assumptions`; for registers.
        transaction_order: see `Assumptions`; the indexes are texts, as JSON has them.
    """

    consistency_models: tuple[str, ...] = DEFAULT_MODELS
    anomalies: tuple[str, ...] = ()
    sequential_keys: bool = False
    linearizable_keys: bool = False
    wfr_keys: bool = False
    transaction_order: dict[_Index, _Place] | None = None

    @property
    def assumptions(self) -> Assumptions:
        """What may be assumed."""
        order = self.transaction_order
        return Assumptions(
            self.sequential_keys,
            self.linearizable_keys,
            self.wfr_keys,
            None if order is None else {int(index): place for index, place in order.items()},
        )


class _Isolation:
    """Judges the transactions of a run: ops of the function "txn" with micro-operations.

    The options are those of `Options`. A verdict that is "false" has a verified witness of each anomaly in its
    evidence; `not` and `also_not` there are the models that the history does not satisfy, the weakest ones first.
    """

    name: str
    workload: Workload
    partition: Partition = "run"

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge a history. Transactions of several independent keys are as many histories.

        Raises:
            UsageError: an option is wrong, or names an unknown model or anomaly.
            HistoryFormatError: the history is not of this workload.
        """
        return with_left_out(self._of_transactions(history, options), history)

    def _of_transactions(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        chosen = options_of(self.name, options)
        expected = Expected(chosen.consistency_models, chosen.anomalies)
        parts = list(by_key(history)) if has_several_keys(history) else [history]
        if len(parts) == 1:
            return self._judged(history, expected, chosen.assumptions)
        verdicts: list[Verdict] = []
        for part in parts:
            found = self._judged(part, expected, chosen.assumptions)
            verdicts.append(msgspec.structs.replace(found, key=part.column("key")[0].as_py()))
        return merged(self.name, verdicts, by_process=by_process(expected), of="key")

    def _judged(self, history: pa.Table, expected: Expected, assumptions: Assumptions) -> Verdict:
        began_s = cpu_s()
        found = judged(history, self.workload, expected, assumptions)
        return verdict_of(self.name, found, expected, round(cpu_s() - began_s, 6))

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """The one verdict."""
        [verdict] = verdicts
        return verdict


class ListAppend(_Isolation):
    """Appends to lists, and reads of whole lists."""

    name = "list-append"
    workload: Workload = "list-append"

    def check_summarized(self, history: SummarizedHistory, options: Mapping[str, Any], /) -> Verdict | None:
        """The same verdict on a stored history, by the summaries of its lists; None if the table has to decide.

        Raises:
            UsageError: an option is wrong, or names an unknown model or anomaly.
        """
        chosen = options_of(self.name, options)
        expected = Expected(chosen.consistency_models, chosen.anomalies)
        began_s = cpu_s()
        found = None if has_several_keys(history.frame) else judged_by_summary(history, expected)
        if found is None:
            return None
        return with_left_out(verdict_of(self.name, found, expected, round(cpu_s() - began_s, 6)), history.frame)


class RwRegister(_Isolation):
    """Writes of unique values to registers, and reads of them."""

    name = "rw-register"
    workload: Workload = "rw-register"


class ClosedPredicate(_Isolation):
    """Reads of all objects that match a predicate, of a universe whose objects are all known."""

    name = "closed-predicate"
    workload: Workload = "closed-predicate"


class Predicates(ClosedPredicate):
    """The same of many small universes, one for each key, that no transaction has two of.

    Dependencies stay in one universe, and real time is an order of intervals: where a cycle goes through several
    universes, one of them has a cycle by itself, with no antidependency more (as for objects: Herlihy and Wing, 1990).
    That is not so of the order of processes: a run that is judged by it, and not by real time, is inconclusive.
    """

    name = "predicates"
    partition: Partition = "key"

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        return JUDGED

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one universe."""
        return self._of_transactions(history, options)

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """The verdict on the run: broken universes first. One that proved too little does not matter beside others."""
        chosen = options_of(self.name, options)
        expected = Expected(chosen.consistency_models, chosen.anomalies)
        return merged(self.name, list(verdicts), by_process=by_process(expected))


def by_process(expected: Expected) -> bool:
    """Whether a history is judged by the order of processes, and not by real time, which includes it."""
    tags = {tag for tag in ("process", "realtime") for each in expected.proscribed if each.endswith(f"-{tag}")}
    return tags == {"process"}


def has_several_keys(history: pa.Table) -> bool:
    """Whether ops of clients have several keys, as those of `jepsen.independent` have: each is a store of its own."""
    key, names = codes(history.column("key"))
    return len(names) > 1 and len(np.unique(key[numbers(history.column("process")) >= 0])) > 1


def with_left_out(verdict: Verdict, history: pa.Table) -> Verdict:
    """The verdict; inconclusive if clients did more than transactions, unless it is a violation."""
    return with_others_than_transactions(verdict, left_out.calls_by_function(history))


def with_others_than_transactions(verdict: Verdict, calls: Mapping[str, int]) -> Verdict:
    """The same of a history of which only the number of ops of each function is known."""
    others = {f: count for f, count in calls.items() if f not in JUDGED}
    return left_out.with_others(verdict, others, nothing_else=True, advice=_NO_OTHERS) if others else verdict


def options_of(checker: str, options: Mapping[str, Any]) -> Options:
    """The options.

    Raises:
        UsageError: one is unknown, or of the wrong type; or every history satisfies the models.
    """
    try:
        chosen = msgspec.convert(dict(options), Options)
    except msgspec.ValidationError as error:
        raise UsageError(f"checker {checker}: {error}; it takes {', '.join(Options.__struct_fields__)}.") from error
    refuse_untestable(chosen.consistency_models, chosen.anomalies)
    return chosen


def verdict_of(name: str, found: Judged, expected: Expected, seconds: float) -> Verdict:
    """The verdict of the checker of that name on what was found.

    Args:
        name: of the checker.
        found: in the history.
        expected: what it should satisfy.
        seconds: that it took.
    """
    findings = found.findings
    bad = [each for each in findings.anomaly_types if each != EMPTY_GRAPH]
    proven = tuple(each for each in bad if each in found.witnesses or each.endswith(EXISTS))
    valid: Valid = "false" if proven else "unknown" if bad or findings.valid == "unknown" else "true"
    return Verdict(
        checker=name,
        valid=valid,
        algorithm=WEAK if name == "rw-register" and is_weak(expected.models) else ALGORITHM,
        sentence=_sentence(valid, found, proven, expected),
        anomalies=proven,
        inconclusive=() if valid == "false" else tuple(_untested(found, bad)),
        evidence=_evidence(found, proven),
        figures=_figures(found),
        seconds=seconds,
    )


def _sentence(valid: Valid, found: Judged, proven: tuple[str, ...], expected: Expected) -> str:
    findings, models = found.findings, " and ".join(expected.models) or "what was asked"
    if valid == "false":
        worst = next((each for each in found.witnesses if each in proven), None)
        if worst is None:
            return f"Not {models}: {counted(findings.cycles.core, 'transaction')} depend on each other in a cycle."
        return f"Not {models}: {worst}. {found.witnesses[worst][0]['sentence']}"
    if valid == "unknown":
        return "Unknown: no transaction depends on another one, so nothing was tested."
    count = counted(findings.inference.figures["transactions"], "transaction")
    said = f"Nothing in {count} contradicts {models}: {findings.cycles.edges} dependencies without a cycle."
    keys = _open_keys(found)
    if keys:
        said += f" Of {counted(keys, 'key')} the order of versions stayed open: {_names(found, 5)}."
    return said


def _open_keys(found: Judged) -> int:
    return len(found.findings.inference.open_keys) + found.findings.inference.more_open_keys


def _names(found: Judged, limit: int) -> str:
    inference = found.findings.inference
    names = [inference.transactions.key_names[key] for key in inference.open_keys[:limit]]
    return ", ".join(names) + (", ..." if _open_keys(found) > limit else "")


def _untested(found: Judged, bad: list[str]) -> Iterable[Reason]:
    """Why the history proves too little."""
    kinds = _kinds(found)
    if found.findings.lacks_realtime:
        yield Reason(
            Code.NOT_JUDGED,
            "Real time was not judged: the history orders only what one process did.",
            "Ask for a model that needs no real time, such as strong-session-serializable.",
        )
    if bad:
        yield Reason(Code.UNDECIDED, f"The witnesses of {', '.join(bad)} could not be verified: {found.unverified[0]}.")
    elif found.unverified:
        yield Reason(Code.UNDECIDED, f"A violation was found, but could not be verified: {found.unverified[0]}.")
    if found.undecided:
        yield Reason(Code.UNDECIDED, f"Not judged: {found.undecided[0]}")
    repeated = found.findings.inference.figures.get("repeated_writes", 0)
    if repeated:
        yield Reason(
            Code.UNDECIDED,
            f"Not judged: which of several transactions was read, of {counted(repeated, 'write')} of equal values.",
            "Let every transaction write values that no other one writes to the key.",
        )
    if not kinds["wr"]:
        yield Reason(
            Code.READS_SAW_NOTHING,
            "No committed transaction read what another one wrote.",
            "Read keys after they are written: use fewer keys, or longer runs.",
        )
    elif not kinds["rw"]:
        yield Reason(
            Code.NOT_EXERCISED,
            "No transaction overwrote what another one had read: no write skew, and no stale read, could have shown.",
            "Write keys after they are read: use fewer keys, or more clients.",
        )


def _kinds(found: Judged) -> dict[str, int]:
    """How many dependencies there are of each kind; those through joints count once for each edge to a joint."""
    counts = {"ww": 0, "wr": 0, "rw": 0}
    for kind, count in found.findings.inference.kinds.items():
        base = parts(kind)[0]
        if PROCESS <= kind < DERIVED:
            continue
        name = "rw" if base in (RW, RWP) else "wr" if base in (WR, WRP) else "ww"
        counts[name] += count
    return counts


def _evidence(found: Judged, proven: tuple[str, ...]) -> dict[str, Any]:
    findings = found.findings
    evidence: dict[str, Any] = {}
    if findings.anomaly_types:
        evidence = {
            "anomaly_types": list(findings.anomaly_types),
            "anomalies": {each: found.witnesses[each] for each in proven if each in found.witnesses},
            "not": list(findings.ruled_out),
            "also_not": list(findings.also_ruled_out),
        }
    if findings.tolerated:
        evidence["tolerated"] = list(findings.tolerated)
    if found.unverified:
        evidence["unverified"] = list(found.unverified)
    if findings.inference.open_keys:
        evidence["open_keys"] = [
            findings.inference.transactions.key_names[key] for key in findings.inference.open_keys[:_LISTED]
        ]
    return evidence


def _figures(found: Judged) -> dict[str, Any]:
    inference, cycles = found.findings.inference, found.findings.cycles
    return {
        **inference.figures,
        **_kinds(found),
        "edges": cycles.edges,
        "in_cycles": cycles.core,
        "open_keys": _open_keys(found),
        **dict(sorted(inference.counts.items())),
    }
