"""A folder or a file whose name is not UTF-8 costs no other run anything, and is named in one line."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from tests.cli.support import analyzed, splitbrain
from tests.remote.support import lay

NO_TEXT = os.fsdecode(b"caf\xe9")


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Path:
    """Runs of two tests, one of them under a name that is not UTF-8."""
    runs = lay(tmp_path / "store")
    shutil.copytree(runs[0].path.parent, tmp_path / "store" / f"test={NO_TEXT}")
    return tmp_path / "store"


@pytest.mark.slow
def test_a_store_is_judged_and_pushed_but_for_the_runs_of_such_a_folder(store: Path) -> None:
    done = splitbrain("analyze", "--store", str(store), "--json", "--pages", "all")
    found = analyzed(done.stdout)
    assert (done.returncode, [each["outcome"] for each in found].count("violation")) == (1, 2)
    broken = [each for each in found if each["outcome"] == "harness error"]
    assert {each["test"] for each in broken} == {r"caf\udce9"}
    assert "a bug of splitbrain" not in done.stderr
    assert all("UTF-8" in each["harness_error"] for each in broken)
    sound = len(found) - len(broken)

    done = splitbrain("push", "--store", str(store), "--to", f"file://{store.parent}/there", "--json")
    assert (done.returncode, len(msgspec.json.decode(done.stdout))) == (255, sound)
    assert "a bug of splitbrain" not in done.stderr
    assert done.stderr.count("is not UTF-8. Rename that") == len(broken)


@pytest.mark.parametrize("arguments", [["run", "--backend", "sim", "--nodes", "1"], ["manifest"], ["analyze"]])
def test_a_store_with_such_a_name_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    """Its path would stand in the files that are written."""
    store = tmp_path / NO_TEXT / "store"
    store.mkdir(parents=True)
    done = splitbrain(*arguments, "--store", str(store))
    assert (done.returncode, done.stderr.count("\n")) == (254, 1)
    assert "is not UTF-8. Rename that, or choose another." in done.stderr
    assert not list(store.iterdir())


@pytest.mark.slow
def test_a_node_may_leave_a_file_with_such_a_name_but_it_is_not_pushed(tmp_path: Path) -> None:
    run = lay(tmp_path / "store")[0]
    left = run.path / "nodes" / NO_TEXT
    left.parent.mkdir(exist_ok=True)
    left.write_text("found")
    done = splitbrain("report", str(run.path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "nodes/caf%E9" in (run.path / "report.html").read_text()
    done = splitbrain("push", str(run.path), "--to", f"file://{tmp_path}/there")
    assert (done.returncode, "is not UTF-8. Rename that" in done.stderr) == (254, True)
