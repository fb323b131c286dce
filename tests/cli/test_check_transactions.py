"""`splitbrain check --workload`: transactions from the command line."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from splitbrain.harness.cli.main import splitbrain

SKEW = """
{:process 0, :type :invoke, :f :txn, :value [[:r :x nil] [:append :y 1]]}
{:process 1, :type :invoke, :f :txn, :value [[:r :y nil] [:append :x 2]]}
{:process 0, :type :ok, :f :txn, :value [[:r :x []] [:append :y 1]]}
{:process 1, :type :ok, :f :txn, :value [[:r :y []] [:append :x 2]]}
{:process 2, :type :invoke, :f :txn, :value [[:r :x nil]]}
{:process 2, :type :ok, :f :txn, :value [[:r :x [2]]]}
"""


@pytest.fixture
def history(tmp_path: Path) -> str:
    path = tmp_path / "skew.edn"
    path.write_text(SKEW)
    return str(path)


def check(*arguments: str) -> Result:
    return CliRunner().invoke(splitbrain, ["check", *arguments])


def test_a_write_skew_is_a_violation_of_serializability_with_its_witness_in_json(history: str) -> None:
    found = check("--workload", "list-append", "--consistency-model", "strict-serializable", history, "--json")
    assert found.exit_code == 1
    [row] = json.loads(found.stdout)
    assert (row["checker"], row["valid"]) == ("list-append", False)
    assert row["anomalies"] == ["G2-item"]
    assert row["evidence"]["not"] == ["repeatable-read"]
    assert "T1 < T2, because" in row["evidence"]["anomalies"]["G2-item"][0]["sentence"]


def test_several_models_are_asked_for_at_once(history: str) -> None:
    allowed = check("--workload", "list-append", "--consistency-model", "snapshot-isolation,cursor-stability", history)
    assert (allowed.exit_code, allowed.stdout[:5]) == (0, "valid")
    assert check("--workload", "list-append", "--consistency-model", "cursor-stability,PL-3", history).exit_code == 1


def test_a_history_of_the_other_workload_is_refused_with_advice(history: str) -> None:
    found = check("--workload", "rw-register", history)
    assert found.exit_code == 254
    assert "Is the workload list-append?" in found.stderr


def test_the_witnesses_of_a_violation_are_drawn_where_it_is_asked_for(history: str, tmp_path: Path) -> None:
    assert "to draw it: add --picture PATH" in check("--workload", "list-append", history).output
    folder = tmp_path / "drawn"
    folder.mkdir()
    done = check("--workload", "list-append", "--picture", str(folder), history)
    page = (folder / "skew.counterexample.html").read_text()
    assert f"picture: {folder / 'skew.counterexample.html'}" in done.output
    assert 'class="edge edge-rw"' in page
    assert "T1 &lt; T2, because" in page
    assert set(re.findall(r'href="#(op-\d+)"', page)) <= set(re.findall(r'<tr id="(op-\d+)"', page)) != set()
    assert "<script" not in page


def test_predicate_reads_and_what_they_found_are_in_the_picture(tmp_path: Path) -> None:
    path = tmp_path / "predicates.edn"
    path.write_text(
        """
{:process 0, :type :invoke, :f :txn, :value [[:insert :x 1] [:rp :true nil]]}
{:process 1, :type :invoke, :f :txn, :value [[:insert :y 2] [:rp [:mod 2 0] nil]]}
{:process 0, :type :ok, :f :txn, :value [[:insert :x 1] [:rp :true {:x 1}]]}
{:process 1, :type :ok, :f :txn, :value [[:insert :y 2] [:rp [:mod 2 0] {}]]}
{:process 2, :type :invoke, :f :txn, :value [[:delete :z]]}
{:process 2, :type :fail, :f :txn, :value [[:delete :z]]}
"""
    )
    done = check("--workload", "closed-predicate", "--picture", str(tmp_path / "drawn.html"), str(path))
    page = html.unescape((tmp_path / "drawn.html").read_text())
    assert done.exit_code == 1
    assert "rp [mod 2 0] {}" in page
    assert "predicate-read-miss" in page


def test_a_valid_history_leaves_no_picture(history: str, tmp_path: Path) -> None:
    args = ("--workload", "list-append", "--consistency-model", "snapshot-isolation")
    done = check(*args, "--picture", str(tmp_path / "none.html"), history)
    assert done.exit_code == 0
    assert not (tmp_path / "none.html").exists()
