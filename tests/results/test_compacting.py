"""Making a store smaller loses nothing, wherever it is killed; what something refers to is not removed."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from splitbrain.checkers.isolation.limits import DEFAULT
from splitbrain.harness.campaigns import many
from splitbrain.harness.campaigns.judging import judge_inline
from splitbrain.harness.cli.main import splitbrain as command
from splitbrain.results import atomic, pruning
from splitbrain.results.arrow import FORMAT_KEY, history_hash, read_parquet, read_parquet_head
from splitbrain.results.checksums import CHECKSUMS
from splitbrain.results.compacting import compact
from splitbrain.results.manifest import write_manifest
from splitbrain.results.pruning import Limits, candidates, choose
from splitbrain.results.references import kept, references
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.cli.support import analyzed
from tests.spark.support import SET, set_history, stored

DAY_S = 86_400.0


def older(run: RunDir) -> None:
    """Give a run the history that an older version wrote, with the version of its format."""
    (run.path / CHECKSUMS).unlink()
    table = read_parquet(run.history_path)
    noted = table.replace_schema_metadata({**(table.schema.metadata or {}), b"note": b"kept"})
    pq.write_table(noted, run.history_path, compression="zstd", write_page_checksum=True)


def laid(root: Path, seed: int = 1, lost: tuple[int, ...] = ()) -> RunDir:
    """A judged run of an older version, with a page."""
    run = stored(Store(root), "t", seed, set_history(400, lost=lost), SET)
    older(run)
    judge_inline(run)
    return run


def facts(run: RunDir) -> Any:
    found = run.read_verdicts()
    assert found is not None
    return history_hash(run.history()), run.read_test(), found.outcome, found.verdicts


def is_unchanged(run: RunDir) -> bool:
    return many.unchanged(run, DEFAULT) is not None


def test_a_compacted_run_is_smaller_says_the_same_and_need_not_be_judged_again(tmp_path: Path) -> None:
    run = laid(tmp_path)
    before, notes, size = facts(run), read_parquet_head(run.history_path).notes, run.history_path.stat().st_size
    assert is_unchanged(run)
    done = compact(run)
    assert done is not None
    assert (done.encoded, done.removed) == (["history.parquet"], ["report.html", "plots"])
    assert done.after_bytes < done.before_bytes
    assert run.history_path.stat().st_size < size
    assert (facts(run), read_parquet_head(run.history_path).notes) == (before, notes)
    assert is_unchanged(run)
    assert compact(run) is None


def test_an_older_format_stays_what_it_is(tmp_path: Path) -> None:
    run = laid(tmp_path)
    table = read_parquet(run.history_path)
    first = table.replace_schema_metadata({FORMAT_KEY: b"1"})
    pq.write_table(first, run.history_path, compression="zstd")
    assert compact(run) is not None
    assert read_parquet_head(run.history_path).notes[FORMAT_KEY] == b"1"
    assert read_parquet(run.history_path).equals(first, check_metadata=True)


def test_a_violation_keeps_its_page_and_what_is_not_judged_stays_as_it_is(tmp_path: Path) -> None:
    wrong, fresh = laid(tmp_path, 1, lost=(7,)), stored(Store(tmp_path), "t", 2, set_history(20), SET)
    older(fresh)
    found = compact(wrong)
    assert found is not None
    assert found.removed == []
    assert (wrong.path / "report.html").is_file()
    content = fresh.history_path.read_bytes()
    assert compact(fresh) is None
    assert fresh.history_path.read_bytes() == content


def test_a_file_that_a_killed_process_wrote_aside_goes_after_a_day(tmp_path: Path) -> None:
    run = laid(tmp_path)
    old, young = run.path / ".history.parquet.old.tmp", run.path / ".history.parquet.young.tmp"
    for each in (old, young):
        each.write_bytes(b"half")
    before_s = old.stat().st_mtime - 2 * DAY_S
    os.utime(old, (before_s, before_s))
    assert compact(run) is not None
    assert (old.exists(), young.exists()) == (False, True)


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    run = laid(tmp_path)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    found = compact(run, dry_run=True)
    assert found is not None
    assert found.encoded == ["history.parquet"]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == written


def test_a_damaged_run_is_named_and_the_others_are_compacted(tmp_path: Path) -> None:
    damaged, fine = laid(tmp_path, 1), laid(tmp_path, 2)
    damaged.history_path.write_bytes(damaged.history_path.read_bytes()[:-9])
    content = damaged.history_path.read_bytes()
    done = CliRunner().invoke(command, ["compact", "--store", str(tmp_path)])
    assert "1 run could not be made smaller" in str(done.exception)
    assert str(damaged.history_path) in done.stderr
    assert damaged.history_path.read_bytes() == content
    assert not (fine.path / "report.html").exists()


# --- killed -----------------------------------------------------------------------------------------------------------

STEPS = ("replace", "rename", "unlink", "fsync", "rmdir", "write_table")


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Whether work, in a process of its own, was killed before its step of this number; False: it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            _arm(step)
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFEXITED(status) or os.WTERMSIG(status) == signal.SIGKILL
    return os.WIFSIGNALED(status)


def _arm(step: int) -> None:
    left = [step]

    def counted(function: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **named)

        return call

    for name in STEPS:
        owner: Any = pq if name == "write_table" else os
        setattr(owner, name, counted(getattr(owner, name)))


def test_a_kill_at_any_step_of_compacting_loses_nothing(tmp_path: Path) -> None:
    template = laid(tmp_path / "template")
    before, step, kills, again = facts(template), 0, 0, 0
    while True:
        root = tmp_path / f"store-{step}"
        shutil.copytree(tmp_path / "template", root)
        [run] = Store(root).runs()
        killed = killed_at(step, lambda run=run: compact(run))
        assert facts(run) == before, f"killed at step {step}"
        again += not is_unchanged(run)
        compact(run)
        assert facts(run) == before, f"killed at step {step}, and finished"
        assert not (run.path / "report.html").exists()
        shutil.rmtree(root)
        if not killed:
            break
        kills, step = kills + 1, step + 1
    assert kills > 10
    assert again <= 4, "only between the file and its record is a verdict to be made again"


def test_a_kill_at_any_step_of_pruning_leaves_each_run_whole_or_gone(tmp_path: Path) -> None:
    first, second = laid(tmp_path / "template", 1), laid(tmp_path / "template", 2)
    before = {run.name: facts(run) for run in (first, second)}
    step = 0
    while True:
        root = tmp_path / f"store-{step}"
        shutil.copytree(tmp_path / "template", root)
        old = next(each for each in candidates(Store(root)) if Path(each.path).name == first.path.name)
        killed = killed_at(step, lambda old=old: pruning.remove(old))
        left = {run.name: facts(run) for run in Store(root).runs()}
        assert left in (before, {second.name: before[second.name]}), f"killed at step {step}"
        pruning.remove_interrupted(Store(root))
        assert not list(root.rglob(".removing-*"))
        shutil.rmtree(root)
        if not killed:
            break
        step += 1
    assert step > 5
    assert atomic.replace_file is not None


# --- rules and references ---------------------------------------------------------------------------------------------


def test_rules_keep_violations_forever_and_passes_for_a_week(tmp_path: Path) -> None:
    now = datetime(2026, 11, 20, tzinfo=UTC)
    store = Store(tmp_path)

    def made(days: float, outcome: str) -> str:
        run = store.create("t", int(days), {}, int((now.timestamp() - days * DAY_S) * 1e9))
        run.write_verdicts([], outcome)
        run.release()
        return run.path.name

    old, new, wrong, unsure = made(9, "pass"), made(2, "pass"), made(400, "violation"), made(50, "inconclusive")

    def gone(**limits: Any) -> set[str]:
        chosen = choose(candidates(store), Limits(**limits), now.timestamp())
        return {Path(run.path).name for run in chosen}

    rules = {"pass": 7 * DAY_S, "violation": None}
    assert gone(ages=rules) == {old}
    assert gone(ages={**rules, "violation": 300 * DAY_S}) == {old, wrong}, "a rule names an outcome"
    everything = frozenset(pruning.OUTCOMES)
    assert gone(ages=rules, max_bytes=0, outcomes=everything) == {old, new, unsure}
    assert gone(ages=rules, tests=frozenset({"other"})) == set()


def test_what_something_refers_to_stays_as_long_as_that_does(tmp_path: Path) -> None:
    store = Store(tmp_path)
    original, replay, linked, noted, free = (stored(store, "t", seed, set_history(5), SET) for seed in range(1, 6))
    replay.amend_test(derived_from=f"run {original.name}")
    (replay.path / "report.html").write_text(f'<a href="../run={linked.name}/report.html">')
    (tmp_path / "baselines.txt").write_text(f"nightly: {noted.name}\n")
    paths = [str(run.path) for run in (original, replay, linked, noted, free)]
    found = references(tmp_path, map(Path, paths))
    assert kept([path for path in paths if path != str(replay.path)], found) == {
        str(original.path): str(replay.path),
        str(linked.path): str(replay.path),
        str(noted.path): str(tmp_path / "baselines.txt"),
    }
    assert kept(paths, found) == {str(noted.path): str(tmp_path / "baselines.txt")}, "who goes refers to nothing"


def test_a_run_that_was_pulled_under_the_name_of_a_pushed_store_is_referred_to_by_either_name(tmp_path: Path) -> None:
    store = Store(tmp_path)
    pulled, replay = (stored(store, "t", seed, set_history(5), SET) for seed in (1, 2))
    digits = "_0123456789ab"
    replay.amend_test(derived_from=f"run {pulled.name}{digits}")
    assert kept([str(pulled.path)], references(tmp_path, [pulled.path, replay.path])) == {
        str(pulled.path): str(replay.path)
    }
    longer = pulled.path.rename(pulled.path.with_name(f"{pulled.path.name}{digits}"))
    assert kept([str(longer)], references(tmp_path, [longer, replay.path])) == {str(longer): str(replay.path)}


def test_what_a_run_that_stays_for_another_one_refers_to_stays_too(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first, second, third = (stored(store, "t", seed, set_history(5), SET) for seed in (1, 2, 3))
    second.amend_test(derived_from=f"run {first.name}")
    third.amend_test(derived_from=f"run {second.name}")
    found = references(tmp_path, [run.path for run in (first, second, third)])
    assert kept([str(first.path), str(second.path)], found) == {
        str(second.path): str(third.path),
        str(first.path): str(second.path),
    }


def test_prune_says_what_stays_and_why(tmp_path: Path) -> None:
    one, two = laid(tmp_path, 1), laid(tmp_path, 2)
    (tmp_path / "baselines.txt").write_text(one.name)
    (two.path / "report.html").unlink()
    done = CliRunner().invoke(command, ["prune", "--store", str(tmp_path), "--keep", "0"])
    assert done.exit_code == 0, done.stderr
    assert f"stays: {one.path}: {tmp_path / 'baselines.txt'} refers to it" in done.stderr
    assert [run.name for run in Store(tmp_path).runs()] == [one.name]


@pytest.mark.parametrize(
    ("rule", "why"),
    [("pass", "has no age"), ("passed=7d", "outcome"), ("pass=soon", "--rule")],
)
def test_a_rule_that_is_none_is_refused(tmp_path: Path, rule: str, why: str) -> None:
    done = CliRunner().invoke(command, ["prune", "--store", str(tmp_path), "--rule", rule])
    assert why in str(done.exception)


# --- pages on demand, the answer in lines, the table ------------------------------------------------------------------


def test_runs_that_pass_have_figures_and_get_a_page_when_it_is_asked_for(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fine = stored(store, "t", 1, set_history(20), SET)
    wrong = stored(store, "t", 2, set_history(20, lost=[3]), SET)
    words = ["analyze", "--engine", "inline", "--json", "--store", str(tmp_path)]
    done = CliRunner().invoke(command, words)
    assert {each["run"]: each["outcome"] for each in analyzed(done.stdout)} == {
        str(fine.path): "pass",
        str(wrong.path): "violation",
    }
    assert (wrong.path / "report.html").is_file()
    assert not (fine.path / "report.html").exists()
    assert (fine.path / "figures.json").is_file()
    assert CliRunner().invoke(command, ["report", "--store", str(tmp_path), fine.name]).exit_code == 0
    assert (fine.path / "report.html").is_file()
    assert [each["judged"] for each in analyzed(CliRunner().invoke(command, words).stdout)] == [False, False]
    assert (fine.path / "report.html").is_file(), "it is of the verdict that stands"
    CliRunner().invoke(command, [*words, "--again"])
    assert not (fine.path / "report.html").exists(), "it was of a verdict that was made again"
    CliRunner().invoke(command, [*words, "--again", fine.name])
    assert (fine.path / "report.html").is_file(), "its run was named"


def test_the_table_of_a_store_has_a_row_for_each_run(tmp_path: Path) -> None:
    runs = [laid(tmp_path, 1), laid(tmp_path, 2, lost=(7,)), stored(Store(tmp_path), "t", 3, set_history(5), SET)]
    (tmp_path / "test=t" / "run=broken").mkdir()
    (tmp_path / "test=t" / "run=broken" / "test.json").write_text("{")
    assert write_manifest(tmp_path) == 4
    rows = pq.read_table(tmp_path / "runs.parquet").to_pylist()
    states = {row["run"]: row["state"] for row in rows}
    assert states == {runs[0].name: "pass", runs[1].name: "violation", runs[2].name: "recorded", "broken": "damaged"}
    one = next(row for row in rows if row["run"] == runs[0].name)
    assert one["folder"] == f"test=t/{runs[0].path.name}"
    assert one["ops"] > 0
