"""Telemetry of a run is found wherever its controller left it, killed or not."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from splitbrain.harness.backends.shared import disks
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.results.arrow import TELEMETRY_SCHEMA
from splitbrain.results.collecting import collect_telemetry
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.history import Op
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store

WALL_NS = 1_790_000_000_000_000_000
LINE = json.dumps({"wall": WALL_NS + 5, "event": "start"}, separators=(",", ":")).encode() + b"\n"


def killed(root: Path) -> RunDir:
    """A run whose controller was killed; its test.json says where the telemetry of n1 would be in the end."""
    run = Store(root).create("t", 1, {"checkers": []}, WALL_NS)
    writer = run.history_writer()
    writer.record(Op(index=0, time=0, process=0, type="invoke", f="read"))
    writer.flush()
    writer.abandon()
    run.release()
    (run.node_dir("n1") / "data").mkdir()
    run.write_test({**run.read_test(), "telemetry": {"n1": "nodes/n1/data/telemetry.jsonl"}, "began_wall_ns": WALL_NS})
    return RunDir(run.path)


@pytest.mark.parametrize("beside", ["", "aside"], ids=["processes and hosts", "containers"])
def test_it_is_found_beside_a_volume_that_was_never_unmounted(tmp_path: Path, beside: str) -> None:
    run = killed(tmp_path)
    home = run.path / "nodes" / "n1"
    test = cast(Test, SimpleNamespace(system=Metadata()))
    [place] = disks.request(test, "volume", home, "image", home / beside)["aside"].values()
    Path(place).parent.mkdir(exist_ok=True)
    Path(place).write_bytes(LINE)
    assert collect_telemetry(run)
    assert [(row["node"], row["event"], row["time"]) for row in run.telemetry().to_pylist()] == [("n1", "start", 5)]
    assert not collect_telemetry(run)


@pytest.mark.parametrize(
    ("began", "line", "time"),
    [
        ({"start_wall_ns": WALL_NS - 9}, {"wall": WALL_NS + 5}, 5),
        ({"start_wall_ns": WALL_NS - 9, "began_wall_ns": None}, {"wall": WALL_NS + 5}, 14),
        ({"began_mono_ns": 1000}, {"wall": WALL_NS + 5, "at": 1007}, 7),
    ],
    ids=["from when the test began", "from when the run did", "by the controller's monotonic clock"],
)
def test_its_times_count_from_when_the_test_began(
    tmp_path: Path, began: dict[str, int | None], line: dict[str, int], time: int
) -> None:
    run = killed(tmp_path)
    run.write_test({**run.read_test(), **began})
    (run.path / "nodes" / "n1" / "telemetry.jsonl").write_bytes(json.dumps({**line, "event": "start"}).encode() + b"\n")
    assert collect_telemetry(run)
    assert [row["time"] for row in run.telemetry().to_pylist()] == [time]


def test_a_run_that_was_analyzed_without_it_gets_it_once_it_is_there(tmp_path: Path) -> None:
    run = killed(tmp_path)
    run.write_telemetry(TELEMETRY_SCHEMA.empty_table())
    assert not collect_telemetry(run)
    (run.path / "nodes" / "n1" / "telemetry.jsonl").write_bytes(LINE)
    assert collect_telemetry(run)
    assert run.telemetry().num_rows == 1


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    run = killed(tmp_path)
    (run.path / "nodes" / "n1" / "data" / "telemetry.jsonl").mkdir()
    with pytest.raises(HistoryFormatError, match=r"telemetry\.jsonl: cannot be read: Is a directory"):
        collect_telemetry(run)
    run.write_test({**run.read_test(), "telemetry": {"n1": 7}})
    with pytest.raises(HistoryFormatError, match=r"test\.json: damaged: .*telemetry"):
        collect_telemetry(run)
