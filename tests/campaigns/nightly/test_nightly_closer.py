"""What failed is looked at in order: what is not known first, and replays on real nodes leave time for shrinking."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from splitbrain.harness.campaigns.nightly import closer
from splitbrain.harness.campaigns.nightly.cells import Cell, options_of_cell
from splitbrain.harness.campaigns.nightly.tasks import Task, collect
from splitbrain.harness.campaigns.workers import Report
from splitbrain.results.baseline import Baseline, Known
from splitbrain.results.nights import Entry, Kept, Ran, Replayed, Shrunk

TODAY = date(2026, 5, 1)
KNOWN = Known(signature="set/lost", issue="#1", owner="ann", expires=TODAY)


def _ran(seed: int, signature: str, backend: str) -> Ran:
    cell = Cell("set", "kill", backend=backend)
    run = None if backend == "sim" else f"store/run={seed}"
    return Ran(
        cell=cell.name, seed=seed, why="fresh", outcome="violation", command="c", signatures=(signature,), run=run
    )


class Lane:
    """A worker whose answers are known: the violation of a seed comes up again if the seed is even."""

    def __init__(self, night: Fake, seconds: float) -> None:
        self._night, self._seconds = night, seconds
        self.tasks: dict[int, Task] = {}

    @property
    def free(self) -> int:
        return 1 - len(self.tasks)

    def give(self, task: Task) -> None:
        self.tasks[0] = task

    def wait(self, timeout_s: float) -> list[Report[Task, Ran]]:
        task = self.tasks.pop(0)
        self._night.left_s -= self._seconds
        found = next(run for run in self._night.runs if (run.cell, run.seed) == (task.cell, task.options.seed))
        signatures = found.signatures if task.options.seed % 2 == 0 else ("set/duplicate/-/none",)
        return [Report(task, msgspec.structs.replace(found, signatures=signatures), None, 1.0)]


class Fake:
    """A night whose cells have been run."""

    def __init__(self, runs: Sequence[Ran], left_s: float) -> None:
        self.runs, self.left_s = runs, left_s
        self.elapsed_s = 0.0
        self.done: list[Entry] = []

    def entries(self, kind: type[Any]) -> Sequence[Any]:
        return [entry for entry in self.done if isinstance(entry, kind)]

    def stamp(self, entry: Entry) -> None:
        self.done.append(entry)

    def repeated(self, run: Ran) -> Task:
        options = options_of_cell(Cell(*run.cell.split("/")), {"nodes": "3"}, run.seed)
        return Task(cell=run.cell, why="fresh", options=options, store="store", replayed=run.run)

    def over(self) -> bool:
        return self.left_s <= 0

    def fits(self, run: Ran, doing: closer.Doing = "replaying") -> bool:
        return self.left_s > 0

    def kept(self, seconds: float) -> None:
        pass

    def stopped(self) -> bool:
        return False

    def is_full(self) -> bool:
        return True

    def line(self, what: str) -> None:
        pass


def _look(night: Fake, monkeypatch: pytest.MonkeyPatch, replays: int = 2) -> None:
    def shrunk(_night: Any, run: Ran, *_: Any) -> Shrunk:
        return Shrunk(cell=run.cell, seed=run.seed, plan="p")

    monkeypatch.setattr(closer, "_shrunk", shrunk)
    lanes = cast("closer.Lanes", {True: Lane(night, 1.0), False: Lane(night, 10.0)})
    wanted = closer.Wanted(
        store=Path("store"), replays=replays, shrinks=True, jobs=1, baseline=Baseline([KNOWN]), today=TODAY
    )
    closer.look(night, lanes, wanted)


def test_what_is_not_known_comes_first_and_each_is_replayed_as_often_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    known, other, new = (
        _ran(2, "set/lost/-/kill", "sim"),
        _ran(4, "set/lost/-/kill", "sim"),
        _ran(3, "a/b/-/-", "local"),
    )
    night = Fake([known, other, new], left_s=1000.0)
    _look(night, monkeypatch)
    found = [(type(entry).__name__, entry.seed) for entry in night.done if not isinstance(entry, Shrunk)]
    assert found == [("Replayed", 3), ("Replayed", 3), ("Kept", 2), ("Replayed", 2), ("Replayed", 2)]
    assert [entry.seen for entry in night.entries(Replayed)] == [False, False, True, True]


def test_replays_on_real_nodes_leave_half_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    night = Fake([_ran(3, "a/b/-/-", "local")], left_s=100.0)
    _look(night, monkeypatch, replays=100)
    assert len(night.entries(Replayed)) == 6
    assert night.left_s == 40.0
    assert {each.run for each in night.entries(Replayed)} == {"store/run=3"}


def test_a_run_without_an_answer_is_an_error_that_took_its_time() -> None:
    task = Fake([], 1.0).repeated(_ran(3, "a/b/-/-", "sim"))

    class Killed(Lane):
        def wait(self, timeout_s: float) -> list[Report[Task, Ran]]:
            return [Report(self.tasks.pop(0), None, "it was killed.", 7.5)]

    lane = Killed(Fake([], 1.0), 0.0)
    lane.give(task)
    [found] = collect(cast("closer.Lanes", {True: lane}), 0.0)
    assert (found.outcome, found.error, found.seconds) == ("harness error", "seed 3: it was killed.", 7.5)


def test_what_is_done_is_not_done_again_after_a_resume_and_a_full_store_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = _ran(2, "a/b/-/-", "sim")
    night = Fake([run], left_s=100.0)
    night.done = [Kept(cell=run.cell, seed=2, run="r"), Replayed(cell=run.cell, seed=2, seen=True)]
    _look(night, monkeypatch)
    assert (len(night.entries(Kept)), len(night.entries(Replayed)), len(night.entries(Shrunk))) == (1, 2, 1)
    _look(night, monkeypatch)
    assert len(night.done) == 4
    full = Fake([run], left_s=100.0)
    _look(full, monkeypatch, replays=0)
    [kept] = full.entries(Kept)
    assert kept.run is None
    assert "the store is as large as it may be" in kept.problem
    assert full.entries(Shrunk) == []


def test_a_simulation_that_gives_another_history_is_reported_and_not_shrunk_and_only_so_many_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Roomy(Fake):
        def is_full(self) -> bool:
            return False

    def again(*_: Any) -> Any:
        return SimpleNamespace(run=SimpleNamespace(path="p", history=lambda: None), report="r")

    def history_hash(_: Any) -> str:
        return "another"

    monkeypatch.setattr(closer, "KEPT_MAX", 2)
    monkeypatch.setattr(closer, "run_and_judge", again)
    monkeypatch.setattr(closer.arrow, "history_hash", history_hash)
    runs = [_ran(seed, f"a/{name}/-/-", "sim") for seed, name in enumerate("bcd")]
    runs[1] = msgspec.structs.replace(runs[1], history_hash="another")
    night = Roomy(runs, left_s=100.0)
    _look(night, monkeypatch, replays=0)
    kept = night.entries(Kept)
    assert [(each.seed, each.run) for each in kept] == [(0, "p"), (1, "p")]
    assert "not deterministic" in kept[0].problem
    assert kept[1].problem is None
    assert [each.seed for each in night.entries(Shrunk)] == [1]
