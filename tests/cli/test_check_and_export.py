"""`check` and `export` from outside: formats recognised, limits handed on, one line for what is wrong."""

from __future__ import annotations

import gzip
import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from splitbrain.harness.cli.main import main
from splitbrain.harness.cli.steps import Steps

EDN = """[{:process 0, :type :invoke, :f :write, :value 1, :colour :red}
 {:process 0, :type :ok, :f :write, :value 1}
 {:process 1, :type :invoke, :f :read, :value nil}
 {:process 1, :type :ok, :f :read, :value 2}]
"""

KEYED = """{:process 0, :type :invoke, :f :write, :value ["x" 1]}
{:process 0, :type :ok, :f :write, :value ["x" 1]}
{:process 1, :type :invoke, :f :read, :value ["y" nil]}
{:process 1, :type :ok, :f :read, :value ["y" nil]}
"""


class Done(NamedTuple):
    code: int
    out: str
    err: str


Splitbrain = Callable[..., Done]


@pytest.fixture
def splitbrain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Splitbrain:
    """The command, in this process and in the test's folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))

    def run(*arguments: str) -> Done:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert isinstance(ended.value.code, int)
        shown = capsys.readouterr()
        return Done(ended.value.code, shown.out, shown.err)

    return run


def test_files_of_several_formats_are_recognised_and_judged(tmp_path: Path, splitbrain: Splitbrain) -> None:
    (tmp_path / "bad.edn").write_text(EDN)
    (tmp_path / "good.txt").write_text("c 0 0 1 1 0\nr 0 ok 1\nc 1 1 0 0 0\nr 1 ok 1\n")
    (tmp_path / "array.json").write_text('[{"process":0,"type":"invoke","f":"read","index":1}]')
    done = splitbrain("check", "--json", "bad.edn", "good.txt", "array.json")
    assert done.code == 1
    assert [row["valid"] for row in json.loads(done.out)] == [False, True, True]
    assert "note: bad.edn: fields that were not read: colour" in done.err


def test_keys_in_values_are_found_unless_one_says_no(tmp_path: Path, splitbrain: Splitbrain) -> None:
    (tmp_path / "keyed.edn").write_text(KEYED)
    assert splitbrain("check", "keyed.edn").code == 0
    assert splitbrain("check", "--independent", "no", "keyed.edn").code == 1


def test_a_stored_run_has_no_keys_in_values(tmp_path: Path, splitbrain: Splitbrain) -> None:
    done = splitbrain("check", "--independent", "yes", str(tmp_path))
    assert done.code == 254
    assert "a stored run stores keys apart from values" in done.err


def test_limits_reach_the_checker(tmp_path: Path, splitbrain: Splitbrain) -> None:
    (tmp_path / "bad.edn").write_text(EDN)
    for option in ("--memory-limit", "--time-limit"):
        done = splitbrain("check", option, "0", "bad.edn")
        assert done.code == 254
        assert f"{option} must be positive" in done.err
    done = splitbrain("check", "--witness-time", "-1", "bad.edn")
    assert done.code == 254


def test_what_is_exported_is_judged_the_same(tmp_path: Path, splitbrain: Splitbrain) -> None:
    (tmp_path / "bad.edn").write_text(EDN)
    assert splitbrain("export", "bad.edn", "--format", "jsonl", "-o", "out.jsonl").code == 0
    shown = splitbrain("export", "out.jsonl", "--from", "jsonl")
    assert shown.code == 0
    (tmp_path / "again.edn").write_text(shown.out)
    verdicts = json.loads(splitbrain("check", "--json", "bad.edn", "out.jsonl", "again.edn").out)
    assert len({(row["valid"], row["sentence"]) for row in verdicts}) == 1


def test_an_export_that_cannot_be_written_leaves_nothing(tmp_path: Path, splitbrain: Splitbrain) -> None:
    (tmp_path / "bad.edn").write_text(EDN)
    done = splitbrain("export", "bad.edn", "-o", "nowhere/out.edn")
    assert done.code == 254
    assert "--output nowhere/out.edn: there is no folder nowhere" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.edn"]


def test_a_missing_file_is_told_before_any_is_judged(tmp_path: Path, splitbrain: Splitbrain) -> None:
    (tmp_path / "bad.edn").write_text(EDN)
    done = splitbrain("check", "bad.edn", "nowhere.edn")
    assert done.code == 254
    assert "nowhere.edn: there is no such file" in done.err
    assert "bad.edn" not in done.out + done.err


def test_a_file_that_cannot_be_read_does_not_keep_the_others_from_their_verdicts(
    tmp_path: Path, splitbrain: Splitbrain
) -> None:
    (tmp_path / "bad.edn").write_text(EDN)
    (tmp_path / "broken.edn").write_text("{:process 0")
    done = splitbrain("check", "--no-picture", "broken.edn", "bad.edn")
    assert done.code == 1, "a violation decides"
    assert "INVALID bad.edn" in done.out
    assert "broken.edn" in done.err
    rows = json.loads(splitbrain("check", "--no-picture", "--json", "broken.edn", "bad.edn").out)
    assert [row["file"] for row in rows] == ["broken.edn", "bad.edn"]
    assert "broken.edn" in rows[0]["error"]
    assert rows[1]["valid"] is False


def test_without_a_violation_a_file_that_cannot_be_read_decides(tmp_path: Path, splitbrain: Splitbrain) -> None:
    (tmp_path / "good.jsonl").write_text('{"process":0,"type":"invoke","f":"write","value":1}\n')
    (tmp_path / "broken.edn").write_text("{:process 0")
    done = splitbrain("check", "good.jsonl", "broken.edn")
    assert done.code == 254
    assert "valid   good.jsonl" in done.out


def test_what_a_model_cannot_make_sense_of_is_told_with_file_and_op(tmp_path: Path, splitbrain: Splitbrain) -> None:
    (tmp_path / "odd.jsonl").write_text(
        '{"process":0,"type":"invoke","f":"write","value":1}\n'
        '{"process":0,"type":"ok","f":"write","value":1}\n'
        '{"process":0,"type":"invoke","f":"cas","value":3}\n'
        '{"process":0,"type":"ok","f":"cas","value":3}\n'
    )
    done = splitbrain("check", "odd.jsonl")
    assert done.code == 254
    assert "odd.jsonl: op 2: model 'cas-register' cannot make sense of cas with value 3 and result 3" in done.err


def test_text_in_another_encoding_is_told_with_its_line(tmp_path: Path, splitbrain: Splitbrain) -> None:
    (tmp_path / "latin.edn").write_bytes(b'{:process 0, :type :invoke, :f :write, :value 1}\n{:process "\xe9"}\n')
    assert "latin.edn:2: not UTF-8 text" in splitbrain("check", "latin.edn").err


def test_a_packed_file_is_told_how_to_unpack_it(tmp_path: Path, splitbrain: Splitbrain) -> None:
    (tmp_path / "history.edn.gz").write_bytes(gzip.compress(EDN.encode()))
    assert "gzip -dc history.edn.gz | splitbrain check -" in splitbrain("check", "history.edn.gz").err


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_steps_are_shown_on_a_terminal_once_they_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("splitbrain.harness.cli.steps._QUIET_S", 0.0)
    shown = _Terminal()
    with Steps(2, shown) as steps:
        steps.enter("reading a")
        while "reading a  (0/2)" not in shown.getvalue():
            time.sleep(0.01)
        with steps.aside():
            assert shown.getvalue().endswith("\r\x1b[2K")
        steps.enter("judging a")
        while "judging a  (1/2)" not in shown.getvalue():
            time.sleep(0.01)
    assert shown.getvalue().endswith("\r\x1b[2K")


def test_one_file_is_one_step_and_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("splitbrain.harness.cli.steps._QUIET_S", 0.0)
    shown = _Terminal()
    with Steps(1, shown) as steps:
        steps.enter("reading a")
        steps.describe("judging a, 1 row")
        while "judging a, 1 row" not in shown.getvalue():
            time.sleep(0.01)
    assert "/1)" not in shown.getvalue()


def test_steps_that_are_quick_are_not_shown() -> None:
    shown = _Terminal()
    with Steps(1, shown) as steps:
        steps.enter("reading a")
    assert shown.getvalue() == ""


@pytest.mark.parametrize("wrong", ["a", "z"])
def test_a_key_that_cannot_be_judged_hides_no_violation_of_another(
    tmp_path: Path, splitbrain: Splitbrain, wrong: str
) -> None:
    ops = [("write", "m", 1, 1), ("read", "m", None, 2), ("swap", wrong, 1, 1)]
    events = [
        {"process": 0, "type": how, "f": f, "key": key, "value": value}
        for f, key, asked, answered in ops
        for how, value in (("invoke", asked), ("ok", answered))
    ]
    (tmp_path / "h.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    found = splitbrain("check", "h.jsonl", "--model", "register")
    assert found.code == 1
    assert f"Key '{wrong}' could not be judged: model 'register' does not know 'swap'" in found.out
    (tmp_path / "h.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events if event["f"] != "read"))
    assert splitbrain("check", "h.jsonl", "--model", "register").code == 254
