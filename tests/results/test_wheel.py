"""What an installed splitbrain carries: one package, all files of a checkout, and the commit of those."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("harness", "nemesis", "workloads", "checkers", "results", "cluster", "docker")
MADE_HERE = {".nbi", ".nbc", ".pyc"}
"""Caches of this machine."""

WHAT_IT_KNOWS = """
import sys
from splitbrain.results import origin
import splitbrain.harness.cli.main
print(splitbrain.harness.cli.main.__file__)
print(origin.git_revision())
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of its own with one commit: what a wheel is built from."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in (*FOLDERS, "pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        source, target = ROOT / name, folder / name
        files = [source] if source.is_file() else [file for file in source.rglob("*") if file.is_file()]
        for file in files:
            if file.suffix not in MADE_HERE:
                to = target / file.relative_to(source) if source.is_dir() else target
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(file.read_bytes())
    shutil.copytree(ROOT / "splitbrain", folder / "splitbrain", symlinks=True, ignore=_caches)
    git(folder, "init", "-q")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "-m", "All")
    return folder


def _caches(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "__pycache__"]


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def built(sources: Path, target: Path) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=sources, capture_output=True, check=True)
    (wheel,) = target.glob("*.whl")
    return zipfile.ZipFile(wheel)


@pytest.mark.slow
def test_an_installed_wheel_names_its_commit_and_has_every_file(sources: Path, tmp_path: Path) -> None:
    with built(sources, tmp_path / "dist") as wheel:
        wheel.extractall(tmp_path / "installed")
    installed = {file.relative_to(tmp_path / "installed") for file in (tmp_path / "installed").rglob("*")}
    assert {file.parts[0] for file in installed if ".dist-info" not in file.parts[0]} == {"splitbrain"}
    kept = {file.relative_to(sources) for each in FOLDERS for file in (sources / each).rglob("*") if file.is_file()}
    assert not {Path("splitbrain", file) for file in kept} - installed
    assert Path("splitbrain/py.typed") in installed
    done = subprocess.run(
        [sys.executable, "-c", WHAT_IT_KNOWS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
        check=True,
    )
    where, revision = done.stdout.splitlines()
    assert where.startswith(str(tmp_path / "installed"))
    assert revision == str({"revision": git(sources, "rev-parse", "HEAD"), "dirty": False})


@pytest.mark.slow
def test_a_wheel_built_from_the_source_archive_has_the_same_files(sources: Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(build, cwd=sources, capture_output=True, check=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    with (
        built(sources, tmp_path / "one") as one,
        built(tmp_path / archive.name.removesuffix(".tar.gz"), tmp_path / "other") as other,
    ):
        assert set(one.namelist()) - set(other.namelist()) == {"splitbrain/results/revision.json"}


@pytest.mark.slow
def test_a_wheel_of_changed_sources_says_so(sources: Path, tmp_path: Path) -> None:
    readme = sources / "README.md"
    before = readme.read_bytes()
    readme.write_bytes(before + b"\n")
    try:
        with built(sources, tmp_path) as wheel:
            assert json.loads(wheel.read("splitbrain/results/revision.json"))["dirty"] is True
    finally:
        readme.write_bytes(before)
