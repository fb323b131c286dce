"""The shape of what commands answer of a run with `--json`; `splitbrain.harness.cli.answers` lists all answers.

A field that goes, or changes its meaning, makes another format of every answer that has it.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from splitbrain.results.reasons import Reason

OutcomeName = Literal["pass", "violation", "inconclusive", "harness error"]


class VerdictAnswer(TypedDict):
    """A checker's verdict.

    Attributes:
        checker: its name.
        valid: true: proven; false: there is evidence of a violation; "unknown": what ran out is among the reasons.
        key: the key that was judged, null for the run as a whole.
        algorithm: how it was decided.
        sentence: the answer in plain words.
        anomalies: names of what was found.
        inconclusive: reasons why the run proves too little for this checker.
        evidence: a witness that can be checked by hand; its shape depends on the checker.
        figures: counts and other numbers of the checker.
        seconds: CPU time.
    """

    checker: str
    valid: bool | Literal["unknown"]
    key: str | None
    algorithm: str
    sentence: str
    anomalies: list[str]
    inconclusive: list[Reason]
    evidence: dict[str, Any]
    figures: dict[str, Any]
    seconds: float


class ConclusionAnswer(TypedDict):
    """A judged run.

    Attributes:
        outcome: the most severe of what its checkers say.
        run: its folder.
        test: the name of its test.
        report: its page.
        harness_error: what broke in the harness, null if nothing did.
        reasons: why it proves too little, root causes first; empty where it proves enough.
        verdicts: one of each checker.
    """

    outcome: OutcomeName
    run: str
    test: str
    report: str
    harness_error: str | None
    reasons: list[Reason]
    verdicts: list[VerdictAnswer]


class HuntFigures(TypedDict):
    """How fast a hunt went.

    Attributes:
        wall_s: how long it took.
        cpu_s: CPU seconds of its workers.
        simulated_s: simulated seconds of all runs.
        ops: operations of clients.
        runs: runs.
        runs_per_s: runs for each second that it took.
        simulated_s_per_cpu_s: simulated seconds for each CPU second.
    """

    wall_s: float
    cpu_s: float
    simulated_s: float
    ops: int
    runs: int
    runs_per_s: float | None
    simulated_s_per_cpu_s: float | None


class HuntTally(TypedDict):
    """What a hunt adds up to.

    Attributes:
        outcome: the worst that was found.
        seeds: first and last of each stretch of seeds that were tried.
        outcomes: the number of runs by outcome.
        reasons: inconclusive runs by code.
        inconclusive_seeds: those of inconclusive runs.
        kinds: how often each kind of violation or error was found.
        figures: how fast it went.
        marks: coverage marks, with the number of runs that reached each.
        never_reached: marks that no run reached.
    """

    outcome: OutcomeName
    seeds: list[list[int]]
    outcomes: dict[str, int]
    reasons: dict[str, int]
    inconclusive_seeds: list[int]
    kinds: dict[str, int]
    figures: HuntFigures
    marks: dict[str, int]
    never_reached: list[str]
