"""A cluster whose Python has no package at all: what `analyze` says there, and that the packed archive is enough."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

from splitbrain.checkers.isolation.limits import DEFAULT
from splitbrain.checkers.spark.packing import FOLDER, pack
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.campaigns import many
from splitbrain.results.errors import UsageError
from splitbrain.results.store import Store
from tests.cli.support import OWN, ROOT, SPLITBRAIN, analyzed

from .standalone import LOOPBACK, standalone_cluster
from .support import SET, set_history, stored


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command as it is typed in `folder`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": LOOPBACK}
    return subprocess.run(
        [sys.executable, *SPLITBRAIN, *words], env=environment, capture_output=True, text=True, check=False, cwd=folder
    )


@pytest.mark.spark
@pytest.mark.slow
def test_executors_without_packages_are_named_and_the_packed_archive_is_all_they_need(tmp_path: Path) -> None:
    (tmp_path / "own_checkers.py").write_text(OWN)
    store = Store(tmp_path / "store")
    stored(store, "fine", 1, set_history(20), [*SET, CheckerSpec("own_checkers:Mine")])
    stored(store, "lost", 2, set_history(20, lost=[7]), SET)
    bare = tmp_path / "bare"
    venv.create(bare, with_pip=False, symlinks=True)
    daemons = tmp_path / "daemons"
    daemons.mkdir()
    with standalone_cluster(daemons, workers=1, bare=True) as master:
        given = ["analyze", "--json", "--master", master, "--conf", f"spark.pyspark.python={bare / 'bin' / 'python'}"]
        lacking = command(tmp_path, *given)
        assert lacking.returncode == 255, lacking.stderr
        assert "executors cannot import" in lacking.stderr
        assert "splitbrain pack OUT.tar.gz" in lacking.stderr
        assert "Traceback" not in lacking.stderr

        packed = command(tmp_path, "pack", "packed.tar.gz", "--module", "own_checkers")
        assert packed.returncode == 0, packed.stderr
        printed = shlex.split(packed.stdout.splitlines()[-1])
        assert printed[:2] == ["splitbrain", "analyze"]
        done = command(tmp_path, *given, *printed[4:])
    assert done.returncode == 1, done.stderr
    found = {Path(each["run"]).parent.name: each for each in analyzed(done.stdout)}
    assert {name: each["outcome"] for name, each in found.items()} == {"test=fine": "pass", "test=lost": "violation"}
    assert found["test=fine"]["verdicts"][-1]["sentence"] == "FIRST"
    assert all(many.unchanged(run, DEFAULT) for run in store.runs() if "fine" not in run.test_name)


def test_an_archive_has_ours_and_what_was_named_and_no_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_to_pack.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    packed = pack(tmp_path / "ours.tar.gz", ["module_to_pack"], only_ours=True)
    with tarfile.open(packed.path) as archive:
        names = archive.getnames()
    assert {"splitbrain/__init__.py", "splitbrain/checkers/engine.py", "module_to_pack.py"} <= {*names}
    assert not [name for name in names if "__pycache__" in name or not name.startswith(("splitbrain/", "module_"))]
    assert packed.properties["spark.archives"] == f"{tmp_path / 'ours.tar.gz'}#{FOLDER}"


def test_what_cannot_be_packed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ends in \.tar\.gz"):
        pack(tmp_path / "ours.zip")
    with pytest.raises(UsageError, match="no module of this name"):
        pack(tmp_path / "ours.tar.gz", ["no_such_module_at_all"])
    assert list(tmp_path.iterdir()) == []
