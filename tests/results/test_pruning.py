"""Pruning a store: what goes, what stays whatever the limits, and what an interruption leaves."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from splitbrain.results import quantities
from splitbrain.results.errors import HarnessError, UsageError
from splitbrain.results.pruning import OUTCOMES, Candidate, Limits, candidates, choose, remove, remove_interrupted
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.cli.support import answer, splitbrain

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def make(store: Store, test: str, days_ago: float, outcome: str | None = "pass", size: int = 0) -> RunDir:
    """A run that ended so, and is released."""
    began = NOW - timedelta(days=days_ago)
    run = store.create(test, 1, {}, int(began.timestamp() * 1e9))
    if outcome is not None:
        run.write_verdicts([], outcome)
    (run.node_dir("n1") / "log").write_bytes(b"x" * size)
    run.release()
    return run


def chosen(store: Store, limits: Limits) -> set[str]:
    return {Path(run.path).name for run in choose(candidates(store), limits, NOW.timestamp())}


def test_violations_and_runs_that_nobody_judged_stay_unless_they_are_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    runs = {
        outcome: make(store, "t", 10 + at, None if outcome == "unjudged" else outcome.replace("-", " "))
        for at, outcome in enumerate(OUTCOMES)
    }
    old = Limits(older_than_s=1.0)
    kept = {runs[outcome].path.name for outcome in ("violation", "unjudged")}
    assert chosen(store, old) == {run.path.name for run in runs.values()} - kept
    assert chosen(store, Limits(older_than_s=1.0, outcomes=frozenset(OUTCOMES))) == {
        run.path.name for run in runs.values()
    }


def test_a_run_goes_by_its_age_its_place_among_the_newest_of_its_test_or_the_size_of_the_store(tmp_path: Path) -> None:
    store = Store(tmp_path)
    a = [make(store, "a", days, size=200_000) for days in (9, 5, 1)]
    b = [make(store, "b", days, size=200_000) for days in (7, 2)]
    assert chosen(store, Limits()) == set()
    assert chosen(store, Limits(older_than_s=6 * 86400)) == {a[0].path.name, b[0].path.name}
    assert chosen(store, Limits(keep=1)) == {a[0].path.name, a[1].path.name, b[0].path.name}
    assert chosen(store, Limits(keep=0, tests=frozenset({"b"}))) == {run.path.name for run in b}
    assert chosen(store, Limits(max_bytes=750_000)) == {a[0].path.name, b[0].path.name}, "the oldest go first"
    assert len(chosen(store, Limits(max_bytes=0))) == 5


def test_a_run_under_way_and_one_that_a_newer_version_judged_stay(tmp_path: Path) -> None:
    store = Store(tmp_path)
    under_way = store.create("t", 1, {}, int((NOW - timedelta(days=9)).timestamp() * 1e9))
    under_way.write_verdicts([], "pass")
    newer = make(store, "t", 8)
    document = json.loads((newer.path / "verdict.json").read_text())
    (newer.path / "verdict.json").write_text(json.dumps({**document, "format": 999}))
    everything = Limits(older_than_s=0.0, keep=0, max_bytes=0, outcomes=frozenset(OUTCOMES))
    assert chosen(store, everything) == set()
    with pytest.raises(HarnessError, match="under way"):
        remove(Candidate(str(under_way.path), "t", "pass", 0.0, 0))
    assert under_way.path.exists()
    under_way.release()


def test_a_removed_run_is_gone_with_its_tests_folder_and_what_links_in_it_lead_to_stays(tmp_path: Path) -> None:
    store, outside = Store(tmp_path / "store"), tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    run = make(store, "t", 1)
    os.symlink(outside, run.path / "nodes" / "elsewhere")
    [found] = candidates(store)
    remove(found)
    assert not run.path.parent.exists()
    assert (outside / "file").exists()


def test_what_an_interrupted_removal_left_goes_with_the_next_one_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = make(store, "t", 1)
    left = run.path.with_name(f".removing-{run.path.name}")
    foreign = run.path.with_name(".removing-mine")
    for folder in (left, foreign):
        folder.mkdir()
        (folder / "file").touch()
    remove_interrupted(store)
    assert not left.exists()
    assert foreign.exists()
    assert run.path.exists()


def test_what_a_killed_pull_left_goes_after_a_day(tmp_path: Path) -> None:
    run = make(Store(tmp_path), "t", 1)
    old, young = run.path.with_name(".creating-old"), run.path.with_name(".creating-young")
    for folder in (old, young):
        folder.mkdir()
        (folder / "file").touch()
    long_ago_s = time.time() - 100_000
    os.utime(old, (long_ago_s, long_ago_s))
    remove_interrupted(Store(tmp_path))
    assert [each.exists() for each in (old, young, run.path)] == [False, True, True]


@pytest.mark.slow
def test_the_command_tells_what_it_would_remove_and_removes_it_then(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run, violation = make(store, "t", 1), make(store, "t", 2, "violation")
    asked = ("prune", "--store", str(tmp_path), "--keep", "0", "--json")
    would = answer(splitbrain(*asked, "--dry-run"))
    assert [each["path"] for each in would["removed"]] == [str(run.path)]
    assert run.path.exists()
    done = answer(splitbrain(*asked))
    assert (done["removed"], done["runs_left"]) == (would["removed"], 1)
    assert not run.path.exists()
    assert violation.path.exists()


def test_what_keeps_a_store_larger_than_asked_for_is_told(tmp_path: Path) -> None:
    store = Store(tmp_path)
    make(store, "t", 1)
    damaged = make(store, "t", 2, "violation")
    make(store, "t", 3, "violation")
    (damaged.path / "verdict.json").write_text("{")
    done = splitbrain("prune", "--store", str(tmp_path), "--max-size", "1", "--outcome", "pass")
    assert done.returncode == 0
    unknown, stays = done.stderr.splitlines()
    assert unknown == f"skipped: {damaged.path}: in progress, damaged, or of a newer version"
    assert stays.startswith("the runs that stay take ")
    assert "more than --max-size: they have another outcome than pass" in stays


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "no limit is given"),
        (("--older-than", "soon"), "--older-than 'soon' is no age"),
        (("--max-size", "-1"), "--max-size '-1' is no size"),
        (("--keep", "1", "--outcome", "passed"), "'passed'"),
        (("--keep", "1", "--outcome", "pass,,violation"), "between two commas"),
        (("--keep", "1", "--store", "/nowhere/at/all"), "there is no such store"),
    ],
)
def test_wrong_limits_are_refused_in_one_line(tmp_path: Path, options: tuple[str, ...], told: str) -> None:
    done = splitbrain("prune", *(() if "--store" in options else ("--store", str(tmp_path))), *options)
    assert done.returncode == 254
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("text", "count"), [("0", 0), ("500M", 500 << 20), ("1.5G", 3 << 29), ("2GiB", 2 << 30)])
def test_sizes_are_read_as_people_write_them(text: str, count: int) -> None:
    assert quantities.size("--x", text) == count


@pytest.mark.parametrize("text", ["", "M", "1e9", "1 G", "nan", "-5", "10X", "9" * 40])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--x"):
        quantities.size("--x", text)
