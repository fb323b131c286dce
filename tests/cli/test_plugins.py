"""Parts of other packages are named like our own, or as module:attribute."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import ROOT, answer, lines, only_run, splitbrain

MINE = """
import dataclasses

from splitbrain.harness.backends.local import LocalBackend

from splitbrain.checkers.models import CasRegister
from splitbrain.checkers.stats import Stats
from splitbrain import Capabilities
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.workloads.register import register

class Counting(Stats):
    name = "counting"

class Cell(CasRegister):
    name = "cell"

class Own(Metadata):
    '''A cluster of our own.'''

    name = "own"
    bugs = {"W1": "loses a write"} | Metadata.bugs

class Here(LocalBackend):
    name = "here"

class Nowhere:
    name = "nowhere"

class Typo(Own):
    def __init__(self):
        super().__init__()
        self.capabilities = Capabilities(imune={})

class Immune(Own):
    def __init__(self):
        super().__init__()
        self.capabilities = Capabilities(immune={"killing": "it cannot die"})

def shop(nodes, rate, concurrency):
    '''Orders of many customers.

    More of it.
    '''
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
    (tmp_path / "exile.py").write_text((ROOT / "examples" / "own_nemesis.py").read_text())
    installed = tmp_path / "mine-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    groups = {"workloads": ("shop", "shop"), "systems": ("own", "Own"), "checkers": ("counting", "Counting")}
    groups["models"], groups["backends"] = ("cell", "Cell"), ("here", "Here")
    (installed / "entry_points.txt").write_text(
        "".join(f"[splitbrain.{group}]\n{name} = mine:{where}\n" for group, (name, where) in groups.items())
        + "[splitbrain.nemeses]\nexile = exile:EXILE\nexile-leader = exile:EXILE_LEADER\n"
    )
    return tmp_path


EXILED = ("--bug", "M23", "--backend", "sim", "--nodes", "3", "--time-limit", "15", "--seed", "3")


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "system"), [("mine:shop", "mine:Own"), ("shop", "own")])
def test_a_workload_and_a_system_are_run_and_replayed_like_our_own(folder: Path, workload: str, system: str) -> None:
    named = ("--workload", workload, "--system", system, "--bug", "M23")
    done = splitbrain("run", *named, *SHORT, cwd=folder)
    assert done.returncode == 1, done.stderr
    assert f"--workload {workload}" in done.stdout
    assert only_run(folder / "store").parent.name == "test=own-shop-partition-M23"
    assert splitbrain("replay", "latest", cwd=folder).returncode == 1


@pytest.mark.slow
def test_a_workload_and_a_system_are_shrunk_and_hunted_like_our_own(folder: Path) -> None:
    workload, system = "shop", "own"
    named = ("--workload", workload, "--system", system, "--bug", "M23")
    assert splitbrain("run", *named, *SHORT, cwd=folder).returncode == 1
    shrunk = splitbrain("shrink", "latest", "--budget", "5", "-o", "small.json", cwd=folder)
    assert shrunk.returncode == 1, shrunk.stderr
    assert splitbrain("replay", "small.json", cwd=folder).returncode == 1
    hunt = ("hunt", *named, "--nemesis", "partition", "--runs", "3", "--jobs", "1", "--no-shrink", "--json")
    hunted = splitbrain(*hunt, "--seed", "3", "--store", "hunted", cwd=folder)
    assert hunted.returncode in (0, 1, 2), hunted.stderr
    assert answer(hunted)["asked"]["workloads"] == [workload]
    assert answer(hunted)["seeds"], "nothing was tried"


@pytest.mark.slow
@pytest.mark.parametrize("nemesis", ["exile:EXILE", "exile"])
def test_a_nemesis_with_a_kind_of_fault_of_its_own_is_run_and_replayed(folder: Path, nemesis: str) -> None:
    done = splitbrain("run", "--nemesis", nemesis, *EXILED, cwd=folder)
    assert done.returncode == 1, done.stderr
    assert f"--nemesis {nemesis}" in done.stdout
    assert only_run(folder / "store").parent.name == "test=metadata-register-exile-M23"
    assert splitbrain("replay", "latest", cwd=folder).returncode == 1


@pytest.mark.slow
def test_a_nemesis_with_a_kind_of_fault_of_its_own_follows_a_schedule_and_is_shrunk_and_hunted(folder: Path) -> None:
    nemesis, bug = "exile:EXILE", EXILED
    assert splitbrain("run", "--nemesis", nemesis, *bug, cwd=folder).returncode == 1
    (folder / "of.schedule").write_text('[2, "exile", {"spec": "leader"}]\n[6, "return"]\n')
    scheduled = splitbrain(
        "run", "--schedule", "of.schedule", "--nemesis", nemesis, *bug, "--store", "scheduled", cwd=folder
    )
    assert scheduled.returncode == 1, scheduled.stderr
    assert splitbrain("replay", "latest", "--store", "scheduled", cwd=folder).returncode == 1
    shrunk = splitbrain("shrink", "latest", "--budget", "8", "-o", "small.json", cwd=folder)
    assert shrunk.returncode == 1, shrunk.stderr
    small = json.loads((folder / "small.json").read_text())
    assert small["options"]["nemesis"] == nemesis
    assert small["faults"][0]["f"] == "exile"
    assert splitbrain("replay", "small.json", cwd=folder).returncode == 1
    hunt = ("--nemesis", nemesis, "--bug", "M23", "--runs", "3", "--jobs", "1", "--no-shrink", "--seed", "3", "--json")
    hunted = splitbrain("hunt", *hunt, "--store", "hunted", cwd=folder)
    assert answer(hunted)["asked"]["nemeses"] == [nemesis]
    assert answer(hunted)["seeds"], "nothing was tried"
    compared = splitbrain("compare", f"nemesis={nemesis}", f"nemesis={nemesis}", cwd=folder)
    assert compared.returncode in (0, 254), compared.stderr


@pytest.mark.slow
def test_what_is_not_installed_any_more_is_said_and_its_runs_are_reported(folder: Path) -> None:
    short = ("--backend", "sim", "--nodes", "3", "--time-limit", "10", "--seed", "1")
    assert splitbrain("run", "--nemesis", "exile", *short, cwd=folder).returncode in (0, 2)
    report = only_run(folder / "store") / "report.html"
    report.unlink()
    (folder / "mine-1.0.dist-info" / "entry_points.txt").unlink()
    again = splitbrain("replay", "latest", cwd=folder)
    assert again.returncode == 254
    assert lines(again.stderr)[-1].startswith("splitbrain: there is no nemesis 'exile'. Known: ")
    assert splitbrain("report", "latest", cwd=folder).returncode == 0
    assert ">exile</text>" in report.read_text()


@pytest.mark.slow
@pytest.mark.cluster
def test_a_replay_after_a_change_of_the_users_own_code_names_that_code(folder: Path) -> None:
    short = [*SHORT, "--rate", "20"]
    done = splitbrain("run", "--workload", "mine:shop", "--system", "mine:Own", *short, cwd=folder)
    assert done.returncode in (0, 2), done.stderr
    unchanged = splitbrain("replay", "latest", cwd=folder)
    assert "the same history" in unchanged.stdout
    (folder / "mine.py").write_text(MINE.replace("rate=rate", "rate=rate / 2"))
    changed = splitbrain("replay", "latest", cwd=folder)
    assert "another history" in changed.stdout
    assert "code of mine" in changed.stdout
    assert changed.returncode == unchanged.returncode


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["mine:Here", "here"])
def test_a_backend_is_run_and_replayed_on_like_our_own(folder: Path, backend: str) -> None:
    short = ("--nemesis", "pause", "--nodes", "3", "--time-limit", "8", "--seed", "1")
    done = splitbrain("run", "--backend", backend, *short, cwd=folder)
    assert done.returncode in (0, 2), done.stderr
    assert f"--backend {backend}" in done.stdout
    run = only_run(folder / "store")
    assert json.loads((run / "test.json").read_text())["options"]["backend"] == backend
    replayed = splitbrain("replay", "latest", "--json", cwd=folder)
    assert replayed.returncode in (0, 2), replayed.stderr


BROUGHT = (
    ("workloads", "shop", "Orders of many customers (package mine, mine:shop)"),
    ("systems", "own", "A cluster of our own (package mine, mine:Own)"),
    ("checkers", "counting", " (package mine, mine:Counting)"),
    ("models", "cell", " (package mine, mine:Cell)"),
    ("nemeses", "exile", "cuts off the leader, and others, in turn (package mine, exile:EXILE)"),
    ("nemeses", "exile-leader", "cuts off the leader (package mine, exile:EXILE_LEADER)"),
    ("backends", "here", " (package mine, mine:Here)"),
)


def test_what_is_installed_is_listed(folder: Path) -> None:
    listed = answer(splitbrain("list", "--json", cwd=folder))
    for kind, name, line in BROUGHT:
        assert listed[kind][name].endswith(line)
    assert listed["bugs"]["own:W1"] == "loses a write"
    assert "metadata:M23" in listed["bugs"]
    assert "shop" not in answer(splitbrain("list", "--json", cwd=folder.parent))["workloads"]


def test_a_part_that_cannot_be_imported_is_listed_with_its_error(folder: Path) -> None:
    (folder / "mine.py").write_text("raise RuntimeError('no license')")
    listed = answer(splitbrain("list", "--json", cwd=folder))
    for kind, name in (("workloads", "shop"), ("systems", "own"), ("bugs", "own:")):
        assert "cannot be imported: RuntimeError: no license" in listed[kind][name]
    assert "metadata:M23" in listed["bugs"]


@pytest.mark.sampled(4)
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
        (["--nemesis", "mine:shp"], "nemesis 'mine:shp' cannot be imported: module 'mine' has no attribute 'shp'"),
        (["--nemesis", "exil"], "there is no nemesis 'exil'. Did you mean 'exile'?"),
        (["--nemesis", "mine:shop"], "it is neither a splitbrain.nemesis.kinds.Kind"),
        (["--backend", "mine:shp"], "backend 'mine:shp' cannot be imported"),
        (["--backend", "her"], "there is no backend 'her'. Did you mean 'here'?"),
        (["--backend", "mine:Nowhere"], "not a Backend: it has no support, check, sweep, deploy"),
        (["--backend", "mine:greedy"], "backend 'mine:greedy': missing a required argument: 'nodes'"),
        (
            ["--system", "mine:Typo"],
            "system 'mine:Typo' cannot be made: TypeError: Capabilities.__init__()",
        ),
        (
            ["--system", "mine:Immune"],
            "system 'own': capabilities.immune is {'killing': 'it cannot die'}; it must be",
        ),
    ],
)
def test_what_cannot_be_had_is_one_clear_line(folder: Path, arguments: list[str], says: str) -> None:
    given = {"--backend": "sim", "--nodes": "3", "--nemesis": "partition", "--workload": "register"}
    given |= dict(zip(arguments[::2], arguments[1::2], strict=True))
    done = splitbrain("run", *(word for option in given.items() for word in option), cwd=folder)
    assert done.returncode == 254, done.stderr
    assert says in done.stderr
    assert len(lines(done.stderr)) == 1


@pytest.mark.slow
def test_a_model_and_a_checker_are_found_by_their_installed_names(folder: Path) -> None:
    (folder / "history.jsonl").write_text(
        '{"process":0,"type":"invoke","f":"write","value":1}\n{"process":0,"type":"ok","f":"write","value":1}\n'
        '{"process":0,"type":"invoke","f":"read"}\n{"process":0,"type":"ok","f":"read","value":2}\n'
    )
    done = splitbrain("check", "--json", "--model", "cell", "history.jsonl", cwd=folder)
    assert done.returncode == 1, done.stderr
    counted = splitbrain("check", "--json", "--checker", "counting", "history.jsonl", cwd=folder)
    assert answer(counted)[0]["checker"] == "counting"
