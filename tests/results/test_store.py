from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results import arrow, origin, store
from splitbrain.results.arrow import HISTORY_SCHEMA, TELEMETRY_SCHEMA
from splitbrain.results.checksums import CHECKSUMS
from splitbrain.results.errors import HarnessError, HistoryFormatError, RunNotFoundError, StoreVersionError, UsageError
from splitbrain.results.rundir import RunDir
from splitbrain.results.soundness import check_history_file
from splitbrain.results.store import Store

from .support import writes

WALL_NS = 1_790_000_000_123_456_789
DOCUMENT = {"nodes": ["n1", "n2"], "options": {"rate": 100.0}, "checkers": [CheckerSpec("stats")]}


def _store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def _recorded(run: RunDir, count: int = 10) -> RunDir:
    writer = run.history_writer()
    for op in writes(count):
        writer.record(op)
    run.finish_history()
    run.release()
    return run


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# --- creation -------------------------------------------------------------------------------------------------------


def test_a_run_has_its_place_and_all_that_it_takes_to_repeat_it(tmp_path: Path) -> None:
    run = _store(tmp_path).create("register-partition", 42, DOCUMENT, WALL_NS)
    assert run.path == tmp_path / "store" / "test=register-partition" / "run=20260921T141320.123Z-42"
    assert (run.test_name, run.name) == ("register-partition", "20260921T141320.123Z-42")
    document = json.loads((run.path / "test.json").read_text())
    assert document["format"] == 1
    assert document["seed"] == 42
    assert document["checkers"] == [{"name": "stats", "options": {}}]
    assert document["nodes"] == ["n1", "n2"]
    assert document["options"] == {"rate": 100.0}
    assert document["start"] == "2026-09-21T14:13:20.123+00:00"
    assert document["start_wall_ns"] == WALL_NS
    assert document["versions"]["python"] == sys.version.split()[0]
    assert {"numpy", "pyarrow", "pyspark"} <= document["versions"].keys()
    assert run.read_test() == document
    assert run.node_dir("n1") == run.path / "nodes" / "n1"
    assert run.node_dir("n1").is_dir()


def test_two_runs_of_the_same_millisecond_and_seed_are_two_runs(tmp_path: Path) -> None:
    one, two = (_store(tmp_path).create("t", 1, DOCUMENT, WALL_NS) for _ in range(2))
    assert one.path != two.path
    assert two.name == f"{one.name}-2"
    assert [run.path for run in _store(tmp_path).runs()] == [one.path, two.path]


@pytest.mark.parametrize("name", ["", "a/b", "..", "a=b", "a b", "100%", "x" * 200, "-x"])
def test_a_test_that_no_folder_can_be_named_after_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="a test cannot be named"):
        _store(tmp_path).create(name, 1, DOCUMENT, WALL_NS)
    assert not (tmp_path / "store").exists()


def test_a_run_that_cannot_be_described_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        _store(tmp_path).create("t", 1, {"options": object()}, WALL_NS)
    assert _files(tmp_path) == {}
    assert list((tmp_path / "store" / "test=t").iterdir()) == []


def test_a_store_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    with pytest.raises(UsageError, match=r"cannot write to the store .*--store"):
        _store(tmp_path).create("t", 1, DOCUMENT, WALL_NS)


def test_the_git_revision_is_that_of_our_own_checkout_and_says_whether_files_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> str:
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
        return (
            subprocess.run(
                ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments],
                check=True,
                capture_output=True,
                env=environment,
            )
            .stdout.decode()
            .strip()
        )

    package = tmp_path / "results" / "__init__.py"
    package.parent.mkdir()
    package.write_text("")
    monkeypatch.setattr(origin.results, "__file__", str(package))
    assert origin.git_revision() is None
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    assert origin.git_revision() == {"revision": git("rev-parse", "HEAD"), "dirty": False}
    package.write_text("changed = 1\n")
    assert origin.git_revision() == {"revision": git("rev-parse", "HEAD"), "dirty": True}
    monkeypatch.setattr(origin.results, "__file__", str(tmp_path / "results" / "results" / "__init__.py"))
    assert origin.git_revision() is None, "a checkout around an installed splitbrain is not its own"


def test_a_wheel_knows_its_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "revision.json").write_text('{"revision": "abc", "dirty": false}')
    monkeypatch.setattr(origin.results, "__file__", str(tmp_path / "__init__.py"))
    assert origin.git_revision() == {"revision": "abc", "dirty": False}


def test_a_run_tells_of_its_machine(tmp_path: Path) -> None:
    found = _store(tmp_path).create("t", 1, DOCUMENT, WALL_NS).read_test()["machine"]
    assert 1 <= found["cpus_usable"] <= found["cpus"] == os.cpu_count()
    assert found["memory_mib"] > 100
    assert len(found["load"]) == 3
    assert found["root"] is (os.geteuid() == 0)


# --- history --------------------------------------------------------------------------------------------------------


def test_the_history_of_a_run_under_way_can_be_read_and_is_finished_at_its_end(tmp_path: Path) -> None:
    run = _store(tmp_path).create("t", 1, DOCUMENT, WALL_NS)
    writer = run.history_writer()
    for op in writes(10):
        writer.record(op)
    writer.flush()
    assert run.status() == "running"
    under_way = RunDir(run.path).history()
    assert arrow.from_table(under_way) == writes(10)
    assert arrow.recovered_note(under_way) is not None
    table = run.finish_history()
    assert arrow.from_table(table) == writes(10)
    assert arrow.recovered_note(table) is None
    assert not run.wal_path.exists()
    run.release()
    assert run.status() == "recorded"
    assert arrow.recovered_note(run.history()) is None
    assert arrow.from_table(RunDir(run.path).finish_history()) == writes(10)


def test_a_run_under_way_elsewhere_is_not_touched(tmp_path: Path) -> None:
    run = _store(tmp_path).create("t", 1, DOCUMENT, WALL_NS)
    writer = run.history_writer()
    writer.record(writes(1)[0])
    writer.flush()
    before = _files(tmp_path)
    with pytest.raises(UsageError, match=rf"still under way \(pid {os.getpid()}\)"):
        RunDir(run.path).finish_history()
    assert _files(tmp_path) == before
    writer.close()


_CONTROLLER = """
import os, signal, sys, time
from pathlib import Path
from splitbrain.results.store import Store
from tests_support import writes
run = Store(Path(sys.argv[1])).create("t", 1, {"checkers": []}, 1_790_000_000_000_000_000)
writer = run.history_writer()
for op in writes(500):
    writer.record(op)
writer.flush()
for op in writes(100, first=500):
    writer.record(op)
print("recorded", flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_a_killed_controller_leaves_a_run_that_is_recovered_up_to_its_last_flush(tmp_path: Path) -> None:
    module = tmp_path / "tests_support.py"
    module.write_text(Path(__file__).with_name("support.py").read_text())
    root = Path(store.__file__).parent.parent
    with subprocess.Popen(
        [sys.executable, "-c", _CONTROLLER, str(tmp_path / "store")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{root}"},
    ) as controller:
        assert controller.stdout is not None
        assert controller.stdout.readline() == b"recorded\n"
        run = _store(tmp_path).find("latest")
        assert run.status() == "running"
        controller.send_signal(signal.SIGKILL)
    assert run.status() == "crashed"
    note = "recovered 250 ops (500 rows) from the write-ahead file of a run that did not end normally"
    assert arrow.recovered_note(run.history()) == note
    assert run.wal_path.exists()
    assert arrow.from_table(run.finish_history()) == writes(500)
    assert not run.wal_path.exists()
    assert run.status() == "recovered"
    assert arrow.recovered_note(run.history()) == note


def test_the_write_ahead_file_goes_only_after_the_history_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _store(tmp_path).create("t", 1, DOCUMENT, WALL_NS)
    writer = run.history_writer()
    for op in writes(10):
        writer.record(op)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("pyarrow.parquet.write_table", full)
        with pytest.raises(OSError, match="No space"):
            run.finish_history()
    assert {path.name for path in run.path.iterdir()} == {"test.json", "controller.lock", "history.wal"}
    assert arrow.from_table(run.finish_history()) == writes(10)


def test_a_crash_between_the_history_and_the_removal_of_its_source_is_cleaned_up(tmp_path: Path) -> None:
    run = _store(tmp_path).create("t", 1, DOCUMENT, WALL_NS)
    _recorded(run)
    run.wal_path.write_bytes(b"left behind")
    assert arrow.from_table(RunDir(run.path).finish_history()) == writes(10)
    assert not run.wal_path.exists()


def test_a_history_that_cannot_be_read_does_not_cost_its_source(tmp_path: Path) -> None:
    run = _store(tmp_path).create("t", 1, DOCUMENT, WALL_NS)
    _recorded(run)
    run.wal_path.write_bytes(b"still there")
    run.history_path.write_bytes(run.history_path.read_bytes()[:100])
    with pytest.raises(HistoryFormatError, match="not a whole Parquet file"):
        RunDir(run.path).finish_history()
    assert run.wal_path.read_bytes() == b"still there"


def test_a_run_that_recorded_nothing_says_so(tmp_path: Path) -> None:
    run = _store(tmp_path).create("t", 1, DOCUMENT, WALL_NS)
    run.release()
    assert run.status() == "empty"
    for read in (run.history, run.finish_history):
        with pytest.raises(RunNotFoundError, match="nothing was recorded"):
            read()


def test_a_run_takes_one_history_only(tmp_path: Path) -> None:
    run = _store(tmp_path).create("t", 1, DOCUMENT, WALL_NS)
    run.history_writer().close()
    with pytest.raises(HarnessError, match="File exists"):
        run.history_writer()
    run.finish_history()
    with pytest.raises(HarnessError, match="has a history already"):
        run.history_writer()


def test_the_store_is_one_table_for_readers_of_hive_partitions(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("a", 2), ("b", 3)):
        _recorded(_store(tmp_path).create(name, seed, DOCUMENT, WALL_NS), 4)
    paths = [str(path) for path in (tmp_path / "store").rglob("history.parquet")]
    table = ds.dataset(paths, partitioning="hive", partition_base_dir=str(tmp_path / "store")).to_table()
    assert table.num_rows == 12
    assert set(table.column("test").to_pylist()) == {"a", "b"}


# --- plan, marks ----------------------------------------------------------------------------------------------------


def test_a_plan_comes_back_byte_for_byte_and_marks_by_name_with_their_zeros(tmp_path: Path) -> None:
    run = _recorded(_store(tmp_path).create("t", 1, DOCUMENT, WALL_NS))
    assert run.read_marks() is None
    plan = b'{"ops":[ ],\n"format" : 7}'
    run.write_plan(plan)
    run.write_marks({"leader isolated": 3, "format": 99, "a vote was refused": 0})
    assert run.plan_path == run.path / "plan.json"
    assert run.plan_path.read_bytes() == plan
    marks = run.read_marks()
    assert marks is not None
    assert list(marks.items()) == [("a vote was refused", 0), ("format", 99), ("leader isolated", 3)]
    assert (run.path / "marks.json").read_text().splitlines()[1] == '  "a vote was refused": 0,'


def test_damaged_marks_are_named(tmp_path: Path) -> None:
    run = _recorded(_store(tmp_path).create("t", 1, DOCUMENT, WALL_NS))
    run.marks_path.write_text('{"leader isolated": "often"}')
    with pytest.raises(HistoryFormatError, match=r"marks\.json: damaged"):
        run.read_marks()


# --- verdicts -------------------------------------------------------------------------------------------------------


def test_verdicts_come_back_as_they_were(tmp_path: Path) -> None:
    run = _recorded(_store(tmp_path).create("t", 1, DOCUMENT, WALL_NS))
    assert run.read_verdicts() is None
    lost = Verdict(checker="set", valid="false", sentence="Lost: ü", anomalies=("lost",), evidence={"ops": [1, 2]})
    verdicts = [lost, Verdict(checker="stats", valid="true", figures={"ops": 10}, seconds=0.5)]
    run.write_verdicts(verdicts, "violation", engine="spark", harness_error="none of ours")
    assert run.status() == "complete"
    stored = run.read_verdicts()
    assert stored is not None
    assert (stored.format, stored.outcome, stored.engine, stored.harness_error) == (
        1,
        "violation",
        "spark",
        "none of ours",
    )
    assert [verdict["valid"] for verdict in stored.verdicts] == [False, True]
    as_words = [{**found, "valid": str(found["valid"]).lower()} for found in stored.verdicts]
    assert msgspec.convert(as_words, list[Verdict]) == verdicts
    plain = json.loads((run.path / "verdict.json").read_text())["verdicts"][0]
    assert plain["sentence"] == "Lost: ü"
    assert (plain["key"], plain["inconclusive"], plain["figures"]) == (None, [], {}), "what is absent is spelled out"


def test_a_newer_store_is_refused_and_not_touched(tmp_path: Path) -> None:
    run = _recorded(_store(tmp_path).create("t", 1, DOCUMENT, WALL_NS))
    run.write_verdicts([], "pass")
    for name in ("test.json", "verdict.json"):
        path = run.path / name
        path.write_text(json.dumps({"format": 2, "verdicts": "of another shape"}))
    before = _files(tmp_path)
    calls: list[Callable[[], object]] = [
        run.read_test,
        run.history,
        run.finish_history,
        run.read_verdicts,
        lambda: run.write_test({}),
        lambda: run.write_verdicts([], "pass"),
    ]
    for call in calls:
        with pytest.raises(StoreVersionError, match=r"is in format 2, this splitbrain reads up to 1: upgrade"):
            call()
    assert _files(tmp_path) == before


def test_damaged_documents_are_named(tmp_path: Path) -> None:
    run = _recorded(_store(tmp_path).create("t", 1, DOCUMENT, WALL_NS))
    (run.path / "test.json").write_text('{"format": 1, "seed"')
    (run.path / "verdict.json").write_text('{"format": 1}')
    with pytest.raises(HistoryFormatError, match=r"test\.json: damaged"):
        run.read_test()
    with pytest.raises(HistoryFormatError, match=r"verdict\.json: damaged"):
        run.read_verdicts()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": None}, "format"),
        ({"format": 0}, "format"),
        ({"format": -1}, "format"),
        ({"format": "1"}, "format"),
        ({"nodes": 5}, "nodes"),
        ({"nodes": None}, "nodes"),
        ({"nodes": ["n1", 2]}, "nodes"),
        ({"seed": "1"}, "seed"),
        ({"start_wall_ns": 1e300}, "start_wall_ns"),
        ({"versions": []}, "versions"),
    ],
)
def test_a_document_of_other_types_is_damaged(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    run = _recorded(_store(tmp_path).create("t", 1, DOCUMENT, WALL_NS))
    (run.path / "test.json").write_text(json.dumps({**run.read_test(), **change}))
    with pytest.raises(HistoryFormatError, match=rf"test\.json: damaged: .*{says}"):
        run.read_test()


def test_a_document_that_does_not_tell_its_format_is_damaged(tmp_path: Path) -> None:
    run = _recorded(_store(tmp_path).create("t", 1, DOCUMENT, WALL_NS))
    document = run.read_test()
    del document["format"]
    (run.path / "test.json").write_text(json.dumps(document))
    with pytest.raises(HistoryFormatError, match=r"test\.json: damaged: .*`format`"):
        run.read_test()


# --- finding --------------------------------------------------------------------------------------------------------


def test_a_run_is_found_by_what_a_person_would_say(tmp_path: Path) -> None:
    kept = _store(tmp_path)
    first = kept.create("a", 1, DOCUMENT, WALL_NS)
    second = kept.create("a", 2, DOCUMENT, WALL_NS + 10**9)
    third = kept.create("b", 2, DOCUMENT, WALL_NS + 10**9)
    assert [run.path for run in kept.runs()] == [first.path, second.path, third.path]
    for reference, meant in {
        str(first.path): first,
        f"{first.path}/": first,
        "latest": third,
        first.name: first,
        f"run={first.name}": first,
        f"a/{second.name}": second,
        f"test=a/run={second.name}": second,
        "b/": third,
        "b": third,
        "20260921T141320": first,
    }.items():
        assert kept.find(reference).path == meant.path, reference
    with pytest.raises(RunNotFoundError, match=r"could be any of 2 runs: a/.*, b/"):
        kept.find(second.name)
    with pytest.raises(RunNotFoundError, match="no run 'c'"):
        kept.find("c")
    with pytest.raises(RunNotFoundError, match="there is no run in the store"):
        Store(tmp_path / "elsewhere").find("latest")
    with pytest.raises(RunNotFoundError, match=r"has no test\.json"):
        RunDir(tmp_path).read_test()


def test_what_is_being_created_is_not_a_run_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[RunDir]] = []

    def versions(_: object) -> dict[str, str]:
        seen.append(_store(tmp_path).runs())
        return {}

    monkeypatch.setattr(origin, "versions", versions)
    _store(tmp_path).create("t", 1, DOCUMENT, WALL_NS)
    assert seen == [[]]
    assert len(_store(tmp_path).runs()) == 1


def test_a_damaged_run_is_listed_like_any_other(tmp_path: Path) -> None:
    run = _recorded(_store(tmp_path).create("t", 1, DOCUMENT, WALL_NS))
    (run.path / "test.json").write_text("damaged")
    assert [found.path for found in _store(tmp_path).runs()] == [run.path]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("column", [name for name in HISTORY_SCHEMA.names if name != "due"])
def test_a_history_without_a_column_that_every_run_has_is_damaged(tmp_path: Path, column: str) -> None:
    """Without its keys, or its nodes, it would be judged as another history."""
    run = _recorded(_store(tmp_path).create("t", 1, DOCUMENT, WALL_NS))
    pq.write_table(run.history().drop_columns([column]), run.history_path)
    with pytest.raises(HistoryFormatError, match=rf"history\.parquet.*no column '{column}'"):
        run.history()
    with pytest.raises(HistoryFormatError, match=rf"history\.parquet.*no column '{column}'"):
        check_history_file(run.history_path)


@pytest.mark.parametrize("name", ["test.json", "verdict.json", CHECKSUMS, "marks.json"])
def test_a_document_that_is_far_too_large_is_refused_before_it_is_read(tmp_path: Path, name: str) -> None:
    run = _recorded(_store(tmp_path).create("t", 1, DOCUMENT, WALL_NS))
    with (run.path / name).open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(HistoryFormatError, match=rf"{name}.*it has 1\.1 TB"):
        _ = run.read_test(), run.read_verdicts(), run.read_marks()


LATER = [
    *("last_index", "projection_hash", "projected_hash", "applied_count"),
    *("log_index", "log_term", "log_hash", "raised_by", "members", "counted_index", "counted"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("column", [name for name in TELEMETRY_SCHEMA.names if name not in LATER])
def test_telemetry_without_a_column_that_every_run_has_is_damaged(tmp_path: Path, column: str) -> None:
    run = _recorded(_store(tmp_path).create("t", 1, DOCUMENT, WALL_NS))
    pq.write_table(TELEMETRY_SCHEMA.empty_table().drop_columns([column]), run.telemetry_path)
    with pytest.raises(HistoryFormatError, match=rf"telemetry\.parquet.*no column '{column}'"):
        run.telemetry()


def test_what_earlier_versions_did_not_write_may_be_missing(tmp_path: Path) -> None:
    run = _recorded(_store(tmp_path).create("t", 1, DOCUMENT, WALL_NS))
    history = run.history()
    (run.path / CHECKSUMS).unlink()
    pq.write_table(history.drop_columns(["due"]), run.history_path)
    assert run.history().num_rows == history.num_rows
    pq.write_table(TELEMETRY_SCHEMA.empty_table().drop_columns(LATER), run.telemetry_path)
    assert run.telemetry().num_rows == 0
