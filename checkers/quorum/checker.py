"""The checker `quorum-progress`: the right nodes answered, and the wrong ones stayed silent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitbrain.checkers.quorum.answers import Answers, answers
from splitbrain.checkers.quorum.findings import Fared, Finding, in_all
from splitbrain.checkers.quorum.leaders import consensus, convergence, superseded
from splitbrain.checkers.quorum.outages import outages
from splitbrain.checkers.quorum.output import FINDINGS_MAX, evidence, fared_by_window, violation_rows, window_rows
from splitbrain.checkers.quorum.progress import Bounds, progress, recovery_times, shares
from splitbrain.checkers.quorum.silence import before_a_majority, judged, wrong_side
from splitbrain.checkers.quorum.topology import NodeId
from splitbrain.checkers.quorum.windows import healed_by, windows_and_lulls
from splitbrain.checkers.verdict import Verdict, Whole
from splitbrain.results.arrivals import NEVER
from splitbrain.results.calls import ints
from splitbrain.results.clocks import clocks_of
from splitbrain.results.errors import UsageError
from splitbrain.results.faults import Happenings, happenings
from splitbrain.results.figures import DECIDED
from splitbrain.results.quorum import RECOVERY_ELECTIONS, RULES
from splitbrain.results.reasons import Code, Reason


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the checker takes; times in seconds.

    Attributes:
        nodes: all nodes of the test; those that the history and the telemetry name if none are given.
        fs: functions that need a quorum; None for all.
        decided: errors of `fail` ops with which the state answered.
        election_timeout_s: after so long without a leader's word a node stands for election at the latest.
        recovery_bound_s: for so long after a change no answer is demanded; RECOVERY_ELECTIONS of these if None.
        recovery_per_outage: for each second for which members of a core had been without each other when the window
            began, so many seconds more than the bound.
        outage_limit_s: outages are counted up to this length.
        op_timeout_s: after that a client gives up.
        lease_s: for so long a node without a quorum may go on to answer.
        attempts: so many ops a node must have been asked before its silence counts.
        convergence_bound_s: for so long after the load members may differ; as `recovery_bound_s` if None.
        clock_offset_s: how far the clocks of nodes and controller may be apart, at least: where the run tells how
            exactly that is known (`splitbrain.results.clocks`), it is as much as the largest error.
        availability: the least share of the seconds that the cluster must serve (`splitbrain.results.availability`); 0:
            none.
    """

    nodes: tuple[NodeId, ...] = ()
    fs: tuple[str, ...] | None = None
    decided: tuple[str, ...] = DECIDED
    election_timeout_s: float = 1.0
    recovery_bound_s: float | None = None
    recovery_per_outage: float = 0.0
    outage_limit_s: float = 120.0
    op_timeout_s: float = 2.0
    lease_s: float = 0.0
    attempts: int = 3
    convergence_bound_s: float | None = None
    clock_offset_s: float = 0.0
    availability: float = 0.0

    @property
    def recovery_s(self) -> float:
        """The recovery bound in force."""
        bound = self.recovery_bound_s
        return RECOVERY_ELECTIONS * self.election_timeout_s if bound is None else bound

    @property
    def convergence_s(self) -> float:
        """The bound of convergence in force."""
        return self.recovery_s if self.convergence_bound_s is None else self.convergence_bound_s

    def bounds(self) -> dict[str, float]:
        """Everything in force that the verdict depends on and that a test may set."""
        return {
            "recovery_s": self.recovery_s,
            "recovery_per_outage": self.recovery_per_outage,
            "clock_offset_s": self.clock_offset_s,
            "op_timeout_s": self.op_timeout_s,
            "lease_s": self.lease_s,
            "convergence_s": self.convergence_s,
            "attempts": self.attempts,
            "availability": self.availability,
        }


FIGURES_ONLY: Final = ("Q4", "Q9")
"""Rules that are figures, unless a test demands something of them."""

NUMBER_MAX: Final = 1_000_000_000
"""No option is larger: so many seconds are thirty years."""


class QuorumProgress:
    """Judges windows without faults' changes: who answered, and who should have (rules Q1 to Q10).

    The figures: `rules` (how each fared), `windows` and `violations` (a row for each, see
        `splitbrain.checkers.quorum.output`),
    `left_out` (how many rows and findings are not listed), `recovery` (Q4), `availability` (Q9), `bounds`.
    """

    name = "quorum-progress"
    partition: Whole = "whole run"

    def check(self, history: pa.Table, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge a run: its whole history, and what its nodes told, which may be nothing.

        Raises:
            UsageError: an option is wrong.
        """
        wanted = _options(options)
        run = _Run(history, telemetry, wanted)
        found = run.findings()
        fared = run.fared(found)
        rules = run.rules(found, fared)
        return Verdict(
            checker=self.name,
            valid="false" if found else "true",
            algorithm="windows",
            sentence=_sentence(found, run),
            anomalies=tuple(dict.fromkeys(finding.rule for finding in found)),
            inconclusive=_inconclusive(rules),
            evidence=evidence(found),
            figures={"rules": rules, **run.figures(found, fared)},
        )

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """A run is one partition: there is one verdict."""
        (verdict,) = verdicts
        return verdict


_INCONCLUSIVE: Final[Mapping[Fared, tuple[Reason, ...]]] = {
    "too few ops": (
        Reason(
            Code.TOO_FEW_OPS,
            "no window had enough ops at each node of a core to tell progress from silence.",
            "Give a higher --rate, more clients, or a longer --interval between faults.",
        ),
    ),
    "stalled": (
        Reason(
            Code.MACHINE_BUSY,
            "the controller stood still in every window in which a core had to answer.",
            "Run it again on a machine with less load.",
        ),
    ),
}
_NO_OCCASION: Final = Reason(
    Code.NO_OCCASION,
    "no rule had an occasion to be broken, so this run proves nothing of quorum progress.",
    "Give it faults, or a longer --time-limit.",
)
_NOBODY_ASKED: Final = Reason(
    Code.NOT_EXERCISED,
    "nobody asked for anything: availability could not be judged.",
    "Give it a longer --time-limit or a higher --rate.",
)


def _inconclusive(rules: Mapping[str, Fared]) -> tuple[Reason, ...]:
    """Why the run proves too little. Recovery times and availability without a floor are figures, and judge nothing."""
    if all(fared == "not judged" for rule, fared in rules.items() if rule not in FIGURES_ONLY):
        return (_NO_OCCASION,)
    asked = () if rules["Q9"] != "not judged" else (_NOBODY_ASKED,)
    return (*_INCONCLUSIVE.get(rules["Q3"], ()), *asked)


def _options(options: Mapping[str, Any]) -> Options:
    try:
        wanted = msgspec.convert(dict(options), Options)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"checker quorum-progress: {error}; it takes {', '.join(Options.__struct_fields__)}."
        ) from None
    for name, number in {**wanted.bounds(), "outage_limit_s": wanted.outage_limit_s}.items():
        if not 0 <= number <= NUMBER_MAX:  # not a number compares as false
            raise UsageError(f"checker quorum-progress: {name} is {number}; give 0 to {NUMBER_MAX:,}.")
    if wanted.attempts < 1:
        raise UsageError(
            "checker quorum-progress: attempts is 0: the silence of a node that nobody asked proves nothing."
        )
    return wanted


class _Run:
    """One run, and how its windows fared."""

    def __init__(self, history: pa.Table, telemetry: pa.Table, wanted: Options) -> None:
        self.wanted = wanted
        self.telemetry = telemetry
        self.around: Happenings = happenings(history)
        self.nodes = wanted.nodes or _named(history, telemetry)
        self.offset_s = max(wanted.clock_offset_s, clocks_of(self.around).error_s)
        self.offset_ns = _ns(self.offset_s)
        self.given: Answers = answers(history, self.nodes, wanted.fs, wanted.decided)
        self.windows, self.lulls = windows_and_lulls(self.around, telemetry, self.nodes, 0, self.offset_ns)
        self.stalls = _stalls(self.around)
        self.outages = outages(self.windows)
        self.progress = [
            progress(number, window, self.given, self._bounds(outage_ns), self.stalls)
            for number, (window, outage_ns) in enumerate(zip(self.windows, self.outages, strict=True))
        ]
        self.availability = shares(self.given, self.around.end_ns)
        self.share: float | None = self.availability["cluster"]["time"]
        self.converged: Fared = "not judged"
        self.led: Fared = "not judged"
        self.consensus: dict[str, Fared] = {}

    def _bounds(self, outage_ns: int) -> Bounds:
        wanted = self.wanted
        return Bounds(_ns(wanted.recovery_s) + self._more_ns(outage_ns), _ns(wanted.op_timeout_s), wanted.attempts)

    def _more_ns(self, outage_ns: int) -> int:
        """What an outage adds to a bound."""
        return round(self.wanted.recovery_per_outage * min(outage_ns, _ns(self.wanted.outage_limit_s)))

    def findings(self) -> list[Finding]:
        """All violations, by rule."""
        lease_ns = _ns(self.wanted.lease_s)
        late, self.led = superseded(self.telemetry, self.given, self.offset_ns)
        of_consensus, self.consensus = consensus(self.telemetry)
        found = [
            *wrong_side(self.windows, self.given, lease_ns),
            *(one.finding for one in self.progress if one.finding is not None),
            *before_a_majority(self.lulls, self.given, lease_ns),
            *of_consensus,
            *late,
            *self._convergence(),
            *self._availability(),
        ]
        return sorted(found, key=lambda finding: int(finding.rule[1:]))

    def _convergence(self) -> list[Finding]:
        begin_ns = self._loaded_until_ns()
        if begin_ns is None:
            return []
        bound_ns = _ns(self.wanted.convergence_s) + self._more_ns(max(self.outages, default=0))
        waited_ns = self.around.end_ns - begin_ns - _within(self.stalls, begin_ns)
        found, self.converged = convergence(self.telemetry, self.nodes, waited_ns, bound_ns)
        return found

    def _loaded_until_ns(self) -> int | None:
        """When load was over and everything healed; None if nobody knows that it was.

        In a history without a quiet phase that is when the last op was over.
        """
        healed = healed_by(self.around)
        if healed is None:
            return None
        if self.around.quiet_ns is not None:
            return self.around.quiet_ns
        moments = np.concatenate([self.given.begun, self.given.ended[self.given.ended < NEVER]])
        return max(healed.time, int(moments.max(initial=0)))

    def _availability(self) -> list[Finding]:
        least = self.wanted.availability
        if self.share is None or self.share >= least:
            return []
        silent = max(self.availability["cluster"]["silent"], key=lambda each: each[1] - each[0])
        sentence = (
            f"The cluster answered in {self.share:.1%} of the seconds in which ops were due or in progress, at least "
            f"{least:.1%} are wanted; the longest time without an answer was from {silent[0]} s to {silent[1]} s."
        )
        return [Finding(rule="Q9", sentence=sentence)]

    def fared(self, found: Sequence[Finding]) -> list[dict[str, Fared]]:
        """How Q1, Q2, Q3 and Q8 fared in each window."""
        lease_ns = _ns(self.wanted.lease_s)
        occasion: list[dict[str, Fared]] = [
            {**judged(window, self.lulls, lease_ns), "Q3": one.fared}
            for window, one in zip(self.windows, self.progress, strict=True)
        ]
        return fared_by_window(occasion, found, self.windows, self.given)

    def rules(self, found: Sequence[Finding], by_window: Sequence[Mapping[str, Fared]]) -> dict[str, Fared]:
        """How each rule fared in the run as a whole."""
        broken = {finding.rule for finding in found}
        fared: dict[str, Fared] = dict.fromkeys(RULES, "held")
        for rule in ("Q1", "Q2", "Q3", "Q8"):
            fared[rule] = in_all(window[rule] for window in by_window)
        fared |= {**self.consensus, "Q4": "figures only", "Q7": self.converged, "Q10": self.led}
        if not self.wanted.availability:
            fared["Q9"] = "figures only"
        elif self.share is None:
            fared["Q9"] = "not judged"
        for rule in broken:
            fared[rule] = "violated"
        return fared

    def figures(self, found: Sequence[Finding], by_window: Sequence[dict[str, Fared]]) -> dict[str, Any]:
        """What is told beside the verdict."""
        windows, left_out = window_rows(self.windows, by_window, self.given)
        violations, more = violation_rows(found, self.windows, self.given)
        return {
            "windows": windows,
            "violations": violations,
            "left_out": {
                "windows": left_out,
                "violations": more,
                "findings": max(0, len(found) - FINDINGS_MAX),
            },
            "recovery": list(recovery_times(self.around, self.given, self.stalls)),
            "availability": self.availability,
            "bounds": {**self.wanted.bounds(), "clock_offset_s": self.offset_s},
        }


def _named(history: pa.Table, telemetry: pa.Table) -> tuple[NodeId, ...]:
    clients = history.filter(pa.array(ints(history, "process") >= 0))
    told = {*pc.unique(clients["node"]).to_pylist(), *pc.unique(telemetry["node"]).to_pylist()}
    return tuple(sorted(node for node in told if node is not None))


def _stalls(around: Happenings) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for op in around.of_harness("stall"):
        gap_ms: Any = _dict(op.value).get("gap_ms")
        # An imported history may say anything.
        known = isinstance(gap_ms, (int, float)) and 0 <= gap_ms <= op.time / 1e6
        found.append((op.time - _ns(gap_ms / 1000) if known else 0, op.time))
    return found


def _within(stalls: Sequence[tuple[int, int]], begin_ns: int) -> int:
    """How much of the time since then the controller stood still."""
    total_ns = 0
    for since_ns, until_ns in sorted(stalls):
        total_ns += max(0, until_ns - max(since_ns, begin_ns))
        begin_ns = max(begin_ns, until_ns)
    return total_ns


def _sentence(found: Sequence[Finding], run: _Run) -> str:
    if found:
        first = found[0]
        others = len(found) - 1
        more = f" ({others} more {'finding' if others == 1 else 'findings'}.)" if others else ""
        return f"{first.rule} ({RULES[first.rule]}): {first.sentence}{more}"
    silent = f"In {len(run.windows)} windows nobody answered who could not have a quorum"
    demanded = sum(one.fared == "held" for one in run.progress)
    within = f"within {run.wanted.recovery_s:g} s"
    if not demanded:
        return f"{silent}; in none of them it could be judged whether a core answers {within}."
    return f"{silent}; in {demanded} of them a core had to answer {within}, and did."


def _ns(time_s: float) -> int:
    return round(time_s * 1e9)


def _dict(value: object) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
