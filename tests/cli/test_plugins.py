"""Workloads, systems, checkers and models of other packages are named like our own, or as module:attribute."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import answer, lines, only_run, splitbrain

MINE = """
import dataclasses

from splitbrain.checkers.models import CasRegister
from splitbrain.checkers.stats import Stats
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.workloads.register import register

class Counting(Stats):
    name = "counting"

class Cell(CasRegister):
    name = "cell"

class Own(Metadata):
    name = "own"

def shop(nodes, rate, concurrency):
    made = register(nodes=nodes, rate=rate, concurrency=concurrency)
    return dataclasses.replace(made, name="shop")

def greedy(nodes, money):
    return None

def nothing():
    return None
"""

SHORT = ("--backend", "sim", "--nodes", "3", "--time-limit", "15", "--seed", "3", "--nemesis", "partition")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a module of the user's own, which is installed with entry points, too."""
    (tmp_path / "mine.py").write_text(MINE)
    installed = tmp_path / "mine-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    groups = {"workloads": ("shop", "shop"), "systems": ("own", "Own"), "checkers": ("counting", "Counting")}
    groups["models"] = ("cell", "Cell")
    (installed / "entry_points.txt").write_text(
        "".join(f"[splitbrain.{group}]\n{name} = mine:{where}\n" for group, (name, where) in groups.items())
    )
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "system"), [("mine:shop", "mine:Own"), ("shop", "own")])
def test_a_workload_and_a_system_are_run_replayed_and_hunted_like_our_own(
    folder: Path, workload: str, system: str
) -> None:
    named = ("--workload", workload, "--system", system, "--bug", "M23")
    done = splitbrain("run", *named, *SHORT, cwd=folder)
    assert done.returncode == 1, done.stderr
    assert f"--workload {workload}" in done.stdout
    name = f"test={system.rpartition(':')[2]}-shop-partition-M23"
    assert only_run(folder / "store").parent.name == name
    assert splitbrain("replay", "latest", cwd=folder).returncode == 1
    shrunk = splitbrain("shrink", "latest", "--budget", "20", "-o", "small.json", cwd=folder)
    assert shrunk.returncode == 1, shrunk.stderr
    assert splitbrain("replay", "small.json", cwd=folder).returncode == 1
    hunt = ("hunt", *named, "--nemesis", "partition", "--runs", "3", "--jobs", "1", "--no-shrink", "--json")
    hunted = splitbrain(*hunt, "--seed", "3", "--store", "hunted", cwd=folder)
    assert hunted.returncode in (0, 1, 2), hunted.stderr
    assert answer(hunted)["asked"]["workloads"] == [workload]
    assert answer(hunted)["seeds"], "nothing was tried"


def test_what_is_installed_is_listed(folder: Path) -> None:
    listed = answer(splitbrain("list", "--json", cwd=folder))
    for kind, name in (("workloads", "shop"), ("systems", "own"), ("checkers", "counting"), ("models", "cell")):
        assert "another package" in listed[kind][name]
    assert "shop" not in answer(splitbrain("list", "--json", cwd=folder.parent))["workloads"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--workload", "mine:shp"], "workload 'mine:shp' cannot be imported: module 'mine' has no attribute 'shp'"),
        (["--workload", "mone:shop"], "workload 'mone:shop' cannot be imported: No module named 'mone'"),
        (["--workload", ":shop"], "workload ':shop' cannot be imported"),
        (["--workload", "mine:greedy"], "workload 'mine:greedy': missing a required argument: 'money'"),
        (["--workload", "mine:nothing"], "workload 'mine:nothing' made None, not a Workload"),
        (["--workload", "mine:MINE"], "'mine:MINE' cannot be imported"),
        (["--workload", "shp"], "there is no workload 'shp'. Did you mean 'shop'?"),
        (["--system", "mine:shp"], "system 'mine:shp' cannot be imported"),
    ],
)
def test_what_cannot_be_had_is_one_clear_line(folder: Path, arguments: list[str], says: str) -> None:
    named = arguments if "--workload" in arguments else ["--workload", "register", *arguments]
    done = splitbrain("run", *named, *SHORT, cwd=folder)
    assert done.returncode == 254, done.stderr
    assert says in done.stderr
    assert len(lines(done.stderr)) == 1


def test_a_model_and_a_checker_are_found_by_their_installed_names(folder: Path) -> None:
    (folder / "history.jsonl").write_text(
        '{"process":0,"type":"invoke","f":"write","value":1}\n{"process":0,"type":"ok","f":"write","value":1}\n'
        '{"process":0,"type":"invoke","f":"read"}\n{"process":0,"type":"ok","f":"read","value":2}\n'
    )
    done = splitbrain("check", "--json", "--model", "cell", "history.jsonl", cwd=folder)
    assert done.returncode == 1, done.stderr
    counted = splitbrain("check", "--json", "--checker", "counting", "history.jsonl", cwd=folder)
    assert answer(counted)[0]["checker"] == "counting"
