"""`check` draws what it found, where it is asked to; a run keeps the picture beside its report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from splitbrain.harness.campaigns.judging import judge_inline
from splitbrain.harness.cli.check import command
from splitbrain.results.arrow import from_table, to_table, write_parquet
from splitbrain.results.history import Op
from splitbrain.results.report import write_report
from splitbrain.results.report.counterexample import COUNTEREXAMPLE
from splitbrain.results.store import Store
from tests.report.counterexamples import WRONG, sample


def history(folder: Path, name: str = "orders.parquet") -> str:
    folder.mkdir(exist_ok=True)
    write_parquet(sample(200).history, folder / name)
    return str(folder / name)


def check(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["--model", "register", *arguments], catch_exceptions=False)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)


def files() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def test_nothing_is_drawn_that_nobody_asked_for_but_the_answer_says_how_to(tmp_path: Path) -> None:
    done = check(history(tmp_path))
    assert done.exit_code == 1
    assert "to draw it: add --picture PATH" in done.output
    assert json.loads(check("--json", history(tmp_path)).stdout)[0]["picture"] is None
    assert files() == []


def test_a_violation_is_drawn_into_a_folder_under_the_name_of_the_file(tmp_path: Path) -> None:
    done = check("--picture", ".", history(tmp_path))
    assert done.exit_code == 1
    assert "picture: orders.counterexample.html" in done.output
    assert f"read → {WRONG}" in Path("orders.counterexample.html").read_text()


def test_the_answer_in_json_names_the_picture(tmp_path: Path) -> None:
    done = check("--json", "--picture", "drawn.html", history(tmp_path))
    (row,) = json.loads(done.stdout)
    assert row["picture"] == "drawn.html"
    assert files() == ["drawn.html"]


@pytest.mark.slow
def test_histories_of_one_name_get_pictures_of_two(tmp_path: Path) -> None:
    check("--picture", ".", history(tmp_path / "a"), history(tmp_path / "b"))
    assert files() == ["orders-2.counterexample.html", "orders.counterexample.html"]


def test_one_file_does_not_take_the_pictures_of_two_histories(tmp_path: Path) -> None:
    two = (history(tmp_path / "a"), history(tmp_path / "b"))
    assert "one file cannot hold the pictures of 2 histories" in str(check_refused("--picture", "x.html", *two))
    assert "names neither a file nor a folder" in str(check_refused("--picture", "", two[0]))
    assert "there is no folder" in str(check_refused("--picture", "nowhere/x.html", two[0]))
    Path("drawn").mkdir()
    check("--picture", "drawn", *two)
    assert len(list(Path("drawn").iterdir())) == 2


def check_refused(*arguments: str) -> BaseException | None:
    found = CliRunner().invoke(command, ["--model", "register", *arguments])
    assert files() == []
    return found.exception


def test_a_picture_that_cannot_be_written_hides_no_verdict(tmp_path: Path) -> None:
    Path("x.html").mkdir()
    Path("x.html/orders.counterexample.html").mkdir()
    done = check("--picture", "x.html", history(tmp_path))
    assert done.exit_code == 1
    assert "Not linearizable" in done.output
    assert "the picture cannot be written" in done.output


def test_nothing_is_drawn_of_what_is_linearizable(tmp_path: Path) -> None:
    ops = [Op(index=0, time=0, process=0, type="invoke", f="read"), Op(index=1, time=1, process=0, type="ok", f="read")]
    write_parquet(to_table(ops), tmp_path / "fine.parquet")
    assert check(str(tmp_path / "fine.parquet")).exit_code == 0
    assert files() == []


def test_a_run_keeps_the_picture_of_its_violation_and_its_report_leads_there(tmp_path: Path) -> None:
    document = {"nodes": ["n1"], "checkers": [{"name": "linearizable", "options": {"model": "register"}}]}
    run = Store(tmp_path).create("orders", 1, document, 10**18)
    writer = run.history_writer()
    for op in from_table(sample(200).history):
        writer.record(op)
    run.finish_history()
    run.release()
    judge_inline(run)
    link = f'<a href="{COUNTEREXAMPLE}">The counterexample, drawn</a>'
    assert f"read → {WRONG}" in (run.path / COUNTEREXAMPLE).read_text()
    assert link in (run.path / "report.html").read_text()
    (run.path / COUNTEREXAMPLE).unlink()
    assert link not in write_report(run.path).read_text()
