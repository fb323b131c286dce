"""Checksums: what a finished run recorded is read as it was recorded, or refused by name."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from splitbrain.harness.campaigns.judging import judge_inline
from splitbrain.results.arrow import TELEMETRY_SCHEMA, read_parquet
from splitbrain.results.atomic import alone_in
from splitbrain.results.checksums import CHECKSUMS, FILES, read_checksums, renewing, verify, write_checksums
from splitbrain.results.compacting import compact
from splitbrain.results.errors import HistoryFormatError, StoreVersionError
from splitbrain.results.loaded import load
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from splitbrain.results.telemetry import table_of
from tests.spark.support import SET, crashed, set_history, stored


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """A finished run with every file that has a digest."""
    found = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    found.write_telemetry(TELEMETRY_SCHEMA.empty_table())
    found.write_marks({"elected": 1})
    found.write_plan(b"{}")
    return found


def test_a_run_has_checksums_from_the_moment_its_history_is_whole(tmp_path: Path) -> None:
    killed = crashed(Store(tmp_path), "t", 1, set_history(20), SET)
    assert read_checksums(killed.path) is None
    assert killed.history().num_rows > 0
    killed.finish_history()
    known = read_checksums(killed.path)
    assert known is not None
    assert {name for name in FILES if known[name] is not None} == {"test.json", "history.parquet"}


@pytest.mark.parametrize("name", FILES)
def test_any_other_content_is_refused_by_the_name_of_its_file(run: RunDir, name: str) -> None:
    verify(run.path, FILES)
    path = run.path / name
    sound = path.read_bytes()
    for at in {0, len(sound) // 2, len(sound) - 1}:
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
        with pytest.raises(HistoryFormatError, match=f"{name}: it was damaged or changed"):
            verify(run.path, FILES)
    path.unlink()
    with pytest.raises(HistoryFormatError, match=f"{name}: it is gone"):
        verify(run.path, FILES)
    path.write_bytes(sound)
    verify(run.path, FILES)


def test_a_file_that_was_not_there_is_refused(tmp_path: Path) -> None:
    found = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    pq.write_table(TELEMETRY_SCHEMA.empty_table(), found.telemetry_path)
    with pytest.raises(HistoryFormatError, match="it was not there"):
        load(found)


def test_a_sound_history_of_other_rows_is_refused_and_without_checksums_it_is_read(run: RunDir) -> None:
    other = run.history().slice(0, 10)
    run.history_path.unlink()
    pq.write_table(other, run.history_path)
    with pytest.raises(HistoryFormatError, match="the run is judged as it is"):
        run.history()
    (run.path / CHECKSUMS).unlink()
    assert run.history().num_rows == 10


def other_telemetry(run: RunDir) -> None:
    line = (1, b'{"wall":1790000000000000000,"event":"role","term":1,"role":"leader","leader":"n1"}')
    run.write_telemetry(table_of({"n1": [line]}))


WRITERS: dict[str, Callable[[RunDir], object]] = {
    "test.json": lambda run: run.amend_test(noted="anything"),
    "marks": lambda run: run.write_marks({"elected": 2}),
    "plan": lambda run: run.write_plan(b"[]"),
    "telemetry": other_telemetry,
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_what_is_written_again_has_a_new_digest(run: RunDir, write: Callable[[RunDir], object]) -> None:
    before = read_checksums(run.path)
    write(run)
    verify(run.path, FILES)
    assert read_checksums(run.path) not in (before, None)


def test_a_damaged_file_is_not_written_again(run: RunDir) -> None:
    """It would get a digest as if it were sound."""
    document = json.loads((run.path / "test.json").read_bytes())
    (run.path / "test.json").write_text(json.dumps({**document, "seed": 99}))
    with pytest.raises(HistoryFormatError, match="it was damaged or changed"):
        run.amend_test(noted="anything")


def test_between_two_contents_a_file_has_no_checksum_and_the_others_keep_theirs(run: RunDir) -> None:
    before = read_checksums(run.path)
    assert before is not None
    with renewing(run.path, "plan.json"):
        assert read_checksums(run.path) == {name: each for name, each in before.items() if name != "plan.json"}
        verify(run.path, FILES)
    assert read_checksums(run.path) == before


def test_while_one_process_renews_a_checksum_no_other_one_does(run: RunDir) -> None:
    folder = os.open(run.path, os.O_RDONLY)
    try:
        with renewing(run.path, "plan.json"), pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(folder)


def test_a_compacted_run_has_the_checksums_of_its_new_tables(tmp_path: Path) -> None:
    found = stored(Store(tmp_path), "t", 1, set_history(400), SET)
    (found.path / CHECKSUMS).unlink()
    pq.write_table(read_parquet(found.history_path), found.history_path)
    write_checksums(found.path)
    judge_inline(found)
    before = read_checksums(found.path)
    assert compact(found) is not None
    verify(found.path, FILES)
    assert read_checksums(found.path) != before
    assert found.read_verdicts() is not None


def test_a_damaged_file_is_named_also_to_who_is_alone_in_the_folder(run: RunDir) -> None:
    (run.path / "plan.json").write_bytes(b"x")
    with alone_in(run.path), pytest.raises(HistoryFormatError, match="it was damaged or changed"):
        verify(run.path, FILES)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "damaged"),
        (b"{}", "damaged"),
        (b"[" * 100_000, "damaged"),
        (b'{"format": 1, "files": {}, "seal": "0"}', "its own checksum is another"),
    ],
    ids=["empty", "nothing", "brackets", "another seal"],
)
def test_damaged_checksums_are_named_themselves(run: RunDir, content: bytes, said: str) -> None:
    (run.path / CHECKSUMS).write_bytes(content)
    with pytest.raises(HistoryFormatError, match=f"checksums.json: .*{said}.*remove it"):
        run.history()


def test_checksums_of_a_newer_splitbrain_are_refused(run: RunDir) -> None:
    (run.path / CHECKSUMS).write_bytes(b'{"format": 2}')
    with pytest.raises(StoreVersionError, match="is in format 2"):
        run.history()
