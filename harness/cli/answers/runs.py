"""Answers of commands that run tests or judge histories."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from splitbrain.harness.campaigns.answers import ConclusionAnswer, HuntTally, OutcomeName, VerdictAnswer
from splitbrain.harness.campaigns.hunting.search import Ending
from splitbrain.harness.campaigns.hunting.search import Limits as HuntLimits
from splitbrain.harness.campaigns.swarm import Asked
from splitbrain.harness.cli.oracle import Answer as OracleAnswer
from splitbrain.harness.running.plan import PlanFigures


class RunAnswer(ConclusionAnswer):
    """What came of a test.

    Attributes:
        seed: the root of its randomness.
        command: runs the same test again.
    """

    seed: int
    command: str


class CutAnswer(TypedDict):
    """Where a run was ended early.

    Attributes:
        how: by what.
        at_s: when, in seconds since its start.
        rows: how many rows of its history are compared.
    """

    how: str
    at_s: float
    rows: int


class ReplayAnswer(TypedDict):
    """What came of replays in simulation.

    Attributes:
        what: the run or plan that was replayed.
        outcome: the most severe one.
        times: how many replays there were.
        same: how many gave the history that is known; null if none is known.
        hashes: how many replays gave each history, by its hash.
        cut: where the original was ended early, null if it was not.
        differences: versions that are others than then.
        problem: why the simulation is not deterministic, null if it is.
        sentence: all of that in words.
        sentences: what checkers said of the first replay.
        harness_error: what broke in the harness.
        run: the folder of the replay that was kept (--keep).
        report: its page.
    """

    what: str
    outcome: OutcomeName
    times: int
    same: int | None
    hashes: dict[str, int]
    cut: CutAnswer | None
    differences: list[str]
    problem: str | None
    sentence: str
    sentences: list[str]
    harness_error: str | None
    run: str | None
    report: str | None


class PlannedReplayAnswer(TypedDict):
    """What came of replays on real nodes.

    Attributes:
        what: the run or plan that was replayed.
        outcome: the most severe one.
        times: how many replays there were.
        failed: how many were violations.
        runs: each of them.
    """

    what: str
    outcome: OutcomeName
    times: int
    failed: int
    runs: list[ConclusionAnswer]


class ShrinkAnswer(ConclusionAnswer):
    """The smallest plan that was found, and what came of it when it was run.

    Attributes:
        plan: its file.
        before: sizes of the plan that was shrunk.
        after: sizes of the smallest one.
        seed: the seed with which it fails.
        minimal: whether nothing more can be removed.
        smaller: whether anything was removed.
        tried: how many plans were simulated.
        sentence: what remains, in words.
        problem: how the run of the plan differs from the search, null if it does not.
        command: replays the plan.
    """

    plan: str
    before: PlanFigures
    after: PlanFigures
    seed: int
    minimal: bool
    smaller: bool
    tried: int
    sentence: str
    problem: str | None
    command: str


class HuntFinding(TypedDict):
    """The first run of a kind of violation or error.

    Attributes:
        seed: its seed.
        outcome: violation or harness error.
        kind: which checkers found what.
        signatures: of the violation, the leading one first.
        sentences: what checkers said.
        harness_error: what broke.
        history_hash: of its history.
        fingerprint: of the draws of randomness on the way.
        command: runs it again.
        replay: replays the stored run; null if it was not kept.
        run: the folder of the stored run.
        report: its page.
        problem: why it could not be repeated, null if it could.
    """

    seed: int
    outcome: OutcomeName
    kind: str
    signatures: list[str]
    sentences: list[str]
    harness_error: str | None
    history_hash: str | None
    fingerprint: str | None
    command: str
    replay: str | None
    run: str | None
    report: str | None
    problem: str | None


class HuntSmaller(TypedDict):
    """The first violation of a hunt, shrunk.

    Attributes:
        before: sizes of its plan; null if the search came to nothing.
        after: sizes of the smallest plan.
        minimal: whether nothing more can be removed.
        tried: how many plans were simulated.
        sentence: what remains, in words.
        plan: the file of the smallest plan.
        replay: replays it.
        report: the page of its run.
        problem: why it was not shrunk, or differs from the search.
    """

    before: PlanFigures | None
    after: PlanFigures | None
    minimal: bool
    tried: int
    sentence: str
    plan: str | None
    replay: str | None
    report: str | None
    problem: str | None


class Revision(TypedDict):
    """The code that ran.

    Attributes:
        revision: the commit.
        dirty: whether files differed from it.
    """

    revision: str
    dirty: bool


class HuntDocument(HuntTally):
    """A hunt, as its file in the store has it.

    Attributes:
        format: of this document.
        ended: when, in UTC.
        asked: what was drawn from; null: drawn too.
        limits: when it was to end.
        ended_by: why it ended.
        first_seed: the first seed.
        findings: the first run of each kind of violation or error.
        smaller: the first violation, shrunk; null without one, or with --no-shrink.
        versions: of Python and of libraries.
        git: the commit of splitbrain; null where it is not known.
    """

    format: Literal[1]
    ended: str
    asked: Asked
    limits: HuntLimits
    ended_by: Ending
    first_seed: int
    findings: list[HuntFinding]
    smaller: HuntSmaller | None
    versions: dict[str, str]
    git: Revision | None


class HuntAnswer(HuntDocument):
    """A hunt.

    Attributes:
        file: where this document is kept.
    """

    file: str


class CheckedFile(TypedDict, total=False):
    """What is said of a history file: a verdict with its sizes, or an error.

    Attributes:
        file: as it was named.
        error: why it could not be judged; then there is no verdict.
        ops: operations that clients invoked.
        rows: rows of the history.
        picture: the file of the picture, null without one.
        oracle: what elle-cli said (--oracle).
        differences: where the verdict differs from that.
        oracle_problem: why elle-cli said nothing.
        checker: as in a verdict, like all fields below.
    """

    file: str
    error: str
    ops: int
    rows: int
    checker: str
    valid: bool | Literal["unknown"]
    key: str | None
    algorithm: str
    sentence: str
    anomalies: list[str]
    inconclusive: list[Any]
    evidence: dict[str, Any]
    figures: dict[str, Any]
    seconds: float
    picture: str | None
    oracle: OracleAnswer
    differences: list[str]
    oracle_problem: str


class AnalyzedRun(TypedDict):
    """A line for a run, as soon as it is judged.

    Attributes:
        kind: run.
        format: of the lines.
        outcome: the most severe of what its checkers say.
        run: its folder or address.
        test: the name of its test.
        report: its page.
        harness_error: what broke in the harness, or how it is damaged.
        reasons: why it proves too little.
        verdicts: one of each checker.
        judged: whether it was judged now.
        unchanged_since: when its verdict was made that still stands; null if it was judged now.
    """

    kind: Literal["run"]
    format: Literal[2]
    outcome: OutcomeName
    run: str
    test: str
    report: str
    harness_error: str | None
    reasons: list[Any]
    verdicts: list[VerdictAnswer]
    judged: bool
    unchanged_since: str | None


class AnalyzedProblem(TypedDict):
    """What keeps a run from its verdict or page.

    Attributes:
        run: its folder or address.
        problem: what it is.
    """

    run: str
    problem: str


class AnalyzedSums(TypedDict):
    """The last line.

    Attributes:
        kind: sums.
        format: of the lines.
        runs: how many runs there are.
        judged: how many were judged now.
        unchanged: of how many the verdict still stands.
        outcomes: the number of runs by outcome.
        outcome: the most severe one.
        exit_code: of the command.
        problems: what kept runs from a verdict or a page.
        seconds: how long it took.
    """

    kind: Literal["sums"]
    format: Literal[2]
    runs: int
    judged: int
    unchanged: int
    outcomes: dict[str, int]
    outcome: OutcomeName
    exit_code: int
    problems: list[AnalyzedProblem]
    seconds: float
