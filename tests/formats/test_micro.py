"""Plume's and AWDIT's text formats: transactions on registers, and errors with their lines."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.formats import read_history, read_table
from splitbrain.results.formats.rows import NO_REALTIME_KEY
from splitbrain.results.history import Mop, Op

FOLDER = os.environ.get("SPLITBRAIN_CORPORA")

PLUME = "w(5,17,3,42)\nr(5,0,4,43)\nr(6,0,3,42)\nw(5,18,3,-1)\nr(5,17,4,44)\n"
AWDIT = "=====\nw 5 17\nr 6 0\n\n-----\nr 5 17\n-----\n=====\n=====\nr  5\t17"


def written(folder: Path, text: str) -> Path:
    path = folder / "history"
    path.write_bytes(text.encode())
    return path


def shown(ops: list[Op]) -> list[tuple[int, str, list[str]]]:
    """Process, type and micro-operations of each op."""
    return [(op.process, op.type, [words(mop) for mop in op.mops or ()]) for op in ops]


def words(mop: Mop) -> str:
    return f"{mop.f} {mop.key} {mop.value}"


@pytest.mark.parametrize("name", [None, "plume"])
def test_a_plume_history_has_sessions_as_processes_and_0_as_nothing(tmp_path: Path, name: str | None) -> None:
    assert shown(read_history(written(tmp_path, PLUME), name)) == [
        (3, "invoke", ["w 5 17", "r 6 None"]),
        (3, "ok", ["w 5 17", "r 6 None"]),
        (4, "invoke", ["r 5 None"]),
        (4, "ok", ["r 5 None"]),
        (3, "invoke", ["w 5 18"]),
        (3, "fail", ["w 5 18"]),
        (4, "invoke", ["r 5 None"]),
        (4, "ok", ["r 5 17"]),
    ]


@pytest.mark.parametrize("name", [None, "awdit"])
def test_an_awdit_history_has_sessions_one_after_the_other_and_no_initial_value(
    tmp_path: Path, name: str | None
) -> None:
    assert shown(read_history(written(tmp_path, AWDIT), name)) == [
        (0, "invoke", ["w 5 17", "r 6 None"]),
        (0, "ok", ["w 5 17", "r 6 0"]),
        (0, "invoke", ["r 5 None"]),
        (0, "ok", ["r 5 17"]),
        (1, "invoke", ["r 5 None"]),
        (1, "ok", ["r 5 17"]),
    ]


@pytest.mark.parametrize("text", [PLUME, AWDIT])
def test_such_a_history_says_that_it_knows_no_real_time(tmp_path: Path, text: str) -> None:
    table = read_table(written(tmp_path, text))
    assert NO_REALTIME_KEY in (table.schema.metadata or {})
    assert set(table.column("time").to_pylist()) == {-1}
    edn = written(tmp_path, "{:process 0, :type :invoke, :f :read}\n{:process 0, :type :ok, :f :read, :value 1}\n")
    assert NO_REALTIME_KEY not in (read_table(edn).schema.metadata or {})


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_lines_may_end_as_on_windows(tmp_path: Path, ends: str) -> None:
    assert len(read_history(written(tmp_path, PLUME.replace("\n", ends)))) == 8
    assert len(read_history(written(tmp_path, AWDIT.replace("\n", ends)))) == 6


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        (
            "plume",
            "w(1,1,1,1)\nw(1,2,1)\n",
            ":2: expected r(KEY,VALUE,SESSION,TRANSACTION) or w(...), found 'w(1,2,1)'",
        ),
        ("plume", "w(1,1,1,1)\n\nx(1,2,1,2)\n", ":3: expected r(KEY,VALUE"),
        ("plume", "w(1,1,1,1)\nr(1,-2,1,2)\n", ":2: expected r(KEY,VALUE"),
        ("plume", "w(1,1,1,1)\nr(1,1,1,2)", ":2: the file ends in the middle of a line"),
        ("plume", "w(1,1,1,1)\nw(1,0,1,2)\n", ":2: a write of 0"),
        ("plume", "w(1,1,1,1)\nr(1,1,2,1)\n", ":2: transaction 1 has begun in another session before"),
        ("plume", f"w(1,1,1,1)\nr(1,{10**19},1,2)\n", ":2: the value 10000000000000000000 is too large"),
        ("plume", f"w(1,1,{2**31},1)\n", ":1: expected a process from 0 to"),
        ("awdit", "w 1 1\n-----\nw 1\n", ":3: expected r KEY VALUE, w KEY VALUE, ----- or =====, found 'w 1'"),
        ("awdit", "w 1 1\n--=--\nr 1 1\n", ":2: expected r KEY VALUE"),
        ("awdit", "w 1 1\nr 1 -1\n", ":2: expected r KEY VALUE"),
        ("awdit", f"w {10**19} 1\n", ":1: the key 10000000000000000000 is too large"),
    ],
)
def test_what_is_no_micro_operation_is_refused_with_its_line(
    tmp_path: Path, name: str, text: str, problem: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(HistoryFormatError) as caught:
        read_history(path, name)
    assert str(caught.value).startswith(f"{path}{problem}")


def test_a_plume_file_cut_anywhere_inside_a_line_is_refused_with_the_line(tmp_path: Path) -> None:
    for cut in range(1, len(PLUME)):
        if PLUME[cut - 1] != "\n":
            with pytest.raises(HistoryFormatError, match=f":{PLUME[:cut].count(chr(10)) + 1}: "):
                read_history(written(tmp_path, PLUME[:cut]), "plume")


def entries(source: str) -> list[dict[str, Any]]:
    if FOLDER is None:
        return []
    return json.loads((Path(FOLDER) / source / "MANIFEST.json").read_text(encoding="utf-8"))["files"]


@pytest.mark.skipif(FOLDER is None, reason="SPLITBRAIN_CORPORA is not set: no published histories here")
def test_every_published_history_is_recognised_and_has_as_many_micro_operations_as_lines() -> None:
    files = [("awdit-tests", entry["file"]) for entry in entries("awdit-tests")]
    files += [("rw-register-sim", e["file"]) for e in entries("rw-register-sim") if ".plume." in e["file"]]
    assert len(files) > 20
    for source, file in files:
        path = Path(str(FOLDER)) / source / file
        lines = [line for line in path.read_text().split("\n") if line[:1] in ("r", "w")]
        ops = read_history(path)
        assert sum(len(op.mops or ()) for op in ops if op.type != "invoke") == len(lines), file


@pytest.mark.skipif(FOLDER is None, reason="SPLITBRAIN_CORPORA is not set: no published histories here")
@pytest.mark.parametrize("name", ["rw_pc_n500_s1", "rw_rc_n500_s2", "rw_ss_n500_s2"])
def test_a_plume_history_has_the_committed_transactions_of_its_edn_twin(name: str) -> None:
    def committed(path: Path) -> Counter[tuple[str, ...]]:
        return Counter(tuple(map(words, op.mops or ())) for op in read_history(path) if op.type == "ok")

    folder = Path(str(FOLDER)) / "rw-register-sim"
    twin = committed(folder / f"{name}.plume.txt")
    assert twin.total() > 300
    # The store says 0 in Plume's format where it says nil in EDN.
    assert twin == committed(folder / f"{name}.edn")
