"""The verdict of a checker, and how verdicts add up to the outcome of a run.

`valid` is "true" (proven), "false" (with evidence that a person can verify by hand) or "unknown" (what ran out, and how
far it got). Nothing here turns an "unknown" into a "true", and no "unknown" hides a "false".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec
import pyarrow as pa

from splitbrain.results import errors
from splitbrain.results.reasons import Code, Reason, in_order, reason_of

if TYPE_CHECKING:
    from splitbrain.results.summarized import SummarizedHistory

Valid = Literal["true", "false", "unknown"]

Partition: TypeAlias = Literal["run", "key", "telemetry"]
"""The input of a checker: a run's history, the client ops of one key of it, or the run's telemetry."""

Whole: TypeAlias = Literal["whole run"]
"""The input of a checker that needs both: a run's history, and its telemetry."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One checker's verdict on one partition of a history, or, merged, on a whole run.

    Attributes:
        checker: the checker's name, e.g. "linearizable".
        valid: "true", "false" or "unknown".
        key: the independent key that was judged, None for the run as a whole.
        algorithm: how it was decided, e.g. "frontier".
        sentence: the answer in plain words; for "false" it names key, node and times, for "unknown" what ran out.
        anomalies: names of what was found, e.g. "nonlinearizable", "lost", "G-single".
        inconclusive: reasons why the run proves too little, root causes first; an "unknown" has at least one. A plain
            sentence becomes a reason of the code "other".
        evidence: a minimal witness, in terms of op indexes and values.
        figures: counts and other numbers.
        seconds: CPU time of the kernel after compilation.
    """

    checker: str
    valid: Valid
    key: str | None = None
    algorithm: str = ""
    sentence: str = ""
    anomalies: tuple[str, ...] = ()
    inconclusive: tuple[Reason, ...] = ()
    evidence: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    figures: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    seconds: float = 0.0

    def __post_init__(self) -> None:
        """Put the reasons in order; an "unknown" of a checker that gives none is one by itself."""
        reasons = list(map(reason_of, self.inconclusive))
        if not reasons and self.valid == "unknown":
            reasons = [Reason(Code.UNDECIDED, self.sentence or f"the checker {self.checker} could not decide.")]
        msgspec.structs.force_setattr(self, "inconclusive", tuple(in_order(reasons)))


class CheckerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A checker by name, with options for JSON: as `test.json` stores it and Spark sends it to its workers."""

    name: str
    options: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class Checker(Protocol):
    """A pure function from a partition of what a run recorded to verdicts.

    `partition` says what a partition is. "run" and "key": the whole history, or the ops of one key, with the columns of
    `splitbrain.results.arrow.HISTORY_SCHEMA`, sorted by index, nemesis and harness ops included in a partition by run,
    left out of a partition by key. "telemetry": of the nodes of a run, with the columns of
    `splitbrain.results.arrow.TELEMETRY_SCHEMA`, at least one row; rows of one node are in the order in which it wrote
    them.

    A checker by run that has an attribute `counts_ops = True` looks at no micro-operations, only at whether an op has
    any: then a large file of transactions need not be read as a whole for it. One that has `keys_apart = True` judges
    each key by itself: where the ops of one key make no sense, a violation of another key stands. One that judges the
    ops of some functions, and passes over others, has a method `functions`
    (`splitbrain.checkers.left_out.OfFunctions`).
    """

    name: str
    partition: Partition

    def check(self, table: pa.Table, options: Mapping[str, Any], /) -> Verdict:
        """Judge one partition.

        Raises:
            UsageError: an option is wrong.
        """
        ...

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """One verdict for the run from those of its partitions (in order of their keys)."""
        ...


@runtime_checkable
class SummaryChecker(Protocol):
    """What a checker by run may have besides: it judges a stored history of which not all is read."""

    def check_summarized(self, history: SummarizedHistory, options: Mapping[str, Any], /) -> Verdict | None:
        """The verdict that `check` gives on the table of that history; None if it needs the table.

        Raises:
            UsageError: an option is wrong.
        """
        ...


class WholeChecker(Protocol):
    """A pure function from all that a run recorded to a verdict; tables as in `Checker`, the telemetry may be empty.

    One that has an attribute `needs_telemetry = True` is not asked where it is: its verdict is unknown then.
    """

    name: str
    partition: Whole

    def check(self, history: pa.Table, telemetry: pa.Table, options: Mapping[str, Any], /) -> Verdict:
        """Judge a run.

        Raises:
            UsageError: an option is wrong.
        """
        ...

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """The one verdict."""
        ...


AnyChecker: TypeAlias = Checker | WholeChecker


class OfOneRun:
    """A checker that judges a whole run at once: there is one verdict, and nothing to merge."""

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """The verdict of the run.

        Raises:
            ValueError: there is not exactly one.
        """
        (verdict,) = verdicts
        return verdict


class Outcome(Enum):
    """How a run ended, in order of severity: of many, the most severe decides."""

    PASS = "pass"
    INCONCLUSIVE = "inconclusive"
    HARNESS_ERROR = "harness error"
    VIOLATION = "violation"

    @property
    def exit_code(self) -> int:
        """The exit code of a command that ended so (Jepsen's codes)."""
        return _EXIT_CODES[self]

    @property
    def severity(self) -> int:
        """Higher is worse."""
        return _SEVERITY.index(self)


_SEVERITY = [Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.HARNESS_ERROR, Outcome.VIOLATION]
_EXIT_CODES = {
    Outcome.PASS: errors.EXIT_PASS,
    Outcome.VIOLATION: errors.EXIT_VIOLATION,
    Outcome.INCONCLUSIVE: errors.EXIT_INCONCLUSIVE,
    Outcome.HARNESS_ERROR: errors.EXIT_HARNESS_ERROR,
}


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The most severe of many outcomes; a pass if there are none."""
    return max(outcomes, key=lambda outcome: outcome.severity, default=Outcome.PASS)


def reasons(verdicts: Iterable[Verdict]) -> list[Reason]:
    """Why a run proves too little, by all its verdicts, root causes first; empty if it proves enough."""
    return in_order(reason for verdict in verdicts for reason in verdict.inconclusive)


def outcome(verdicts: Iterable[Verdict], harness_error: str | None = None) -> Outcome:
    """The outcome of a run from its verdicts."""
    found = [Outcome.PASS]
    if harness_error is not None:
        found.append(Outcome.HARNESS_ERROR)
    for verdict in verdicts:
        if verdict.valid == "false":
            found.append(Outcome.VIOLATION)
        elif verdict.valid == "unknown" or verdict.inconclusive:
            found.append(Outcome.INCONCLUSIVE)
    return worst(found)
