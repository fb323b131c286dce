"""A run that was judged and damaged afterwards counts for what it was judged to be nowhere, until it is sound again."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from splitbrain.checkers.stored import or_unjudged
from splitbrain.harness.cli.main import splitbrain
from splitbrain.results.damage import DAMAGE, noted_damage
from splitbrain.results.errors import DamagedRunError, HistoryFormatError, SplitbrainError
from splitbrain.results.manifest import MANIFEST, write_manifest
from splitbrain.results.pruning import Limits, candidates, choose
from splitbrain.results.report.past import Siblings
from splitbrain.results.report.run_view import load
from splitbrain.results.store import RunDir, Store
from tests.cli.support import analyzed
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


@pytest.mark.parametrize(
    ("error", "lasting"),
    [
        (HistoryFormatError("a", "b"), True),
        (DamagedRunError("a"), False),
        (OSError(errno.EIO, "Input/output error"), True),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (ValueError("a"), True),
    ],
    ids=repr,
)
def test_only_what_is_because_of_the_run_is_noted(error: Exception, lasting: bool) -> None:
    def fail() -> None:
        raise error

    found = or_unjudged(Path("/run"), fail)
    assert found is not None
    assert found.lasting is lasting
    assert noted_damage(Path("/run")) is None
