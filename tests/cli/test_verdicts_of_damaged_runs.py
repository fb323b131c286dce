"""A run that was judged and damaged afterwards counts for what it was judged to be nowhere, until it is sound again."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from splitbrain.checkers.stored import Unjudged, is_of_others, or_unjudged
from splitbrain.harness.cli.main import splitbrain
from splitbrain.results.compacting import compact
from splitbrain.results.damage import DAMAGE, note_damage, noted_damage
from splitbrain.results.errors import DamagedRunError, HistoryFormatError, RunNotFoundError, SplitbrainError
from splitbrain.results.madefrom import digest
from splitbrain.results.manifest import MANIFEST, write_manifest
from splitbrain.results.plainfile import DOCUMENT_BYTES
from splitbrain.results.pruning import Limits, candidates, choose
from splitbrain.results.references import references
from splitbrain.results.report import write_report
from splitbrain.results.report.past import Siblings
from splitbrain.results.report.run_view import load
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.cli.support import SPLITBRAIN, analyzed, environment
from tests.spark.support import SET, set_history, stored


def flipped(run: RunDir) -> None:
    content = bytearray(run.history_path.read_bytes())
    content[len(content) // 2] ^= 0x10
    run.history_path.write_bytes(content)


def cut(run: RunDir) -> None:
    run.history_path.write_bytes(run.history_path.read_bytes()[:-9])


def gone(run: RunDir) -> None:
    run.history_path.unlink()


def other_test(run: RunDir) -> None:
    path = run.path / "test.json"
    path.write_text(path.read_text().replace('"set"', '"stats"'))


def no_json(run: RunDir) -> None:
    (run.path / "test.json").write_text("{")


DAMAGES: dict[str, Callable[[RunDir], None]] = {
    each.__name__: each for each in (flipped, cut, gone, other_test, no_json)
}
ENGINES = [
    pytest.param(("--engine", "inline"), id="inline"),
    pytest.param(
        ("--engine", "spark", "--master", "local[1]"), id="spark", marks=[pytest.mark.spark, pytest.mark.slow]
    ),
]


def analyze(root: Path, *given: str) -> Result:
    done = CliRunner().invoke(splitbrain, ["analyze", "--json", "--store", str(root), *given])
    assert done.exception is None or isinstance(done.exception, SystemExit), (done.exception, done.output)
    return done


def rows(root: Path) -> dict[str, dict[str, Any]]:
    write_manifest(root)
    return {f"{row['test']}/{row['run']}": row for row in pq.read_table(root / MANIFEST).to_pylist()}


def copied(run: RunDir) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.path.iterdir() if path.is_file()}


def restored(run: RunDir, files: dict[str, bytes]) -> None:
    for path in run.path.iterdir():
        if path.is_file() and path.name not in files and path.name != DAMAGE:
            path.unlink()
    for name, content in files.items():
        (run.path / name).write_bytes(content)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_run_is_no_pass_for_any_command_until_it_is_restored(
    tmp_path: Path, damage: Callable[[RunDir], None], engine: tuple[str, ...]
) -> None:
    root = tmp_path / "store"
    run, other = (stored(Store(root), "t", number, set_history(20), SET) for number in (1, 2))
    assert analyze(root, "--engine", "inline").exit_code == 0
    before = copied(run)
    damage(run)
    for _ in range(2):
        assert analyze(root, *engine).exit_code == 255
    assert (run.path / "verdict.json").read_bytes() == before["verdict.json"], "what it was judged to be is kept"
    says = rows(root)[f"t/{run.name}"]
    assert says["state"] == "damaged"
    assert rows(root)[f"t/{other.name}"]["state"] == "pass"
    assert str(run.path) in says["says"]
    with pytest.raises(SplitbrainError, match=run.path.name):
        CliRunner().invoke(splitbrain, ["compare", str(run.path), str(other.path)], catch_exceptions=False)
    going = choose(candidates(Store(root)), Limits(older_than_s=0.0, outcomes=frozenset({"pass"})), 4e9)
    assert [each.path for each in going] == [str(other.path)]

    restored(run, before)
    [again] = [each for each in analyzed(analyze(root, *engine).stdout) if each["run"] == str(run.path)]
    assert (again["outcome"], again["judged"]) == ("pass", False)
    assert rows(root)[f"t/{run.name}"]["state"] == "pass"
    assert not (run.path / DAMAGE).exists()


def test_a_run_that_is_judged_anew_has_no_note_any_more(tmp_path: Path) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    before = copied(run)
    flipped(run)
    assert analyze(tmp_path, "--engine", "inline").exit_code == 255
    assert rows(tmp_path)[f"t/{run.name}"]["state"] == "damaged", "a run that was never judged, too"
    restored(run, before)
    assert analyze(tmp_path, "--engine", "inline").exit_code == 0
    assert rows(tmp_path)[f"t/{run.name}"]["state"] == "pass"


def test_a_violation_that_is_damaged_is_kept_as_a_violation(tmp_path: Path) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20, lost=[7]), SET)
    assert analyze(tmp_path, "--engine", "inline").exit_code == 1
    cut(run)
    assert analyze(tmp_path, "--engine", "inline").exit_code == 255
    [found] = candidates(Store(tmp_path))
    assert found.outcome == "violation"
    assert rows(tmp_path)[f"t/{run.name}"]["state"] == "damaged"


def test_a_damaged_run_is_none_to_which_a_page_compares_and_its_own_page_says_so(tmp_path: Path) -> None:
    run, other = (stored(Store(tmp_path), "t", number, set_history(20), SET) for number in (1, 2))
    assert analyze(tmp_path, "--engine", "inline").exit_code == 0
    assert Siblings([other.path]).past_of(other.path).unreadable == 0
    cut(run)
    analyze(tmp_path, "--engine", "inline")
    assert Siblings([other.path]).past_of(other.path).unreadable == 1
    [said] = [note for note in load(run.path).notes if "Its verdict is of what was there before" in note]
    assert str(run.history_path) in said


def test_a_note_that_cannot_be_read_is_one_all_the_same(tmp_path: Path) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    assert analyze(tmp_path, "--engine", "inline").exit_code == 0
    (run.path / DAMAGE).write_text("{")
    assert rows(tmp_path)[f"t/{run.name}"]["state"] == "damaged"
    assert analyze(tmp_path, "--engine", "inline").exit_code == 0
    assert rows(tmp_path)[f"t/{run.name}"]["state"] == "pass"


def test_a_run_with_a_note_is_not_sent(tmp_path: Path) -> None:
    run = stored(Store(tmp_path / "store"), "t", 1, set_history(20), SET)
    assert analyze(tmp_path / "store", "--engine", "inline").exit_code == 0
    (run.path / DAMAGE).write_text('{"why": "a disk"}')
    done = CliRunner().invoke(
        splitbrain, ["push", "--store", str(tmp_path / "store"), "--to", f"file://{tmp_path}/there"]
    )
    assert "a disk" in f"{done.output}{done.exception}"
    assert not list((tmp_path / "there").rglob("verdict.json"))


def test_a_run_of_a_newer_version_is_not_touched(tmp_path: Path) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    assert analyze(tmp_path, "--engine", "inline").exit_code == 0
    test = run.path / "test.json"
    test.write_text(test.read_text().replace('"format": 1', '"format": 99'))
    before = copied(run)
    assert analyze(tmp_path, "--engine", "inline").exit_code == 255
    assert copied(run) == before


def test_a_note_that_cannot_be_written_is_a_problem_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    cut(run)
    monkeypatch.setattr("splitbrain.harness.campaigns.many.note_damage", fails)
    done = analyze(tmp_path, "--engine", "inline")
    assert done.exit_code == 255
    assert f"that {run.path} is damaged could not be noted there: No space left on device" in done.stderr


def denied(path: str) -> HistoryFormatError:
    error = HistoryFormatError(path, "cannot be read: Permission denied")
    error.__cause__ = PermissionError(errno.EACCES, "Permission denied", path)
    return error


@pytest.mark.parametrize(
    ("error", "because"),
    [
        (HistoryFormatError("a", "b"), "files"),
        (OSError(errno.EIO, "Input/output error"), "files"),
        (ValueError("a"), "files"),
        (RunNotFoundError("a"), "unknown"),
        (denied("a"), "elsewhere"),
        (DamagedRunError("a"), "elsewhere"),
        (OSError(errno.ENOSPC, "No space left on device"), "elsewhere"),
    ],
    ids=repr,
)
def test_what_is_because_of_this_machine_is_known_as_that(error: Exception, because: str) -> None:
    def fail() -> None:
        raise error

    found = or_unjudged(Path("/run"), fail)
    assert found is not None
    assert found.because == because


def test_a_sound_run_that_needs_more_memory_than_its_limit_stays_what_it_was_judged_to_be(tmp_path: Path) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    assert analyze(tmp_path, "--engine", "inline").exit_code == 0
    found = Unjudged(f"{run.path}: the process that read it needed more memory", "unknown")
    assert not is_of_others(run, found)
    cut(run)
    assert is_of_others(run, found)
    (run.path / "verdict.json").unlink()
    assert not is_of_others(run, found), "it was not judged: nothing is taken for what it is not"


def test_a_verdict_without_a_record_is_of_what_is_there_as_long_as_anything_is(tmp_path: Path) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    run.write_verdicts([], "pass")
    found = Unjudged(f"{run.path}: the process that read it was killed", "unknown")
    assert not is_of_others(run, found)
    gone(run)
    assert is_of_others(run, found)


def test_a_run_that_lost_its_history_is_not_made_smaller(tmp_path: Path) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    assert analyze(tmp_path, "--engine", "inline", "--pages", "all").exit_code == 0
    (run.path / "checksums.json").unlink(missing_ok=True)
    gone(run)
    assert compact(run) is None
    assert (run.path / "report.html").exists()


def test_a_run_that_was_restored_and_judged_meanwhile_gets_no_note(tmp_path: Path) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    assert analyze(tmp_path, "--engine", "inline").exit_code == 0
    assert not is_of_others(run, Unjudged(f"{run.history_path}: it was damaged when another process read it"))


def test_a_judged_run_without_checksums_that_lost_its_history_is_damaged(tmp_path: Path) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    assert analyze(tmp_path, "--engine", "inline").exit_code == 0
    (run.path / "checksums.json").unlink(missing_ok=True)
    gone(run)
    assert analyze(tmp_path, "--engine", "inline").exit_code == 255
    assert rows(tmp_path)[f"t/{run.name}"]["state"] == "damaged"
    [found] = candidates(Store(tmp_path))
    assert found.outcome == "unjudged"


def test_where_nothing_may_be_written_unchanged_runs_are_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    assert analyze(tmp_path, "--engine", "inline").exit_code == 0

    def read_only(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "unlink", read_only)
    assert analyze(tmp_path, "--engine", "inline").exit_code == 0
    (run.path / DAMAGE).write_text("{}")
    done = analyze(tmp_path, "--engine", "inline")
    [found] = analyzed(done.stdout)
    assert (found["judged"], found["outcome"], done.exit_code) == (False, "pass", 255)
    assert "sound again could not be noted" in done.stdout


def test_the_verdict_of_another_run_counts_nowhere_until_the_run_is_judged_again(tmp_path: Path) -> None:
    """Such as verdicts that were put back from a copy, each beside the wrong run."""
    root = tmp_path / "store"
    guilty, other = (
        stored(Store(root), "t", 1, set_history(20, lost=[7]), SET),
        stored(Store(root), "t", 2, set_history(20), SET),
    )
    assert analyze(root, "--engine", "inline", "--pages", "all").exit_code == 1
    shutil.copy(other.path / "verdict.json", guilty.path / "verdict.json")
    assert {each.path: each.outcome for each in candidates(Store(root))}[str(guilty.path)] == "unjudged"
    assert rows(root)[f"t/{guilty.name}"]["state"] == "damaged"
    assert rows(root)[f"t/{other.name}"]["state"] == "pass"
    with pytest.raises(DamagedRunError, match="made from another history"):
        CliRunner().invoke(splitbrain, ["compare", str(guilty.path), str(other.path)], catch_exceptions=False)
    assert [note for note in load(guilty.path).notes if "a verdict that is not its own" in note]
    assert compact(guilty) is None
    sent = CliRunner().invoke(splitbrain, ["push", "--store", str(root), "--to", f"file://{tmp_path}/there"])
    assert "a verdict that is not its own" in f"{sent.output}{sent.exception}"
    [pushed] = (tmp_path / "there").rglob("verdict.json")
    assert pushed.parent.name.startswith(f"run={other.name}")

    assert analyze(root, "--engine", "inline").exit_code == 1
    assert rows(root)[f"t/{guilty.name}"]["state"] == "violation"


def test_what_is_made_of_a_run_is_pushed_only_as_plain_files(tmp_path: Path) -> None:
    """To read a pipe would wait for ever, and a device has no end."""
    run = stored(Store(tmp_path / "store"), "t", 1, set_history(20), SET)
    assert analyze(tmp_path / "store", "--engine", "inline", "--pages", "all").exit_code == 0
    for name in ("figures.json", "report.html"):
        (run.path / name).unlink()
    os.mkfifo(run.path / "figures.json")
    (run.path / "report.html").symlink_to("/dev/zero")
    push = ["push", "--store", str(tmp_path / "store"), "--to", f"file://{tmp_path}/there"]
    command = [sys.executable, *SPLITBRAIN, *push]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    there = {path.name for path in (tmp_path / "there").rglob("*")}
    assert {"verdict.json", "history.parquet"} <= there
    assert not {"figures.json", "report.html"} & there


def test_a_note_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    run = stored(Store(tmp_path / "store"), "t", 1, set_history(20), SET)
    (tmp_path / "elsewhere.json").write_text('{"why": "a secret"}')
    (run.path / DAMAGE).symlink_to(tmp_path / "elsewhere.json")
    assert "cannot be read itself" in str(noted_damage(run.path))


def test_a_note_of_any_size_takes_no_memory(tmp_path: Path) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    with (run.path / DAMAGE).open("wb") as file:
        file.truncate(20 << 30)
    noted = noted_damage(run.path)
    assert noted is not None
    assert "cannot be read itself" in str(noted)


def test_what_stands_in_the_place_of_the_plots_is_named(tmp_path: Path) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    (run.path / "plots").write_text("")
    with pytest.raises(HistoryFormatError, match="plots: this is not a folder: remove it"):
        run.plots_dir()


def test_a_pipe_in_the_place_of_the_plots_keeps_nothing_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "plots")
    command = [
        sys.executable,
        "-c",
        f"from splitbrain.harness.campaigns.many import *; remove_pages(Path({str(tmp_path)!r}))",
    ]
    subprocess.run(command, timeout=20, env=environment(), check=True)


def test_a_document_of_any_size_is_named_before_all_of_it_is_read(tmp_path: Path) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    assert analyze(tmp_path, "--engine", "inline").exit_code == 0
    with run.marks_path.open("wb") as file:
        file.truncate(DOCUMENT_BYTES + 1)
    with pytest.raises(HistoryFormatError, match=r"marks\.json: damaged: it has"):
        digest(run.marks_path)


@pytest.mark.parametrize("is_noted", [True, False])
def test_what_is_left_of_a_damaged_run_is_not_made_smaller(tmp_path: Path, is_noted: bool) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    assert analyze(tmp_path, "--engine", "inline", "--pages", "all").exit_code == 0
    content = bytearray(run.history_path.read_bytes())
    content[60] ^= 1
    run.history_path.write_bytes(content)
    if is_noted:
        assert analyze(tmp_path, "--engine", "inline").exit_code == 255
        assert compact(run) is None
    else:
        with pytest.raises(HistoryFormatError, match="its checksum is another"):
            compact(run)
    assert (run.path / "report.html").exists()


def test_a_page_that_says_that_its_run_is_damaged_goes_once_it_is_not(tmp_path: Path) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    assert analyze(tmp_path, "--engine", "inline").exit_code == 0
    note_damage(run.path, "a disk")
    write_report(run.path)
    assert "cannot be judged as it is" in (run.path / "report.html").read_text()
    assert analyze(tmp_path, "--engine", "inline", "--pages", "all").exit_code == 0
    assert "cannot be judged as it is" not in (run.path / "report.html").read_text()


def test_what_a_run_without_a_readable_test_may_be_derived_from_stays(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first, other = (stored(store, "t", seed, set_history(20), SET) for seed in (1, 2))
    derived = first.path.with_name("run=20991231T000000.000Z-1")
    shutil.copytree(first.path, derived)
    (tmp_path / "test=t" / "run=20991231T000000.001Z-1").mkdir()  # in which nothing was recorded
    paths = [first.path, other.path, derived, tmp_path / "test=t" / "run=20991231T000000.001Z-1"]
    assert references(tmp_path, paths) == {}
    (derived / "test.json").write_text("{")
    assert references(tmp_path, paths) == {first.name: [str(derived)]}, "a derived run has the seed of its source"
    assert analyze(tmp_path, "--engine", "inline").exit_code == 255
    done = CliRunner().invoke(splitbrain, ["prune", "--store", str(tmp_path), "--rule", "pass=0s", "--dry-run"])
    assert "may be derived from it, its test.json cannot be read: restore or remove it" in done.stderr
    assert "would remove 1 of" in done.stdout


def test_a_run_whose_test_a_newer_version_wrote_never_goes(tmp_path: Path) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    assert analyze(tmp_path, "--engine", "inline").exit_code == 0
    test = run.path / "test.json"
    test.write_text(test.read_text().replace('"format": 1', '"format": 99'))
    [found] = candidates(Store(tmp_path))
    assert found.outcome is None
