"""A night keeps to its budget, counted by a clock that only runs advance: runs, storing, replays and shrinking."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from splitbrain.harness.campaigns.interrupts import Interrupts
from splitbrain.harness.campaigns.nightly import closer, journal
from splitbrain.harness.campaigns.nightly.cells import Cell
from splitbrain.harness.campaigns.nightly.matrix import load_matrix
from splitbrain.harness.campaigns.nightly.night import NightPlan, _Night  # pyright: ignore[reportPrivateUsage]
from splitbrain.harness.campaigns.nightly.spending import Spending
from splitbrain.harness.campaigns.nightly.tasks import Task
from splitbrain.harness.campaigns.workers import Report
from splitbrain.results.baseline import Baseline
from splitbrain.results.nights import Kept, Ran, Replayed, Shrunk

BUDGET_S = 600.0
SIM, REAL = Cell("set", "kill"), Cell("set", "kill", backend="local")


class Clock:
    """The time of a test, which passes only where something takes time."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def passes(self, seconds: float) -> None:
        self.now_s += seconds


class Lane:
    """Workers whose runs take as long as `length` says; waiting takes as long as is left until one of them ends."""

    def __init__(self, clock: Clock, jobs: int, length: Callable[[Task], float], fails: Callable[[Task], bool]) -> None:
        self.jobs, self._clock, self._length, self._fails = jobs, clock, length, fails
        self._ends_s: dict[int, float] = {}
        self.tasks: dict[int, Task] = {}
        self.lengths: list[float] = []
        self._number = 0

    @property
    def free(self) -> int:
        return self.jobs - len(self.tasks)

    def give(self, task: Task) -> None:
        self._number += 1
        self.tasks[self._number] = task
        self.lengths.append(self._length(task))
        self._ends_s[self._number] = self._clock() + self.lengths[-1]

    def wait(self, timeout_s: float) -> list[Report[Task, Ran]]:
        first_s = min(self._ends_s.values())
        self._clock.passes(max(0.0, min(timeout_s, first_s - self._clock())))
        over = [number for number, ends_s in self._ends_s.items() if ends_s <= self._clock()]
        return [self._report(number) for number in over]

    def _report(self, number: int) -> Report[Task, Ran]:
        task = self.tasks.pop(number)
        del self._ends_s[number]
        simulated = task.options.backend == "sim"
        failed = self._fails(task)
        ran = Ran(
            cell=task.cell,
            seed=task.options.seed,
            why="fresh",
            outcome="violation" if failed else "pass",
            command="c",
            signatures=(f"a/b{task.options.seed}/-/-",) if failed else (),
            seconds=self.lengths[number - 1],
            run=None if simulated else "store/run",
            history_hash="same",
        )
        return Report(task, ran, None, 1.0)


def _synced(_: int) -> None:
    """Nothing is lost in a test that ends well."""


def _same(_: object) -> str:
    return "same"


class Took(msgspec.Struct, frozen=True):
    """A night that is over, and how long it took by the clock of the test."""

    night: Any
    seconds: float
    longest_s: float
    ended_by: str


def _took(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    length: Callable[[Task], float],
    fails: Callable[[Task], bool],
    keeping_s: float = 8.0,
    shrinking_s: float = BUDGET_S,
    backends: str = '["sim", "local"]',
    budget_s: float = BUDGET_S,
) -> Took:
    (folder / "night.toml").write_text(
        f'[axes]\nworkload = "set"\nnemesis = "kill"\nbackend = {backends}\n[options]\ntime-limit = 30\n'
    )
    clock = Clock()

    def stored(*_: Any) -> Any:
        clock.passes(keeping_s)
        return SimpleNamespace(run=SimpleNamespace(path="p", history=lambda: None), report="r")

    def shrunk(night: Any, run: Ran, *_: Any, **__: Any) -> Shrunk:
        began_s = clock()
        while night.fits(run, "keeping") and clock() - began_s < shrinking_s:
            clock.passes(1.0)
        stored()
        return Shrunk(cell=run.cell, seed=run.seed, plan="p")

    monkeypatch.setattr(journal.os, "fsync", _synced)
    monkeypatch.setattr(closer, "run_and_judge", stored)
    monkeypatch.setattr(closer, "_shrunk", shrunk)
    monkeypatch.setattr(closer.arrow, "history_hash", _same)
    plan = NightPlan(
        matrix=load_matrix(folder / "night.toml"),
        store=folder / "store",
        baseline=Baseline(),
        jobs=2,
        budget_s=budget_s,
        seed=1,
    )
    lanes: Any = {True: Lane(clock, 1, length, fails), False: Lane(clock, 1, length, fails)}
    with journal.Journal(folder / journal.FILE) as entries:
        night = _Night(plan, folder / "n", entries, [], Interrupts(), lambda _: None, clock)
        ended_by = night.gone_through(lanes)
    longest_s = max(max(lane.lengths, default=0.0) for lane in lanes.values())
    return Took(night, clock(), longest_s, ended_by)


def _even(task: Task) -> float:
    return 3.0 if task.options.backend == "sim" else 47.0


@pytest.mark.parametrize("failing", [0.0, 0.01, 0.5, 1.0])
def test_a_night_whose_runs_are_alike_is_never_longer_than_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: float
) -> None:
    draw = random.Random(7)
    found = _took(tmp_path, monkeypatch, length=_even, fails=lambda _: draw.random() < failing)
    assert found.seconds <= BUDGET_S
    assert found.seconds > 0.9 * BUDGET_S  # and it uses what it has
    assert found.ended_by == "budget"


def test_time_that_was_kept_for_what_failed_and_is_not_needed_goes_to_the_cells_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Task] = []

    def fails(task: Task) -> bool:
        tried.append(task)
        return len(tried) == 1

    found = _took(tmp_path, monkeypatch, length=_even, fails=fails, shrinking_s=5.0, backends='"sim"')
    late = [run for run in found.night.entries(Ran) if run.elapsed_s > 0.9 * BUDGET_S]
    assert late
    assert found.night.entries(Replayed)
    assert found.seconds <= BUDGET_S


@pytest.mark.parametrize("seed", range(5))
def test_a_night_whose_runs_are_not_alike_is_longer_by_no_more_than_the_runs_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)

    def length(task: Task) -> float:
        return draw.expovariate(1 / 4) if task.options.backend == "sim" else 30 + draw.expovariate(1 / 60)

    found = _took(tmp_path, monkeypatch, length=length, fails=lambda _: draw.random() < 0.2, keeping_s=40.0)
    assert found.seconds <= BUDGET_S + found.longest_s


def test_a_real_run_that_would_not_fit_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _took(
        tmp_path, monkeypatch, length=lambda _: 45.0, fails=lambda _: False, backends='"local"', budget_s=20.0
    )
    assert (found.seconds, found.ended_by, len(found.night.runs)) == (0.0, "budget", 0)


def test_what_fails_in_the_last_run_is_still_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late_s = BUDGET_S * 0.95 - 6.0
    clocks: list[float] = []

    def fails(task: Task) -> bool:
        clocks.append(3.0)
        return sum(clocks) >= late_s

    found = _took(tmp_path, monkeypatch, length=_even, fails=fails, backends='"sim"')
    runs = [run for run in found.night.runs if run.outcome == "violation"]
    assert {(each.cell, each.seed) for each in found.night.entries(Kept)} == {(run.cell, run.seed) for run in runs}
    assert runs
    assert found.seconds <= BUDGET_S


def test_replays_and_shrinking_are_within_the_budget_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _took(tmp_path, monkeypatch, length=_even, fails=lambda _: True, backends='"local"')
    assert found.seconds <= BUDGET_S
    assert found.night.entries(Replayed)


def test_a_run_of_which_nothing_is_known_takes_as_long_as_others_of_its_backend_and_no_less_than_its_limit() -> None:
    clock = Clock()
    spending = Spending(100.0, clock=clock)
    other = Cell("register", "kill", backend="local")
    assert (spending.usual_s(SIM), spending.usual_s(REAL, 30.0)) == (0.0, 30.0)
    spending.begins(REAL, 1)
    clock.passes(50.0)
    spending.ended(REAL, 1, 45.0)
    assert (spending.usual_s(other, 30.0), spending.usual_s(SIM)) == (50.0, 0.0)
    assert not spending.run_fits(other, 30.0, failed=False)
    spending.begins(SIM, 1, loads=True)
    clock.passes(20.0)
    spending.ended(SIM, 1, 2.0)
    assert spending.usual_s(SIM) == 2.0
    assert spending.run_fits(SIM, 0.0, failed=False)
    assert not Spending(100.0, 90.0, clock).run_fits(SIM, 0.0, failed=True)
