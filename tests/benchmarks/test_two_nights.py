"""The two nights have the cells that they say, and the bugs of their system are those that its names stand for."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks import two_nights
from benchmarks.two_nights import FIRST, SECOND, change, checked, classes, write
from splitbrain.harness.campaigns.nightly.matrix import load_matrix
from splitbrain.harness.contract.nodes import NodeCommand
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.results.baseline import Baseline
from splitbrain.results.nights import Ran
from tests.results.nightsupport import night_document


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the files of the first night; its module can be imported, until the test is over."""
    write(tmp_path, "30m", ["sim", "local", "docker"])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setitem(sys.modules, "shop", None)  # so that it is forgotten again, whatever imports it meanwhile
    del sys.modules["shop"]
    return tmp_path


def _cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The system of the module as it stands there now."""
    monkeypatch.setitem(sys.modules, "shop", None)
    names: dict[str, Any] = {"__file__": str(folder / "shop.py"), "__name__": "shop"}
    exec((folder / "shop.py").read_text(), names)
    return names["Cluster"]


def _bugs(cluster: Any, monkeypatch: pytest.MonkeyPatch, *bugs: str) -> tuple[str, str]:
    """What a node is started with: its bugs, and its election timeout."""

    def started(*_: Any) -> NodeCommand:
        return NodeCommand(("python", *(("--bugs", ",".join(bugs)) if bugs else ())))

    monkeypatch.setattr(Metadata, "command", started)
    argv = cluster.command(None, None).argv
    return (argv[argv.index("--bugs") + 1] if "--bugs" in argv else "", argv[argv.index("--election-ms") + 1])


def test_the_matrix_has_the_cells_that_are_wanted(folder: Path) -> None:
    cells = load_matrix(folder / "MATRIX.toml").cells
    plain = [cell for cell in cells if cell.bug == "none"]
    assert Counter(cell.backend for cell in plain) == {"sim": 30, "local": 5, "docker": 4}
    assert Counter(cell.system for cell in cells if cell.backend == "docker") == {"shop:Cluster": 2, "etcd": 2}
    assert {(cell.backend, cell.bug) for cell in cells if cell.bug != "none"} == {
        ("sim", "eager-reads"),
        ("sim", "hasty-acks"),
        ("sim", "old-friend"),
        ("sim", "forgetful"),
        ("local", "coin"),
    }
    assert len(cells) == 34 + 6 + 4
    assert Baseline.load(folder / "known.toml").entries[0].owner == "ann"


def test_names_stand_for_bugs_and_the_second_night_has_another_cluster(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = _cluster(folder, monkeypatch)
    assert _bugs(cluster(), monkeypatch, "eager-reads") == ("M23", "500")
    assert _bugs(cluster(), monkeypatch, "forgetful") == ("", "500")
    assert _bugs(cluster(), monkeypatch) == ("", "500")
    change(folder, SECOND, 600)
    cluster = _cluster(folder, monkeypatch)
    assert _bugs(cluster(), monkeypatch, "eager-reads") == ("", "600")
    assert _bugs(cluster(), monkeypatch, "forgetful") == ("M15", "600")


def test_a_coin_shows_in_some_deployments_on_all_of_their_nodes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = _cluster(folder, monkeypatch)
    tosses = iter([b"\x00", b"\xff", b"\x7f"])

    def tossed(_: int) -> bytes:
        return next(tosses)

    monkeypatch.setattr(os, "urandom", tossed)
    found = [[_bugs(cluster, monkeypatch, "coin")[0] for _ in range(3)] for cluster in (kind() for _ in range(3))]
    assert found == [[FIRST["coin"]] * 3, [""] * 3, [FIRST["coin"]] * 3]


def test_what_is_not_so_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    run = Ran(cell="a/b/c/d/sim/none", seed=1, why="fresh", outcome="pass", command="c")
    night = msgspec.structs.replace(night_document("n", []), elapsed_s=9.0, budget_s=10.0)
    found = {words: is_so for words, is_so, _ in checked(night, [run, run], 1)}
    assert found["no run was done again after kill -9"] is False
    assert found["within the budget"] is True
    assert found["eager-reads is new"] is False
    assert classes(night) == {}
    assert not two_nights.show("title", iter([("it is so", False, "")]))
    assert "NO   it is so: -" in capsys.readouterr().out
