from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.results import wal
from splitbrain.results.errors import HarnessError, HistoryFormatError, StoreVersionError
from splitbrain.results.history import Op

from .support import histories, writes


def _written(path: Path, batches: list[list[Op]], *, close: bool) -> list[int]:
    """Write each batch with one flush; the size of the file after each."""
    writer = wal.HistoryWriter(path)
    sizes: list[int] = []
    for batch in batches:
        for op in batch:
            writer.record(op)
        writer.flush()
        sizes.append(path.stat().st_size)
    if close:
        writer.close()
    else:
        writer.abandon()
    return sizes


@pytest.mark.slow
@settings(max_examples=50)
@given(histories, st.integers(0, 12))
def test_a_closed_history_comes_back_whole(tmp_path_factory: pytest.TempPathFactory, ops: list[Op], cut: int) -> None:
    path = tmp_path_factory.mktemp("wal") / "h.wal"
    _written(path, [ops[:cut], ops[cut:]], close=True)
    assert wal.read(path) == wal.WalContent(ops, complete=True, problem=None)


def test_nothing_but_what_was_flushed_survives_the_death_of_the_controller(tmp_path: Path) -> None:
    path = tmp_path / "h.wal"
    ops = writes(100)
    pid = os.fork()
    if pid == 0:
        writer = wal.HistoryWriter(path)
        for op in ops[:60]:
            writer.record(op)
        writer.flush()
        for op in ops[60:]:
            writer.record(op)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert wal.read(path) == wal.WalContent(ops[:60], complete=False, problem=None)


def test_a_tail_torn_at_any_byte_costs_only_the_last_record_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "h.wal"
    ops = writes(30)
    sizes = _written(path, [ops[:10], ops[10:20], ops[20:]], close=True)
    whole = path.read_bytes()
    kept = {sizes[0]: 10, sizes[1]: 20, sizes[2]: 30}
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        content = wal.read(path)
        assert content.ops == ops[: max((n for end, n in kept.items() if end <= size), default=0)]
        assert not content.complete
        assert (content.problem is None) == (size in kept or size == 12), size


@pytest.mark.parametrize("batch", [0, 1, 2])
def test_damage_anywhere_keeps_what_is_before_it_and_is_told(tmp_path: Path, batch: int) -> None:
    path = tmp_path / "h.wal"
    ops = writes(30)
    sizes = [12, *_written(path, [ops[:10], ops[10:20], ops[20:]], close=True)]
    whole = path.read_bytes()
    for position in range(sizes[batch], sizes[batch + 1]):
        damaged = bytearray(whole)
        damaged[position] ^= 0x40
        path.write_bytes(damaged)
        content = wal.read(path)
        assert content.ops == ops[: batch * 10], position
        assert not content.complete
        assert content.problem is not None
        assert "bytes were not read" in content.problem


def test_a_gap_in_the_indexes_is_told(tmp_path: Path) -> None:
    path = tmp_path / "h.wal"
    _written(path, [writes(10), writes(5, first=11)], close=True)
    content = wal.read(path)
    assert (len(content.ops), content.complete) == (10, False)
    assert content.problem is not None
    assert content.problem.startswith("op 11 stands where op 10 is expected")


def test_a_full_disk_loses_nothing_that_can_still_be_written(tmp_path: Path) -> None:
    path = tmp_path / "h.wal"
    ops = writes(400)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    writer = wal.HistoryWriter(path)
    try:
        for op in ops[:10]:
            writer.record(op)
        writer.flush()
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, hard))
        for op in ops[10:300]:
            writer.record(op)
        with pytest.raises(HarnessError, match="cannot write the history"):
            writer.flush()
        assert wal.read(path) == wal.WalContent(ops[:10], complete=False, problem=None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    for op in ops[300:]:
        writer.record(op)
    writer.close()
    assert wal.read(path) == wal.WalContent(ops, complete=True, problem=None)


def test_an_op_that_cannot_be_carried_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "h.wal"
    writer = wal.HistoryWriter(path)
    first, second = writes(2)
    writer.record(first)
    for value in (object(), [1, [object()]], 2**80):
        with pytest.raises(HarnessError, match=r"op 1 .*cannot carry"):
            writer.record(msgspec.structs.replace(second, value=value))
    writer.record(second)
    assert writer.recorded == 2
    writer.close()
    assert wal.read(path) == wal.WalContent([first, second], complete=True, problem=None)


def test_a_closed_history_takes_no_more_ops(tmp_path: Path) -> None:
    writer = wal.HistoryWriter(tmp_path / "h.wal")
    writer.close()
    writer.close()
    writer.record(writes(1)[0])
    with pytest.raises(HarnessError, match="is closed"):
        writer.flush()
    with pytest.raises(HarnessError, match="File exists"):
        wal.HistoryWriter(tmp_path / "h.wal")


def test_other_files_and_newer_ones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "h.wal"
    with pytest.raises(HistoryFormatError, match="No such file"):
        wal.read(path)
    for content in (b"PAR1 something else entirely", b"PAR"):
        path.write_bytes(content)
        with pytest.raises(HistoryFormatError, match="not a splitbrain write-ahead file"):
            wal.read(path)
    path.write_bytes(wal.MAGIC + (2).to_bytes(4, "little") + b"whatever")
    with pytest.raises(StoreVersionError, match="format 2"):
        wal.read(path)
