"""`splitbrain hunt`: what ends a search, what it adds up to, and that what it finds is found again."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from examples.own_nemesis import EXILE
from splitbrain.checkers.verdict import CheckerSpec, Outcome
from splitbrain.harness.campaigns import canary
from splitbrain.harness.campaigns.compose import RunOptions, command_line
from splitbrain.harness.campaigns.hunting.reach import within_reach
from splitbrain.harness.campaigns.hunting.repeating import HASH_SEED, OTHER_HASH_SEED, compared
from splitbrain.harness.campaigns.hunting.search import HARNESS_ERRORS_MAX, Limits, ending, search
from splitbrain.harness.campaigns.hunting.tally import Tally, ranges
from splitbrain.harness.campaigns.hunting.trial import SEARCH_S, Trial, broken, carry_out, hurried
from splitbrain.harness.campaigns.interrupts import Interrupts
from splitbrain.harness.campaigns.swarm import SELDOM, Asked, draw, possible
from splitbrain.harness.campaigns.themes import TIME_LIMITS_S
from splitbrain.harness.campaigns.workers import Report, Workers
from splitbrain.harness.cli.hunting.answer import Hunted, show
from splitbrain.harness.cli.main import main
from splitbrain.harness.contract.marks import MARKS
from splitbrain.harness.simulation.worlds import WORLDS
from splitbrain.nemesis.catalogue import KINDS, NEMESES
from splitbrain.results.errors import HarnessError
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.cli.support import answer, lines, splitbrain, start

QUICK = ["--nodes", "3", "--rate", "50", "--time-limit", "5", "--interval", "1", "--world", "lan", "--jobs", "2"]
M23 = ["--bug", "M23", "--workload", "register", "--nemesis", "partition-leader,partition-minority-leader"]
FIND_M23 = [*M23, "--nodes", "5", "--rate", "100", "--time-limit", "12", "--interval", "2", "--world", "lan"]

PASSES = Outcome.PASS
VIOLATES = Outcome.VIOLATION
FAILS = Outcome.HARNESS_ERROR
TOO_LITTLE = Outcome.INCONCLUSIVE

# --- what ends a search ---------------------------------------------------------------------------------------------


class Instant:
    """Workers whose answers are known: the outcome of each seed, in turn, for ever; each costs a CPU second."""

    jobs = 2

    def __init__(self, *outcomes: Outcome) -> None:
        self.cpu_s = 0.0
        self._outcomes = outcomes
        self._given: list[RunOptions] = []
        self.asked: list[int] = []

    @property
    def free(self) -> int:
        return 2 - len(self._given)

    @property
    def tasks(self) -> dict[int, RunOptions]:
        return dict(enumerate(self._given))

    def give(self, task: RunOptions) -> None:
        self._given.append(task)
        self.asked.append(task.seed)

    def wait(self, timeout_s: float) -> list[Report[RunOptions, Trial]]:
        task = self._given.pop(0)
        self.cpu_s += 1
        return [Report(task, _trial(task.seed, self._outcomes[task.seed % len(self._outcomes)]), None, 1.0)]


def _trial(seed: int, outcome: Outcome, **more: Any) -> Trial:
    options = draw(seed, Asked(workloads=("register",), nemeses=("kill",)))
    kind = {VIOLATES: "linearizable: nonlinearizable", FAILS: "something broke"}.get(outcome, "")
    return Trial(options=options, outcome=outcome, kind=kind, **more)


NO_LIMITS = Limits(budget_s=600.0)


def _search(
    workers: Instant,
    limits: Limits = NO_LIMITS,
    interrupts: Interrupts | None = None,
    again: Instant | None = None,
) -> Tally:
    return search(
        cast("Workers[RunOptions, Trial]", workers),
        (_trial(seed, PASSES).options for seed in range(10**6)),
        limits,
        interrupts=interrupts or Interrupts(),
        again=cast("Workers[RunOptions, Trial] | None", again),
    )


def test_a_search_stops_at_the_first_violation() -> None:
    tally = _search(Instant(PASSES, TOO_LITTLE, PASSES, VIOLATES))
    assert tally.outcomes[VIOLATES] == 1
    assert tally.seeds == [0, 1, 2, 3]
    assert [trial.options.seed for trial in tally.found(VIOLATES)] == [3]


def test_one_seed_in_twenty_is_repeated_and_a_difference_is_a_violation() -> None:
    again = Instant(PASSES)
    tally = _search(Instant(PASSES), Limits(budget_s=600.0, runs=50), again=again)
    assert again.asked == [7, 27, 47]
    assert tally.outcomes == {PASSES: 50}

    other = Other(PASSES)
    tally = _search(Instant(PASSES), Limits(budget_s=600.0, runs=50), again=other)
    assert tally.seeds == list(range(8))
    assert tally.kinds == {"not deterministic": 1}


def test_what_is_found_and_what_is_broken_is_not_compared() -> None:
    for outcome in (VIOLATES, FAILS):
        trial = _trial(7, outcome, record=(b"op 1",))
        assert compared(trial, _trial(7, outcome, record=(b"op 2",))).kind == trial.kind
    broke = compared(_trial(7, PASSES, record=(b"op 1",)), _trial(7, FAILS))
    assert (broke.outcome, broke.kind) == (FAILS, "something broke")


def test_a_finding_does_not_wait_for_its_repetition() -> None:
    class Never(Instant):
        """Repeats without an end."""

        def wait(self, timeout_s: float) -> list[Report[RunOptions, Trial]]:
            return []

    violates_at_7 = [PASSES] * 7 + [VIOLATES] + [PASSES] * 12
    tally = _search(Instant(*violates_at_7), again=Never(PASSES))
    assert [trial.options.seed for trial in tally.found(VIOLATES)] == [7]
    assert tally.seeds == list(range(8))


def test_a_repetition_that_is_only_judged_otherwise_is_an_error_of_the_harness() -> None:
    trial = _trial(7, PASSES, record=(b"op 1",))
    for outcome, found in ((VIOLATES, "linearizable: nonlinearizable"), (FAILS, "something broke")):
        judged = compared(trial, _trial(7, outcome, record=(b"op 1",)))
        assert judged.outcome is FAILS
        assert f"pass, and there {found}" in str(judged.harness_error)
    assert compared(trial, _trial(7, TOO_LITTLE, record=(b"op 1",))).outcome is PASSES


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        ({"record": (b"op 1", b"op 2")}, {"record": (b"op 1", b"op 3")}, "op 2, and there op 3"),
        ({"record": (b"op 1",)}, {"record": (b"op 1", b"op 2")}, "nothing more, and there op 2"),
        ({"marks": {"a": 1, "b": 2}}, {"marks": {"a": 1, "b": 3}}, "the mark 'b' was reached 2 times, and there 3"),
        ({"fingerprint": "x"}, {"fingerprint": "y"}, "the randomness"),
    ],
)
def test_a_repetition_that_differs_names_the_first_difference(
    one: dict[str, Any], other: dict[str, Any], difference: str
) -> None:
    found = compared(_trial(7, TOO_LITTLE, **one), _trial(7, TOO_LITTLE, **other))
    assert (found.outcome, found.kind, found.record) == (VIOLATES, "not deterministic", ())
    assert difference in found.sentences[0]
    same = compared(_trial(7, TOO_LITTLE, **one), _trial(7, TOO_LITTLE, **one))
    assert (same.outcome, same.kind, same.record, same.difference) == (TOO_LITTLE, "", (), None)


@pytest.mark.slow
def test_a_repeated_test_is_the_same_in_processes_with_two_hash_seeds() -> None:
    options = draw(7, Asked(workloads=("register",), nemeses=("kill",), nodes=(3,), time_limit=8.0))
    trials: list[Trial] = []
    for hash_seed in (HASH_SEED, OTHER_HASH_SEED):
        with Workers(carry_out, 1, limit_s=300.0, hash_seed=hash_seed) as workers:
            workers.give(options)
            while not (reports := workers.wait(60.0)):
                pass
            assert reports[0].answer is not None, reports[0].problem
            trials.append(reports[0].answer)
    first, again = trials
    assert any(line.startswith(b"op ") for line in first.record)
    assert any(b'"event":"hash"' in line for line in first.record)
    assert compared(first, again).difference is None


class Other(Instant):
    """Workers in whose processes every test goes otherwise."""

    def wait(self, timeout_s: float) -> list[Report[RunOptions, Trial]]:
        (report,) = super().wait(timeout_s)
        assert report.answer is not None
        return [Report(report.task, msgspec.structs.replace(report.answer, marks={"a mark": 1}), None, 1.0)]


class Backwards(Instant):
    """So many workers, of which the one that was asked last answers first."""

    def __init__(self, jobs: int, *outcomes: Outcome) -> None:
        super().__init__(*outcomes)
        self._jobs = jobs

    @property
    def free(self) -> int:
        return self._jobs - len(self._given)

    def wait(self, timeout_s: float) -> list[Report[RunOptions, Trial]]:
        self._given.reverse()
        reports = super().wait(timeout_s)
        self._given.reverse()
        return reports


@pytest.mark.parametrize("jobs", [1, 2, 3, 8])
def test_the_lowest_seed_that_fails_is_reported_however_many_workers_there_are(jobs: int) -> None:
    tally = _search(Backwards(jobs, PASSES, TOO_LITTLE, VIOLATES, VIOLATES, PASSES))
    assert tally.seeds == [0, 1, 2]
    assert tally.outcomes == {PASSES: 1, TOO_LITTLE: 1, VIOLATES: 1}
    assert [trial.options.seed for trial in tally.found(VIOLATES)] == [2]


@pytest.mark.parametrize("jobs", [1, 2, 3, 8])
def test_a_search_that_keeps_going_counts_in_the_order_of_seeds_however_many_workers_there_are(jobs: int) -> None:
    tally = _search(
        Backwards(jobs, PASSES, VIOLATES, FAILS, TOO_LITTLE), Limits(budget_s=600.0, runs=14, keep_going=True)
    )
    assert tally.seeds == list(range(14))
    assert [trial.options.seed for trial in tally.firsts.values()] == [1, 2]


def _said(tally: Tally, limits: Limits, capsys: pytest.CaptureFixture[str], nemesis: str = "kill") -> list[str]:
    asked = Asked(workloads=("register",), nemeses=(nemesis,))
    how = Hunted(asked, limits, ending(tally, limits, Interrupts()), 60.0)
    show(tally, how, [], None, Path("figures.json"), "store")
    return capsys.readouterr().out.splitlines()


def test_a_pass_says_how_many_of_the_asked_seeds_were_run_and_why_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    tally = _search(Instant(PASSES), Limits(budget_s=60.0, runs=5))
    said = _said(tally, Limits(budget_s=60.0, runs=60), capsys)
    assert said[0].startswith("PASS  5 of 60 runs in the budget of 60 CPU s (")
    assert said[1] == "weak evidence: only 5 runs passed; give it a longer --budget"
    assert _said(tally, Limits(budget_s=60.0), capsys)[0].startswith("PASS  5 runs in the budget of 60 CPU s (")
    said = _said(tally, Limits(budget_s=60.0, runs=5), capsys)
    assert said[0].startswith("PASS  5 of 5 runs (")
    assert said[1].endswith("give it more --runs")
    many = _search(Instant(PASSES), Limits(budget_s=60.0, runs=40))
    assert not any("weak" in line for line in _said(many, Limits(budget_s=60.0, runs=40), capsys))


@pytest.mark.parametrize(
    ("outcomes", "limits", "why"),
    [
        ((PASSES, VIOLATES), NO_LIMITS, "violation"),
        ((PASSES,), Limits(budget_s=600.0, runs=4), "runs"),
        ((PASSES,), Limits(budget_s=2.0), "budget"),
        ((FAILS,), NO_LIMITS, "harness-errors"),
    ],
)
def test_a_search_says_why_it_ended(outcomes: tuple[Outcome, ...], limits: Limits, why: str) -> None:
    assert ending(_search(Instant(*outcomes), limits), limits, Interrupts()) == why


def test_marks_that_the_faults_cannot_reach_are_counted_and_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    tally.add(_trial(1, PASSES, marks=dict.fromkeys(MARKS, 0)))
    said = "\n".join(_said(tally, NO_LIMITS, capsys))
    reachable = within_reach(tally.never, ["kill"])
    assert "op timed out" in reachable
    assert f"never reached: {len(reachable)} marks: {', '.join(reachable[:6])} and {len(reachable) - 6} more" in said
    for mark in ("messages lost", "disk failed", "leader isolated", "faults overlapped", "member added"):
        assert mark not in said
    assert " marks need other faults than --nemesis kill" in said


def test_every_built_in_kind_of_fault_has_marks_and_every_one_of_them_exists() -> None:
    assert all(NEMESES[name].kind.marks for name in possible("metadata"))
    assert {mark for kind in KINDS.values() for mark in kind.marks} <= set(MARKS)


def test_a_users_kind_that_has_a_mark_brings_it_within_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    assert within_reach(["one-way cut", "disk failed"], ["examples.own_nemesis:EXILE"]) == []
    own = dataclasses.replace(EXILE, marks=("one-way cut",))
    monkeypatch.setattr("examples.own_nemesis.EXILE", own)
    assert within_reach(["one-way cut", "disk failed"], ["examples.own_nemesis:EXILE"]) == ["one-way cut"]


def test_no_seed_is_begun_behind_a_violation() -> None:
    workers = Backwards(4, PASSES, VIOLATES, PASSES, PASSES, PASSES)
    assert _search(workers).seeds == [0, 1]
    assert max(workers.asked) <= 6


def test_a_search_that_keeps_going_counts_each_kind_and_keeps_its_first_trial() -> None:
    tally = _search(Instant(PASSES, VIOLATES), Limits(budget_s=600.0, runs=10, keep_going=True))
    assert tally.outcomes == {PASSES: 5, VIOLATES: 5}
    assert tally.kinds == {"linearizable: nonlinearizable": 5}
    assert [trial.options.seed for trial in tally.found(VIOLATES)] == [1]


def test_runs_are_counted_exactly() -> None:
    workers = Instant(PASSES)
    assert _search(workers, Limits(budget_s=600.0, runs=7)).runs == 7
    assert workers.asked == [0, 1, 2, 3, 4, 5, 6]


def test_a_budget_counts_the_cpu_seconds_of_each_worker_and_what_is_begun_is_ended() -> None:
    workers = Instant(PASSES)
    workers.cpu_s = 100.0  # of an earlier search
    assert _search(workers, Limits(budget_s=5.0)).runs == 11
    assert workers.cpu_s == 111.0


def test_a_spent_budget_begins_nothing() -> None:
    workers = Instant(PASSES)
    assert _search(workers, Limits(budget_s=0.0)).runs == 0
    assert workers.asked == []


def test_a_broken_harness_is_not_tried_for_ever() -> None:
    assert _search(Instant(FAILS)).outcomes == {FAILS: HARNESS_ERRORS_MAX}


def test_an_interrupted_search_ends_with_what_it_has() -> None:
    interrupts = Interrupts()

    class Interrupted(Instant):
        def wait(self, timeout_s: float) -> list[Report[RunOptions, Trial]]:
            interrupts.seen = len(self.asked) > 3
            return super().wait(timeout_s)

    assert 0 < _search(Interrupted(PASSES), interrupts=interrupts).runs < 10


def test_a_signal_is_heard_and_a_second_one_is_not_held_back() -> None:
    interrupts = Interrupts()
    before = signal.getsignal(signal.SIGINT)
    with interrupts.heard():
        signal.raise_signal(signal.SIGINT)
        assert interrupts.seen
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


# --- what it adds up to ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ((), TOO_LITTLE),
        ((TOO_LITTLE, TOO_LITTLE), TOO_LITTLE),
        ((TOO_LITTLE, PASSES), PASSES),
        ((TOO_LITTLE, PASSES, FAILS), FAILS),
        ((FAILS, VIOLATES, PASSES), VIOLATES),
    ],
)
def test_inconclusive_runs_decide_only_if_nothing_else_does(outcomes: tuple[Outcome, ...], expected: Outcome) -> None:
    tally = Tally()
    for seed, outcome in enumerate(outcomes):
        tally.add(_trial(seed, outcome))
    assert tally.outcome is expected


def test_the_first_seeds_of_inconclusive_runs_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    tally.add(_trial(1, PASSES))
    for seed in range(17, 2, -1):
        tally.add(_trial(seed, TOO_LITTLE, reason="too-few-ops"))
    tally.add(_trial(18, PASSES))
    seeds = ", ".join(map(str, range(3, 13)))
    assert f"inconclusive because of: too-few-ops 15 (seeds {seeds}, ...)" in _said(tally, NO_LIMITS, capsys)
    assert tally.document(1.0)["inconclusive_seeds"] == [*range(3, 18)]


def test_marks_are_added_up_with_their_zeros() -> None:
    tally = Tally()
    tally.add(_trial(1, PASSES, marks={"a": 2, "b": 0, "c": 0}))
    tally.add(_trial(2, PASSES, marks={"a": 1, "b": 0, "c": 5}))
    assert tally.marks == {"a": 3, "b": 0, "c": 5}
    assert tally.reached == 2
    assert tally.never == ["b"]


def test_ratios_are_of_all_trials() -> None:
    tally = Tally()
    tally.add(_trial(1, PASSES, simulated_s=90.0, cpu_s=1.0, ops=10))
    tally.add(_trial(2, PASSES, simulated_s=30.0, cpu_s=2.0, ops=5))
    figures = tally.figures(wall_s=4.0)
    assert figures["simulated_s_per_cpu_s"] == 40.0
    assert figures["runs_per_s"] == 0.5
    assert figures["ops"] == 15


def test_seeds_are_told_as_ranges() -> None:
    assert ranges([5, 3, 4, 9, 7, 8, 1]) == [[1, 1], [3, 5], [7, 9]]
    assert ranges([]) == []


def test_the_same_error_at_another_seed_is_of_the_same_kind() -> None:
    one, two = (broken(_trial(seed, FAILS).options, f"seed {seed}: it broke") for seed in (17, 42))
    assert one.kind == two.kind


# --- the canary -----------------------------------------------------------------------------------------------------


def test_a_canary_that_is_not_caught_is_an_error_that_says_what_was_seen() -> None:
    workers = Instant(PASSES)
    with pytest.raises(HarnessError, match=r"canary was not found.*8 pass"):
        canary.check(cast("Workers[RunOptions, Trial]", workers), Interrupts())
    assert sorted(workers.asked) == list(canary.SEEDS)


def test_a_violation_of_another_kind_is_no_canary() -> None:
    class Liveness(Instant):
        def wait(self, timeout_s: float) -> list[Report[RunOptions, Trial]]:
            [report] = super().wait(timeout_s)
            assert report.answer is not None
            return [
                Report(report.task, msgspec.structs.replace(report.answer, kind="recovery: no-recovery"), None, 1.0)
            ]

    with pytest.raises(HarnessError, match="recovery: no-recovery"):
        canary.check(cast("Workers[RunOptions, Trial]", Liveness(VIOLATES)), Interrupts())


def test_a_caught_canary_leaves_all_workers_free() -> None:
    workers = Instant(VIOLATES)
    canary.check(cast("Workers[RunOptions, Trial]", workers), Interrupts())
    assert workers.free == 2


@pytest.mark.slow
def test_a_pipeline_that_misses_the_canary_is_reported_as_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(canary, "ASKED", msgspec.structs.replace(canary.ASKED, bug=""))
    with pytest.raises(SystemExit) as ended:
        main(["hunt", "--store", str(tmp_path), *QUICK, "--runs", "1"])
    assert ended.value.code == 255
    assert "the pipeline is broken: the canary was not found" in capfd.readouterr().err


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_hunt_finds_a_bug_and_its_command_finds_the_same_again(tmp_path: Path) -> None:
    store = tmp_path / "store"
    done = splitbrain("hunt", *FIND_M23, "--seed", "1", "--no-shrink", "--json", "--store", str(store))
    found = answer(done)
    assert (found["outcome"], done.returncode) == ("violation", 1), found["outcomes"]
    [finding] = [each for each in found["findings"] if each["outcome"] == "violation"]
    assert finding["problem"] is None
    assert "linearizable: nonlinearizable" in finding["kind"]
    kept = RunDir(Path(finding["run"]))
    judgement = kept.read_verdicts()
    assert judgement is not None
    assert judgement.outcome == "violation"
    assert Path(finding["report"]).exists()
    elsewhere = finding["command"].replace(str(store), str(tmp_path / "again"))
    assert elsewhere != finding["command"]
    again = splitbrain(*shlex.split(elsewhere)[1:], "--json")
    assert again.returncode == 1
    assert answer(again)["seed"] == finding["seed"]
    [run] = Store(tmp_path / "again").runs()
    assert run.history().equals(kept.history())
    replayed = splitbrain(*shlex.split(finding["replay"])[1:])
    assert replayed.returncode == 1
    assert "the same history" in replayed.stdout


def test_a_hunt_without_bugs_passes_and_leaves_its_figures(tmp_path: Path) -> None:
    done = splitbrain(
        "hunt", *QUICK, "--workload", "register,set", "--nemesis", "kill,partition-halves", "--seed", "3",
        "--runs", "4", "--no-canary", "--json", "--store", str(tmp_path),
    )  # fmt: skip
    found = answer(done)
    assert (found["outcome"], done.returncode) == ("pass", 0), found
    assert found["seeds"] == [[3, 6]]
    assert sum(found["outcomes"].values()) == 4
    assert found["figures"]["simulated_s"] > 20
    assert any(found["marks"].values())
    assert found["never_reached"] == sorted(mark for mark, count in found["marks"].items() if not count)
    [left] = (tmp_path / "hunts").iterdir()
    assert json.loads(left.read_text())["marks"] == found["marks"]
    assert Store(tmp_path).runs() == []  # only what failed is kept, and figures are no run


@pytest.mark.slow
def test_people_are_told_the_seed_the_commands_and_less_that_still_fails(tmp_path: Path) -> None:
    done = splitbrain(
        "hunt", *FIND_M23, "--seed", "1", "--shrink-budget", "10", "--store", str(tmp_path), timeout_s=300
    )
    said = lines(done.stdout)
    assert done.returncode == 1, done.stderr
    assert said[0].startswith("VIOLATION")
    assert any(line.startswith("seed ") and "violation" in line for line in said)
    assert any(line.startswith("again   splitbrain run --workload register") for line in said)
    assert any(line.startswith("never reached: ") for line in said)
    smaller = said[said.index("shrunk") :]
    assert smaller[1].startswith("Not linearizable")
    [replay] = [line for line in smaller if line.startswith("replay  ")]
    again = splitbrain(*shlex.split(replay)[2:])
    assert again.returncode == 1
    assert smaller[1] in lines(again.stdout)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--workload", "regster"], "register"),
        (["--nemesis", "kil"], "kill"),
        (["--nodes", "0"], "--nodes"),
        (["--budget", "0"], "budget"),
        (["--runs", "0"], "--runs"),
        (["--jobs", "0"], "--jobs"),
        (["--seed", "-1"], "--seed"),
        (["--store", "/proc/nowhere"], "--store"),
    ],
)
def test_a_wrong_request_is_refused_in_one_line(wrong: list[str], told: str, tmp_path: Path) -> None:
    done = splitbrain("hunt", "--store", str(tmp_path), *wrong)
    assert done.returncode == 254
    assert done.stdout == ""
    assert len(lines(done.stderr)) == 1
    assert told in done.stderr


@pytest.mark.slow
def test_a_killed_worker_is_reported_with_its_seed_and_does_not_end_the_hunt(tmp_path: Path) -> None:
    process = _started(tmp_path, "--runs", "30")
    victim = _workers_of(process.pid)[0]
    os.kill(victim, signal.SIGKILL)
    out, _ = process.communicate(timeout=120)
    found = json.loads(out)
    assert process.returncode == 255, found["outcomes"]
    assert found["outcomes"]["harness error"] == 1
    assert sum(found["outcomes"].values()) == 30
    [finding] = found["findings"]
    assert f"seed {finding['seed']}: its worker process was ended by SIGKILL" in finding["harness_error"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_a_hunt_with_what_was_found(tmp_path: Path, number: signal.Signals) -> None:
    process = _started(tmp_path, "--budget", "600")
    workers = _workers_of(process.pid)
    _wait_for_runs(process)
    process.send_signal(number)
    out, errors = process.communicate(timeout=120)
    found = json.loads(out)
    assert process.returncode == 0, errors
    assert sum(found["outcomes"].values()) > 0
    assert "Traceback" not in errors
    assert len(list((tmp_path / "hunts").iterdir())) == 1
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]


def _started(store: Path, *arguments: str) -> subprocess.Popen[str]:
    """A hunt whose workers are there."""
    given = [*QUICK, "--workload", "register", "--nemesis", "kill", "--keep-going", "--no-canary", "--seed", "1"]
    process = start("hunt", "--json", "--store", str(store), *given, *arguments, cwd=store)
    deadline = time.monotonic() + 120
    while len(_workers_of(process.pid)) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


def _wait_for_runs(process: subprocess.Popen[str]) -> None:
    """Wait until its progress tells of runs."""
    assert process.stderr is not None
    assert any(" runs (" in line for line in process.stderr), process.poll()


def _workers_of(pid: int) -> list[int]:
    return [child for child in _children(pid) if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        yield from map(int, (task / "children").read_text().split())


def test_help_says_what_is_drawn_and_which_worlds_there_are() -> None:
    text = " ".join(splitbrain("hunt", "--help").stdout.split())
    assert f"[default: drawn, {min(TIME_LIMITS_S):g} to {max(TIME_LIMITS_S):g}]" in text
    assert f"that a correct system tolerates, without {SELDOM}]" in text
    text = " ".join(splitbrain("run", "--help").stdout.replace("-\n", "-").split())
    listed = text.partition("The properties of the simulated")[2].partition("drawn from the seed")[0]
    assert [name for name in WORLDS if name not in listed] == []


def test_a_hunt_takes_the_bound_that_is_advised_where_a_system_recovers_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The advice of `no-recovery` is a longer --recovery, in a hunt as in a run."""
    asked: list[Asked] = []

    def hunted(found: Asked, *_: Any) -> None:
        asked.append(found)
        raise HarnessError("enough")

    monkeypatch.setattr("splitbrain.harness.cli.hunt._hunt", hunted)
    with pytest.raises(SystemExit) as ended:
        main(["hunt", "--system", "tables", "--recovery", "45", "--store", str(tmp_path)])
    assert ended.value.code == HarnessError.exit_code
    assert {draw(seed, asked[0]).recovery for seed in range(5)} == {45.0}
    assert "--recovery 45" in command_line(draw(1, asked[0]))


def test_a_hunt_gives_no_search_more_time_than_its_own_limit() -> None:
    model = CheckerSpec("linearizable", {"model": "counter"})
    quick = CheckerSpec("linearizable", {"model": "counter", "time_limit_s": 1.0})
    patient = CheckerSpec("linearizable", {"model": "counter", "time_limit_s": 600.0})
    other = CheckerSpec("stats")
    limits = [spec.options.get("time_limit_s") for spec in hurried([model, quick, patient, other])]
    assert limits == [SEARCH_S, 1.0, SEARCH_S, None]
    assert model.options == {"model": "counter"}, "what a run is judged by stays as it is"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("given", "budget_s"), [((), 120.0), (("--shrink-budget", "7"), 7.0)])
def test_the_shrink_of_a_hunt_gets_its_budget(
    given: Sequence[str], budget_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    def shrink_first(*_: Any, **named: Any) -> None:
        asked.append(named["budget_s"])

    monkeypatch.setattr("splitbrain.harness.campaigns.hunting.smaller.shrink_first", shrink_first)
    short = ("--workload", "register", "--nemesis", "none", "--nodes", "3", "--time-limit", "1", "--runs", "1")
    words = ["hunt", *short, "--no-canary", "--jobs", "1", "--seed", "1", "--store", str(tmp_path), *given]
    with pytest.raises(SystemExit):
        main(words)
    assert asked == [budget_s]
