"""`splitbrain new` writes packages that work: their own tests pass, and their parts are named like ours."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from splitbrain.harness.campaigns.starters import KINDS
from splitbrain.harness.cli.new import KINDS as OFFERED
from tests.cli.support import ROOT, answer, splitbrain


def made(folder: Path, kind: str) -> Path:
    done = splitbrain("new", kind, "my-part", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "my-part"


def own_tests(package: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True, check=False)


def test_all_kinds_are_offered() -> None:
    assert set(KINDS) == set(OFFERED)


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_tests_of_a_package_pass(tmp_path: Path, kind: str) -> None:
    tested = own_tests(made(tmp_path, kind))
    assert tested.returncode == 0, tested.stdout


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_nothing_of_the_starter_is_left_in_a_package(tmp_path: Path, kind: str) -> None:
    for path in made(tmp_path, kind).rglob("*"):
        if path.is_file():
            assert "starter" not in path.read_text().lower(), path
            if path.suffix == ".py":
                compile(path.read_text(), str(path), "exec")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "option", "location"),
    [
        ("workload", "--workload", "my_part.workload:my_part"),
        ("nemesis", "--nemesis", "my_part.nemesis:MY_PART"),
        ("system", "--system", "my_part.system:MyPart"),
    ],
)
def test_a_part_is_run_by_the_name_of_its_entry_point(tmp_path: Path, kind: str, option: str, location: str) -> None:
    package = made(tmp_path, kind)
    assert f'my-part = "{location}"' in (package / "pyproject.toml").read_text()
    named = (option, location) if kind == "nemesis" else (option, location, "--nemesis", "kill")
    short = ("--backend", "sim", "--time-limit", "20", "--seed", "1", "--json")
    assert answer(splitbrain("run", *named, *short, cwd=package))["outcome"] in ("pass", "inconclusive")


def test_a_part_is_added_to_a_package_that_was_written_before(tmp_path: Path) -> None:
    package = made(tmp_path, "system")
    before = {path: path.read_text() for path in package.rglob("*") if path.is_file()}
    for kind in sorted(set(KINDS) - {"system"}):
        made(tmp_path, kind)
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    assert {group: list(names) for group, names in project["entry-points"].items()} == {
        group: ["my-part"] for _, group, _ in KINDS.values()
    }
    assert {path.name for path in (package / "tests").iterdir()} == {
        "test_my_part.py",
        *(f"test_my_part_{kind}.py" for kind in KINDS if kind != "system"),
    }
    for path, text in before.items():
        assert path.name == "pyproject.toml" or path.read_text() == text
    again = splitbrain("new", "system", "my-part", cwd=tmp_path)
    assert again.returncode == 254
    assert "this package has a system" in again.stderr


def test_a_package_is_typed(tmp_path: Path) -> None:
    assert (made(tmp_path, "model") / "my_part" / "py.typed").read_text() == ""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("workload", "Shop"), "'Shop' cannot be the name of a package"),
        (("workload", "class"), "'class' cannot be the name of a package"),
        (("workload", "tests"), "'tests' cannot be the name of a package"),
        (("workload", "../shop"), "'../shop' cannot be the name of a package"),
        (("workload", "json"), "there is a Python module json already"),
        (("workload", "pytest"), "there is a Python module pytest already"),
        (("workload", "splitbrain"), "'splitbrain' cannot be the name of a package"),
        (("workload", "register"), "splitbrain has a workload 'register' itself, which would hide yours"),
        (("nemesis", "partition-ring"), "splitbrain has a nemesis 'partition-ring' itself"),
        (("nemesis", "leave"), "splitbrain has a nemesis 'leave' itself"),
        (("system", "etcd"), "splitbrain has a system 'etcd' itself"),
        (("model", "cas-register"), "splitbrain has a model 'cas-register' itself"),
        (("checker", "stats"), "splitbrain has a checker 'stats' itself"),
        (("workload", "there"), "there is there already, and is not a package that `splitbrain new` wrote"),
        (("workload", "shop", "--into", "file"), "Give another --into"),
        (("backend", "shop"), "'backend' is not one of"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("")
    done = splitbrain("new", *arguments, cwd=tmp_path)
    assert done.returncode == 254
    assert says in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "there"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "test",
    [
        "--workload records --nemesis none --world slow-disks --rate 20 --concurrency 30n --op-timeout 5",
        "--workload register --nemesis disk --rate 50",
    ],
    ids=["slow-disks", "disk"],
)
def test_the_system_of_a_package_is_right_where_hunts_look(tmp_path: Path, test: str) -> None:
    """A hunt is what `new` suggests: what it draws must not convict a server that has only been copied."""
    command = "run --system splitbrain.harness.campaigns.starters.system:Starter --backend sim --nodes 3 --seed 1"
    done = splitbrain(*command.split(), "--time-limit", "60", *test.split(), "--json", cwd=tmp_path)
    assert answer(done)["outcome"] in ("pass", "inconclusive"), done.stdout
