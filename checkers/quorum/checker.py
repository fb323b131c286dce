"""The checker `quorum-progress`: nodes with a quorum answered, and nodes without one did not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitbrain.checkers.durations import refuse_others
from splitbrain.checkers.quorum.answers import Answers, answers
from splitbrain.checkers.quorum.findings import Finding, RuleResult, in_all
from splitbrain.checkers.quorum.leaders import consensus, convergence, superseded
from splitbrain.checkers.quorum.outages import outages
from splitbrain.checkers.quorum.output import FINDINGS_MAX, evidence, results_by_window, violation_rows, window_rows
from splitbrain.checkers.quorum.progress import Bounds, progress, recovery_times, shares
from splitbrain.checkers.quorum.silence import before_a_majority, judged, wrong_side
from splitbrain.checkers.quorum.topology import NodeId
from splitbrain.checkers.quorum.windows import healed_by, windows_and_no_majority
from splitbrain.checkers.verdict import OfOneRun, Verdict, Whole
from splitbrain.results.answering import DECIDED
from splitbrain.results.arrivals import NEVER
from splitbrain.results.calls import ints
from splitbrain.results.clocks import clocks_of
from splitbrain.results.columns import array
from splitbrain.results.errors import UsageError
from splitbrain.results.faults import RunEvents, run_events
from splitbrain.results.notes import Clocks, Stalled
from splitbrain.results.quantities import counted
from splitbrain.results.quorum import RECOVERY_ELECTIONS, RULES
from splitbrain.results.reasons import Code, Reason
from splitbrain.results.telemetry import of_consensus, of_lasting_groups


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the checker takes; times in seconds.

    Attributes:
        nodes: all nodes of the test; those that the history and the telemetry name if none are given. Without them, and
            without telemetry of voters, no window is judged.
        groups: of which groups the members answer these ops: names, or patterns of names as in `fnmatch`; all groups
            that no node deleted if none are given. An answer does not say which of several groups gave it: it is wrong
            if none of them could give it.
        fs: functions that need a quorum; None for all.
        decided: errors of `fail` ops that are answers of the state.
        election_timeout_s: the longest time without a message of a leader before a node starts an election.
        recovery_bound_s: the time after a change in which no answer is demanded; RECOVERY_ELECTIONS election timeouts
            if None.
        recovery_per_outage: seconds that are added to the bound for each second for which members of a core had not
            been linked when the window began.
        outage_limit_s: the largest length of an outage that is counted.
        op_timeout_s: the longest timeout of a client's op.
        lease_s: how long a node without a quorum may still answer from a lease.
        attempts: how many ops a node must have received before its silence counts.
        standbys: whether nodes that do not lead may refuse all ops (`Capabilities.standbys`).
        convergence_bound_s: how long members may differ after the load; as `recovery_bound_s` if None.
        clock_offset_s: the least difference to assume between clocks of nodes and controller. If the run records the
            error of its estimates (`splitbrain.results.clocks`), the larger of the two holds.
        availability: the least share of the seconds that the cluster must serve (`splitbrain.results.availability`); 0:
            none.
    """

    nodes: tuple[NodeId, ...] = ()
    groups: tuple[str, ...] = ()
    fs: tuple[str, ...] | None = None
    decided: tuple[str, ...] = DECIDED
    election_timeout_s: float = 1.0
    recovery_bound_s: float | None = None
    recovery_per_outage: float = 0.0
    outage_limit_s: float = 120.0
    op_timeout_s: float = 2.0
    lease_s: float = 0.0
    attempts: int = 3
    standbys: bool = False
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
        """The convergence bound in force."""
        return self.recovery_s if self.convergence_bound_s is None else self.convergence_bound_s

    def bounds(self) -> dict[str, float]:
        """All bounds in force: what a test may set and the verdict depends on."""
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
"""Rules that only give figures, unless a test sets a bound for them."""

NUMBER_MAX: Final = 1_000_000_000
"""The largest value of an option, in seconds: thirty years."""


class QuorumProgress(OfOneRun):
    """Judges windows in which faults do not change: which nodes answered, and which had to (rules Q1 to Q10).

    The figures: `rules` (the result of each), `groups` (those by whose members answers were judged), `windows` and
    `violations` (a row for each, see `splitbrain.checkers.quorum.output`), `left_out` (how many rows and findings are
    not listed), `recovery` (Q4), `availability` (Q9), `bounds`.
    """

    name = "quorum-progress"
    partition: Whole = "whole run"
    counts_ops = True

    def check(self, history: pa.Table, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge a run: its whole history, and the telemetry of its nodes, which may be empty.

        Raises:
            UsageError: an option is wrong.
        """
        wanted = _options(options)
        run = _Run(history, telemetry, wanted)
        found = run.findings()
        results = run.results(found)
        rules = run.rules(found, results)
        return Verdict(
            checker=self.name,
            valid="false" if found else "true",
            algorithm="windows",
            sentence=_sentence(found, run),
            anomalies=tuple(dict.fromkeys(finding.rule for finding in found)),
            inconclusive=(*_inconclusive(rules), *run.without_telemetry(), *run.without_voters()),
            evidence=evidence(found),
            figures={"rules": rules, **run.figures(found, results)},
        )


_INCONCLUSIVE: Final[Mapping[RuleResult, tuple[Reason, ...]]] = {
    "too few ops": (
        Reason(
            Code.TOO_FEW_OPS,
            "every window has a core node with too few ops to judge progress.",
            "Give a higher --rate, more clients, or a longer --interval between faults.",
        ),
    ),
    "stalled": (
        Reason(
            Code.MACHINE_BUSY,
            "the controller was stalled in every window in which a core had to answer.",
            "Run it again on a machine with less load.",
        ),
    ),
    "overloaded": (
        Reason(
            Code.MOSTLY_SILENT,
            "wherever a node was silent, half of the answers of others took more than half an op timeout.",
            "Give a lower --rate, fewer clients, or a longer --op-timeout.",
        ),
    ),
}
_NO_OCCASION: Final = Reason(
    Code.NO_OCCASION,
    "no rule could be judged, so this run proves nothing about quorum progress.",
    "Give it faults, or a longer --time-limit.",
)
_NO_OPS: Final = Reason(
    Code.NOT_EXERCISED,
    "clients invoked no op that needs a quorum: availability could not be judged.",
    "Give it a longer --time-limit or a higher --rate.",
)


_NO_VOTERS: Final = Reason(
    Code.NO_TELEMETRY,
    "it is not known which nodes there are: neither the option nodes nor telemetry names the voters.",
    "Give the checker the option nodes.",
)


def _inconclusive(rules: Mapping[str, RuleResult]) -> tuple[Reason, ...]:
    """Why the run proves too little. Recovery times, and availability without a bound, are figures only."""
    if all(result == "not judged" for rule, result in rules.items() if rule not in FIGURES_ONLY):
        return (_NO_OCCASION,)
    no_ops = () if rules["Q9"] != "not judged" else (_NO_OPS,)
    return (*_INCONCLUSIVE.get(rules["Q3"], ()), *no_ops)


def _options(options: Mapping[str, Any]) -> Options:
    refuse_others("quorum-progress", options, [name for name in Options.__struct_fields__ if name.endswith("_s")])
    try:
        wanted = msgspec.convert(dict(options), Options)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"checker quorum-progress: {error}; it takes {', '.join(Options.__struct_fields__)}."
        ) from None
    for name, number in wanted.bounds().items():
        if not 0 <= number <= NUMBER_MAX:  # not a number compares as false
            raise UsageError(f"checker quorum-progress: {name} is {number}; give 0 to {NUMBER_MAX:,}.")
    if wanted.attempts < 1:
        raise UsageError(
            "checker quorum-progress: attempts is 0; give 1 or more: the silence of a node without ops proves nothing."
        )
    return wanted


class _Run:
    """One run, its windows, and the results of the rules."""

    def __init__(self, history: pa.Table, telemetry: pa.Table, wanted: Options) -> None:
        self.wanted = wanted
        self.telemetry = telemetry
        self.lasting = of_lasting_groups(of_consensus(telemetry))
        self.answering = _of_groups(self.lasting, wanted.groups)
        self.groups = _groups(self.answering)
        self.events: RunEvents = run_events(history)
        self.nodes = wanted.nodes or _named(history, telemetry)
        self.clocks: Clocks = clocks_of(self.events)
        self.offset_s = max(wanted.clock_offset_s, self.clocks.error_s)
        self.offset_ns = _ns(self.offset_s)
        self.given: Answers = answers(history, self.nodes, wanted.fs, wanted.decided)
        self.knows_voters = bool(wanted.nodes) or len(self.groups) > 0
        self.windows, self.no_majority = (
            windows_and_no_majority(self.events, self.answering, self.nodes, 0, self.offset_ns)
            if self.knows_voters
            else ([], [])
        )
        self.stalls = _stalls(self.events)
        self.outages = outages(self.windows)
        self.progress = [
            progress(number, window, self.given, self._bounds(outage_ns), self.stalls)
            for number, (window, outage_ns) in enumerate(zip(self.windows, self.outages, strict=True))
        ]
        self.availability = shares(self.given, self.events.end_ns)
        self.share: float | None = self.availability["cluster"]["time"]
        self.converged: RuleResult = "not judged"
        self.led: RuleResult = "not judged"
        self.consensus: dict[str, RuleResult] = {}

    def _bounds(self, outage_ns: int) -> Bounds:
        wanted = self.wanted
        recovery_ns = _ns(wanted.recovery_s) + self._more_ns(outage_ns)
        return Bounds(recovery_ns, _ns(wanted.op_timeout_s), wanted.attempts, wanted.standbys)

    def _more_ns(self, outage_ns: int) -> int:
        """The time that an outage adds to a bound."""
        return round(self.wanted.recovery_per_outage * min(outage_ns, _ns(self.wanted.outage_limit_s)))

    def without_telemetry(self) -> tuple[Reason, ...]:
        """Why a run proves too little of which some nodes left telemetry, and others none.

        These may have done anything. Without any, each checker of telemetry says so itself.
        """
        there = frozenset(pc.unique(self.telemetry["node"]).to_pylist())
        missing = [node for node in self.wanted.nodes if node not in there]
        if not there or not missing:
            return ()
        who = ", ".join(missing)
        return (Reason(Code.NO_TELEMETRY, f"{who} left no telemetry, and other nodes did: what it did is not known."),)

    def without_voters(self) -> tuple[Reason, ...]:
        """Why a run proves too little of which it is not known which nodes a majority is counted of.

        Clients may have asked some of the nodes only.
        """
        return () if self.knows_voters else (_NO_VOTERS,)

    def findings(self) -> list[Finding]:
        """All violations, by rule."""
        lease_ns = _ns(self.wanted.lease_s)
        late, self.led = superseded(self._timed(), self.given, self.offset_ns)
        of_consensus, self.consensus = consensus(self.telemetry)
        found = [
            *wrong_side(self.windows, self.given, lease_ns),
            *(one.finding for one in self.progress if one.finding is not None),
            *before_a_majority(self.no_majority, self.given, lease_ns),
            *of_consensus,
            *late,
            *self._convergence(),
            *self._availability(),
        ]
        return sorted(found, key=lambda finding: int(finding.rule[1:]))

    def _timed(self) -> pa.Table:
        """The rows of nodes that answer, where their times can be compared with the controller's."""
        names: Sequence[str | None] = pc.unique(self.answering["node"]).to_pylist()
        timed = [node for node in names if node is not None and self.clocks.knows(node)]
        return self.answering.filter(pc.is_in(self.answering["node"], value_set=array(timed, pa.string())))

    def _convergence(self) -> list[Finding]:
        begin_ns = self._loaded_until_ns()
        if begin_ns is None:
            return []
        bound_ns = _ns(self.wanted.convergence_s) + self._more_ns(max(self.outages, default=0))
        waited_ns = self.events.end_ns - begin_ns - _within(self.stalls, begin_ns)
        found, self.converged = convergence(self.lasting, self.nodes, waited_ns, bound_ns)
        return found

    def _loaded_until_ns(self) -> int | None:
        """When the load was over and everything was healed; None if the history does not show that it was healed.

        In a history without a quiet phase: the end of the last op.
        """
        healed = healed_by(self.events)
        if healed is None:
            return None
        if self.events.quiet_ns is not None:
            return self.events.quiet_ns
        moments = np.concatenate([self.given.begun, self.given.ended[self.given.ended < NEVER]])
        return max(healed.time, int(moments.max(initial=0)))

    def _availability(self) -> list[Finding]:
        least = self.wanted.availability
        if self.share is None or self.share >= least:
            return []
        silent = max(self.availability["cluster"]["silent"], key=lambda each: each[1] - each[0])
        sentence = (
            f"The cluster answered in {self.share:.1%} of the seconds in which ops were due or in progress; at least "
            f"{least:.1%} are required. The longest time without an answer was from {silent[0]} s to {silent[1]} s."
        )
        return [Finding(rule="Q9", sentence=sentence)]

    def results(self, found: Sequence[Finding]) -> list[dict[str, RuleResult]]:
        """The results of Q1, Q2, Q3 and Q8 in each window."""
        lease_ns = _ns(self.wanted.lease_s)
        occasion: list[dict[str, RuleResult]] = [
            {**judged(window, self.no_majority, lease_ns), "Q3": one.result}
            for window, one in zip(self.windows, self.progress, strict=True)
        ]
        return results_by_window(occasion, found, self.windows, self.given)

    def rules(self, found: Sequence[Finding], by_window: Sequence[Mapping[str, RuleResult]]) -> dict[str, RuleResult]:
        """The result of each rule in the whole run."""
        broken = {finding.rule for finding in found}
        results: dict[str, RuleResult] = dict.fromkeys(RULES, "held")
        for rule in ("Q1", "Q2", "Q3", "Q8"):
            results[rule] = in_all(window[rule] for window in by_window)
        results |= {**self.consensus, "Q4": "figures only", "Q7": self.converged, "Q10": self.led}
        if not self.wanted.availability:
            results["Q9"] = "figures only"
        elif self.share is None:
            results["Q9"] = "not judged"
        for rule in broken:
            results[rule] = "violated"
        return results

    def figures(self, found: Sequence[Finding], by_window: Sequence[dict[str, RuleResult]]) -> dict[str, Any]:
        """The figures of the verdict."""
        windows, left_out = window_rows(self.windows, by_window, self.given)
        violations, more = violation_rows(found, self.windows, self.given)
        return {
            "groups": list(self.groups),
            "windows": windows,
            "violations": violations,
            "left_out": {
                "windows": left_out,
                "violations": more,
                "findings": max(0, len(found) - FINDINGS_MAX),
            },
            "recovery": list(recovery_times(self.events, self.given, self.stalls)),
            "availability": self.availability,
            "bounds": {**self.wanted.bounds(), "clock_offset_s": self.offset_s},
        }


def _named(history: pa.Table, telemetry: pa.Table) -> tuple[NodeId, ...]:
    clients = history.filter(array(ints(history, "process") >= 0))
    nodes = {*pc.unique(clients["node"]).to_pylist(), *pc.unique(telemetry["node"]).to_pylist()}
    return tuple(sorted(node for node in nodes if node is not None))


def _of_groups(telemetry: pa.Table, patterns: Sequence[str]) -> pa.Table:
    """The rows of groups with these names; all rows without patterns."""
    if not patterns:
        return telemetry
    names: Sequence[str | None] = pc.unique(telemetry["group"]).to_pylist()
    wanted = [name for name in names if name is not None and any(fnmatchcase(name, pattern) for pattern in patterns)]
    return telemetry.filter(pc.is_in(telemetry["group"], value_set=array(wanted, pa.string())))


def _groups(telemetry: pa.Table) -> tuple[str, ...]:
    """Names of the groups of which a node said who votes in it, sorted."""
    names = pc.unique(telemetry.filter(pc.is_valid(telemetry["voters"]))["group"]).to_pylist()
    return tuple(sorted(name for name in names if name is not None))


def _stalls(events: RunEvents) -> list[tuple[int, int]]:
    return [(max(0, op.time - _ns(stall.gap_ms / 1000)), op.time) for op, stall in events.notes("stall", Stalled)]


def _within(stalls: Sequence[tuple[int, int]], begin_ns: int) -> int:
    """How long the controller was stalled since then, in nanoseconds."""
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
    silent = f"In {counted(len(run.windows), 'window')} no node without a quorum answered"
    demanded = sum(one.result == "held" for one in run.progress)
    within = f"within {run.wanted.recovery_s:g} s"
    if not demanded:
        return f"{silent}; no window could show whether a core answers {within}.{_of_several(run.groups)}"
    return f"{silent}; in {demanded} of them a core had to answer {within}, and did.{_of_several(run.groups)}"


def _of_several(groups: Sequence[str]) -> str:
    """The sentence that says that answers of several groups were judged together."""
    if len(groups) < 2:
        return ""
    return f" (An answer of one of the {len(groups)} groups {', '.join(groups)} was wrong only if none could give it.)"


def _ns(time_s: float) -> int:
    return round(time_s * 1e9)
