"""The checker `quorum-progress`: the right nodes answered, and the wrong ones stayed silent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from checkers.quorum.answers import Answers, answers
from checkers.quorum.findings import RULES, Fared, Finding
from checkers.quorum.leaders import consensus, convergence, members_at_the_end, superseded
from checkers.quorum.progress import Bounds, availability, progress, recovery_times
from checkers.quorum.silence import before_a_majority, wrong_side
from checkers.quorum.topology import NodeId, capable, cores, possibly_capable, possibly_served
from checkers.quorum.windows import Window, windows
from checkers.verdict import Valid, Verdict, Whole
from results.calls import ints, seconds
from results.clocks import clocks_of
from results.errors import UsageError
from results.faults import Happenings, happenings

DECIDED: Final = ("mismatch", "exists", "held", "not the owner")
"""Errors of `fail` ops with which the state answered."""

LISTED: Final = 20


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the checker takes; times in seconds.

    Attributes:
        nodes: all nodes of the test; those that the history and the telemetry name if none are given.
        fs: functions that need a quorum; None for all.
        decided: errors of `fail` ops with which the state answered.
        election_timeout_s: after so long without a leader's word a node stands for election at the latest.
        recovery_bound_s: for so long after a change no answer is demanded; RECOVERY_ELECTIONS of these if None.
        op_timeout_s: after that a client gives up.
        lease_s: for so long a node without a quorum may go on to answer.
        attempts: so many ops a node must have been asked before its silence counts.
        convergence_bound_s: for so long after the load members may differ; as `recovery_bound_s` if None.
        clock_offset_s: how far the clocks of nodes and controller may be apart, at least: where the run tells how
            exactly that is known (`results.clocks`), it is as much as the largest error.
        availability: the least share of seconds in which the cluster answers; 0 for figures only.
    """

    nodes: tuple[NodeId, ...] = ()
    fs: tuple[str, ...] | None = None
    decided: tuple[str, ...] = DECIDED
    election_timeout_s: float = 1.0
    recovery_bound_s: float | None = None
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


RECOVERY_ELECTIONS: Final = 4
"""Votes may split, and what is behind must catch up: so many election timeouts a recovery may take."""


class QuorumProgress:
    """Judges windows without faults' changes: who answered, and who should have (rules Q1 to Q10).

    The figures: `rules` (how each fared), `windows` (a row for each), `recovery` (Q4), `availability` (Q9), `bounds`.
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
        rules = run.rules(found)
        thin = rules["Q3"] == "too few ops"
        return Verdict(
            checker=self.name,
            valid=_valid(found),
            algorithm="windows",
            sentence=_sentence(found, run),
            anomalies=tuple(dict.fromkeys(finding.rule for finding in found)),
            inconclusive=("no window had enough ops at each node of a core to tell progress from silence.",)
            if thin
            else (),
            evidence={"findings": [msgspec.to_builtins(one) for one in found[:LISTED]]} if found else {},
            figures={"rules": rules, **run.figures()},
        )

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """A run is one partition: there is one verdict."""
        (verdict,) = verdicts
        return verdict


def _options(options: Mapping[str, Any]) -> Options:
    try:
        return msgspec.convert(dict(options), Options)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"checker quorum-progress: {error}; it takes {', '.join(Options.__struct_fields__)}."
        ) from None


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
        self.windows: Sequence[Window] = windows(self.around, telemetry, self.nodes, 0, self.offset_ns)
        bounds = Bounds(_ns(wanted.recovery_s), _ns(wanted.op_timeout_s), wanted.attempts)
        stalls = _stalls(self.around)
        self.progress = [
            progress(number, window, self.given, bounds, stalls) for number, window in enumerate(self.windows)
        ]
        self.converged: Fared = "not judged"

    def findings(self) -> list[Finding]:
        """All violations, by rule."""
        wanted = self.wanted
        found = [
            *wrong_side(self.windows, self.given, _ns(wanted.lease_s)),
            *(one.finding for one in self.progress if one.finding is not None),
            *before_a_majority(self.windows, self.given),
            *consensus(self.telemetry),
            *superseded(self.telemetry, self.given, self.offset_ns),
            *self._convergence(),
            *self._availability(),
        ]
        return sorted(found, key=lambda finding: int(finding.rule[1:]))

    def _convergence(self) -> list[Finding]:
        begin_ns = self._loaded_until_ns()
        if begin_ns is None:
            return []
        wanted = self.wanted
        bound = wanted.recovery_s if wanted.convergence_bound_s is None else wanted.convergence_bound_s
        members = members_at_the_end(self.telemetry, self.nodes)
        found, self.converged = convergence(self.telemetry, members, begin_ns, self.around.end_ns, _ns(bound))
        return found

    def _loaded_until_ns(self) -> int | None:
        """When the last op began, everything was healed, and all recovered; None if that was never so."""
        recovered = [op for op in self.around.of_harness("recovered") if _dict(op.value).get("seconds") is not None]
        if not recovered:
            return None
        begun = self.given.begun
        return max(recovered[-1].time, int(begun.max()) if len(begun) else 0)

    def _availability(self) -> list[Finding]:
        share = availability(self.given, 0, self.around.end_ns)["cluster"]["time"]
        if share is None or share >= self.wanted.availability:
            return []
        sentence = (
            f"The cluster answered in {share:.1%} of the seconds, at least {self.wanted.availability:.1%} are wanted."
        )
        return [Finding(rule="Q9", sentence=sentence)]

    def rules(self, found: Sequence[Finding]) -> dict[str, Fared]:
        """How each rule fared in the run as a whole."""
        broken = {finding.rule for finding in found}
        fared: dict[str, Fared] = {rule: "violated" if rule in broken else "held" for rule in RULES}
        if not self.windows:
            fared |= dict.fromkeys(("Q1", "Q2", "Q8"), cast("Fared", "not judged"))
        if "Q3" not in broken:
            fared["Q3"] = _worst(one.fared for one in self.progress)
        if not self.telemetry.num_rows:
            fared |= dict.fromkeys(("Q5", "Q6", "Q10"), cast("Fared", "not judged"))
        if "Q7" not in broken:
            fared["Q7"] = self.converged
        return fared

    def figures(self) -> dict[str, Any]:
        """What is told beside the verdict."""
        return {
            "windows": [self._row(number, window) for number, window in enumerate(self.windows)],
            "recovery": list(recovery_times(self.around, self.given)),
            "availability": availability(self.given, 0, self.around.end_ns),
            "bounds": {"recovery_s": self.wanted.recovery_s, "clock_offset_s": self.offset_s},
        }

    def _row(self, number: int, window: Window) -> dict[str, Any]:
        at, given = window.at, self.given
        inside = (given.begun >= window.begin_ns) & (given.begun <= window.end_ns)
        return {
            "start_s": seconds(window.begin_ns),
            "end_s": seconds(window.end_ns),
            "cut": sorted(set(_links(at.nodes)) - at.possibly_open),
            "uncertain_links": sorted(at.possibly_open - at.open),
            "down": [node for node in at.nodes if node not in at.possibly_up],
            "uncertain": [node for node in at.nodes if node in at.possibly_up and node not in at.up],
            "configurations": [[node for node in at.nodes if node in voters] for voters in at.configurations],
            "capable": _in_order(at.nodes, capable(at)),
            "possibly_capable": _in_order(at.nodes, possibly_capable(at)),
            "possibly_served": _in_order(at.nodes, possibly_served(at)),
            "cores": [list(core) for core in cores(at)],
            "nodes": {node: self._counts(node, inside, window) for node in at.nodes},
            "Q3": self.progress[number].fared,
        }

    def _counts(self, node: NodeId, inside: Any, window: Window) -> dict[str, Any]:
        given = self.given
        asked = inside & given.at(node)
        answered = asked & given.given
        first = given.ended[answered]
        return {
            "ops": int(asked.sum()),
            "answered": int(answered.sum()),
            "first_answer_s": seconds(int(first.min()) - window.begin_ns) if len(first) else None,
        }


_OF_MANY: Final[tuple[Fared, ...]] = ("violated", "held", "too few ops", "not judged")


def _worst(each: Iterable[Fared]) -> Fared:
    seen = set(each) or {_OF_MANY[-1]}
    return next(how for how in _OF_MANY if how in seen)


def _links(nodes: Sequence[NodeId]) -> list[tuple[NodeId, NodeId]]:
    return [(source, destination) for source in nodes for destination in nodes if source != destination]


def _in_order(nodes: Sequence[NodeId], chosen: frozenset[NodeId]) -> list[NodeId]:
    return [node for node in nodes if node in chosen]


def _named(history: pa.Table, telemetry: pa.Table) -> tuple[NodeId, ...]:
    clients = history.filter(pa.array(ints(history, "process") >= 0))
    told = {*pc.unique(clients["node"]).to_pylist(), *pc.unique(telemetry["node"]).to_pylist()}
    return tuple(sorted(node for node in told if node is not None))


def _stalls(around: Happenings) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for op in around.of_harness("stall"):
        gap_ms = _dict(op.value).get("gap_ms", 0)
        found.append((op.time - _ns(gap_ms / 1000), op.time))
    return found


def _valid(found: Sequence[Finding]) -> Valid:
    return "false" if found else "true"


def _sentence(found: Sequence[Finding], run: _Run) -> str:
    if found:
        first = found[0]
        more = f" ({len(found) - 1} more findings.)" if len(found) > 1 else ""
        return f"{first.rule} ({RULES[first.rule]}): {first.sentence}{more}"
    demanded = sum(one.fared == "held" for one in run.progress)
    return (
        f"In {len(run.windows)} windows nobody answered who could not have a quorum; in {demanded} a core had to "
        f"answer within {run.wanted.recovery_s:g} s, and did."
    )


def _ns(time_s: float) -> int:
    return round(time_s * 1e9)


def _dict(value: object) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
