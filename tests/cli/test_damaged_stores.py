"""A store with damaged runs: every sound run is judged as before, every damaged one is named, nothing breaks."""

from __future__ import annotations

import json
import os
import random
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from splitbrain.checkers.spark import hot_keys
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.cli.main import splitbrain
from splitbrain.results.arrow import from_table
from splitbrain.results.errors import SplitbrainError
from splitbrain.results.history import Op
from splitbrain.results.rundir import RunDir
from splitbrain.results.site.rows import Index
from splitbrain.results.store import Store
from splitbrain.results.telemetry import table_of
from tests.cli.damage import damaged
from tests.cli.support import analyzed
from tests.spark.support import SET, crashed, set_history, stored

WALL_NS = 1_790_000_000_000_000_000
SPECS = (*SET, CheckerSpec("election-safety"))


def lay(root: Path, damages: int, seed: int) -> tuple[dict[str, str], dict[str, Any]]:
    """A store with sound runs, and as many damaged ones.

    Returns:
        By folder what was done to it, "" for nothing; and the verdicts of the run of which all are copies.
    """
    with pytest.MonkeyPatch.context() as patch:
        # The place of a damage depends on the length of a file, and that on how busy the machine is.
        patch.setattr(os, "getloadavg", lambda: (1.0, 1.0, 1.0))
        return _lay(root, damages, seed)


def _lay(root: Path, damages: int, seed: int) -> tuple[dict[str, str], dict[str, Any]]:
    store = Store(root)
    template = stored(store, "t", 0, set_history(20), SPECS)
    line = {"wall": WALL_NS, "event": "role", "term": 1, "role": "leader", "leader": "n1"}
    template.write_telemetry(table_of({"n1": [(5, json.dumps(line, separators=(",", ":")).encode())]}))
    assert analyze(root, str(template.path)).exit_code == 0
    done = {str(template.path): ""}
    draw = random.Random(seed)
    for number in range(1, damages + 4):
        run = template.path.with_name(f"run=20260101T000000.000Z-{number}")
        if number % 5 == 0:
            crashed(store, "t", number, set_history(20), SPECS).path.rename(run)
        else:
            shutil.copytree(template.path, run)
            (run / "report.html").unlink(missing_ok=True)
        done[str(run)] = damaged(draw, run) if number > 3 else ""
    return done, verdicts_of(template)


def analyze(root: Path, *arguments: str) -> Result:
    where = () if arguments else ("--store", str(root))
    return CliRunner().invoke(splitbrain, ["analyze", "--engine", "inline", "--json", *where, *arguments])


def verdicts_of(run: RunDir) -> dict[str, Any]:
    found = run.read_verdicts()
    assert found is not None
    return {each["checker"]: (each["valid"], each["anomalies"], each["sentence"]) for each in found.verdicts}


def ops_of(run: Path) -> list[Op]:
    return from_table(RunDir(run).history())


def check(answer: list[dict[str, Any]], said: str, done: dict[str, str], expected: dict[str, Any]) -> set[str]:
    """Every run is there once, judged as before or named with a file of its own; the outcomes that there were."""
    assert sorted(each["run"] for each in answer) == sorted(done)
    for each in answer:
        run, what = each["run"], done[each["run"]]
        if each["verdicts"]:
            check_judged(Path(run), what, each["outcome"], expected)
        else:
            assert what, f"{run} is sound: {each['harness_error']}"
            assert each["outcome"] == "harness error", what
            assert f"{run}" in each["harness_error"], what
            assert each["harness_error"] in said, what
        assert "Traceback" not in str(each["harness_error"])
    return {each["outcome"] for each in answer}


def check_judged(run: Path, what: str, outcome: str, expected: dict[str, Any]) -> None:
    """It is judged as before; or its write-ahead file lost its end; or what is left of its checkers is an error."""
    ops, found = ops_of(run), verdicts_of(RunDir(run))
    assert ops == set_history(20)[: len(ops)], what
    if len(ops) < len(set_history(20)):
        assert "history.wal" in what
        assert outcome != "pass"
    elif found.keys() != expected.keys():
        # A crashed run is judged for coverage too, if its document does not say that it is not to be.
        assert "test.json" in what
        assert outcome == "harness error" or (outcome == "inconclusive" and "coverage" in found)
    else:
        assert found == with_unknown(expected, found, run), what


def with_unknown(expected: dict[str, Any], found: dict[str, Any], run: Path) -> dict[str, Any]:
    """A run whose telemetry is gone altogether is judged without."""
    if (run / "telemetry.parquet").is_file():
        return expected
    assert found["election-safety"][0] == "unknown"
    return {**expected, "election-safety": found["election-safety"]}


def spark_analyze(root: Path, *arguments: str) -> Result:
    """In one job, and with the files of large runs going through Spark's own reader."""
    given = ["analyze", "--json", "--master", "local[2]", "--store", str(root)]
    return CliRunner().invoke(splitbrain, [*given, *arguments])


def refused_at_worst(result: Result) -> None:
    """Whatever a command found, it said so in its own words."""
    error = result.exception
    assert error is None or isinstance(error, (SystemExit, SplitbrainError)), error
    assert "Traceback" not in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_every_sound_run_is_judged_and_every_damaged_one_named(tmp_path: Path, seed: int) -> None:
    done, expected = lay(tmp_path, 36, seed)
    found = analyze(tmp_path)
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    outcomes = check(analyzed(found.stdout), found.stderr, done, expected)
    assert outcomes >= {"pass", "harness error"}
    assert found.exit_code == 255


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 5))
def test_spark_says_the_same(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    done, expected = lay(tmp_path, 80, seed)
    if seed % 2:
        monkeypatch.setattr("splitbrain.checkers.spark.pipeline.Sizes", partial(hot_keys.Sizes, run_rows=0))
    found = spark_analyze(tmp_path)
    refused_at_worst(found)
    check(analyzed(found.stdout), found.stderr, done, expected)
    assert found.exit_code == 255


def test_a_violation_decides_over_damage(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stored(store, "lost", 1, set_history(20, lost=[7]), SET)
    broken = stored(store, "broken", 2, set_history(20), SET)
    broken.history_path.write_bytes(b"")
    assert analyze(tmp_path).exit_code == 1
    found = analyze(tmp_path, str(broken.path))
    assert found.exit_code == 255
    assert str(broken.history_path) in found.stderr


def test_a_run_whose_test_names_no_checker_does_not_pass(tmp_path: Path) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    run.write_test({**run.read_test(), "checkers": []})
    found = analyze(tmp_path)
    [answer] = analyzed(found.stdout)
    assert (answer["outcome"], found.exit_code) == ("harness error", 255)
    assert f"{run.path / 'test.json'}: test.json names no checker" in answer["harness_error"]


@pytest.mark.parametrize("options", [5, [], {"keep_data": "much"}])
def test_options_that_no_verdict_hangs_on_keep_no_run_from_its_verdict(tmp_path: Path, options: Any) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    run.write_test({**run.read_test(), "options": options})
    [answer] = analyzed(analyze(tmp_path).stdout)
    assert (answer["outcome"], answer["harness_error"]) == ("pass", None)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("file", ["test.json", "verdict.json", "figures.json", "marks.json", "history.parquet"])
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path: Path, file: str) -> None:
    store = Store(tmp_path)
    sound = stored(store, "t", 1, set_history(20), SET)
    other = stored(store, "t", 2, set_history(20), SET)
    assert analyze(tmp_path).exit_code == 0
    (other.path / file).unlink(missing_ok=True)
    os.mkfifo(other.path / file)
    refused_at_worst(CliRunner().invoke(splitbrain, ["compare", "--json", str(sound.path), str(other.path)]))
    found = {each["run"]: each for each in analyzed(analyze(tmp_path).stdout)}
    assert found[str(sound.path)]["outcome"] == "pass"
    judged = file in ("figures.json", "marks.json")
    assert found[str(other.path)]["outcome"] == ("pass" if judged else "harness error")
    assert judged or str(other.path / file) in found[str(other.path)]["harness_error"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("at", [0, 3, 6, 8, 20], ids=["length", "high length", "checksum", "array", "op"])
def test_damage_in_the_middle_of_a_write_ahead_file_is_named_and_what_is_before_it_judged(
    tmp_path: Path, at: int
) -> None:
    store = Store(tmp_path)
    run = store.create("t", 1, {"checkers": list(SET), "nodes": ["n1"]}, WALL_NS)
    writer = run.history_writer()
    for op in set_history(20):
        writer.record(op)
        writer.flush()
    writer.abandon()
    run.release()
    content = bytearray(run.wal_path.read_bytes())
    length = int.from_bytes(content[12:16], "little")
    content[12 + 8 + length + at] ^= 1  # in the second frame, behind the header of the file and the first
    run.wal_path.write_bytes(content)
    for _ in range(2):  # once from the write-ahead file, once from what was made of it
        [found] = analyzed(analyze(tmp_path).stdout)
        assert found["outcome"] == "harness error"
        assert f"{run.wal_path}: damaged at byte" in found["harness_error"]
        assert found["verdicts"]
    assert 0 < len(ops_of(run.path)) < len(set_history(20))


@pytest.mark.slow
def test_the_other_commands_bear_a_damaged_store(tmp_path: Path) -> None:
    done, _ = lay(tmp_path, 20, 9)
    runner = CliRunner()
    refused_at_worst(runner.invoke(splitbrain, ["compare", str(tmp_path), "--json", str(tmp_path)]))
    refused_at_worst(runner.invoke(splitbrain, ["report", "--store", str(tmp_path), *done]))
    refused_at_worst(runner.invoke(splitbrain, ["check", "--checker", "set", "--json", *done]))
    rows = {row.run: row for row in Index(tmp_path).rows()}
    for run, what in done.items():
        row = rows.get(Path(run).name.removeprefix("run="))
        assert row is not None
        assert what or row.state == "pass"
