"""Data of nodes: packed without loss, within a bound, and what is left out is told."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from splitbrain.results import nodedata
from splitbrain.results.pruning import size_bytes
from splitbrain.results.store import Store

PREALLOCATED = 64 << 20
ROOM = 256 << 20


def lay_out(run: Path, node: str, content: bytes = b"entry") -> Path:
    """A node's data: a log that was laid out in advance, with something at its beginning."""
    member = run / "nodes" / node / "data" / "etcd" / "member"
    member.mkdir(parents=True)
    with (member / "0.wal").open("wb") as file:
        file.write(content)
        os.posix_fallocate(file.fileno(), 0, PREALLOCATED)
    return run / "nodes" / node


def test_a_log_laid_out_in_advance_takes_no_room_and_comes_back_byte_for_byte(tmp_path: Path) -> None:
    node = lay_out(tmp_path, "n1")
    before = (node / "data" / "etcd" / "member" / "0.wal").read_bytes()
    assert size_bytes(tmp_path) >= PREALLOCATED
    assert nodedata.pack(tmp_path, ROOM) == []
    assert sorted(path.name for path in node.iterdir()) == ["data.tar.gz"]
    assert size_bytes(tmp_path) < PREALLOCATED / 100
    with tarfile.open(node / "data.tar.gz") as archive:
        found = archive.extractfile("data/etcd/member/0.wal")
        assert found is not None
        assert found.read() == before


def test_data_that_do_not_fit_are_left_out_node_by_node_and_told(tmp_path: Path) -> None:
    for node in ("n1", "n2", "n3"):
        lay_out(tmp_path, node, os.urandom(200_000))
    said = nodedata.pack(tmp_path, bound=1_100_000)
    assert [line.split(":")[0] for line in said] == ["data of n3 left out"]
    assert "--keep-data" in said[0]
    assert sorted(path.name for path in tmp_path.glob("nodes/*/*")) == ["data.tar.gz"] * 2
    assert size_bytes(tmp_path) <= 1_100_000 + 2 * 4096


def test_nothing_is_kept_with_a_bound_of_nothing(tmp_path: Path) -> None:
    lay_out(tmp_path, "n1")
    assert len(nodedata.pack(tmp_path, bound=0)) == 1
    assert list(tmp_path.glob("nodes/n1/*")) == []


def test_packing_again_changes_nothing(tmp_path: Path) -> None:
    node = lay_out(tmp_path, "n1")
    nodedata.pack(tmp_path, ROOM)
    packed = (node / "data.tar.gz").read_bytes()
    assert nodedata.pack(tmp_path, bound=0) == []
    assert (node / "data.tar.gz").read_bytes() == packed


def test_logs_beside_the_data_and_what_a_link_leads_to_stay(tmp_path: Path) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    node = lay_out(run, "n1")
    (node / "log").write_text("line")
    (node / "data" / "link").symlink_to(outside)
    nodedata.pack(run, ROOM)
    assert (node / "log").read_text() == "line"
    assert (outside / "file").exists()


@pytest.mark.slow
def test_the_bound_is_the_one_of_the_runs_options_and_its_log_tells_what_was_left_out(tmp_path: Path) -> None:
    for at, options in enumerate(({"keep_data": "0"}, {"keep_data": "1M"}, {})):
        run = Store(tmp_path).create("t", at, {"options": options}, 10**18 + at)
        lay_out(run.path, "n1")
        nodedata.pack_as_asked(run, run.read_test())
        run.release()
        kept = (run.path / "nodes" / "n1" / "data.tar.gz").exists()
        assert kept is (at > 0)
        assert run.log_path.exists() is (at == 0)
        if at == 0:
            assert "data of n1 left out" in run.log_path.read_text()
