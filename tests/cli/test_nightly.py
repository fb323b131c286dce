"""`splitbrain nightly`: killed and resumed without repeating a run; new, known and strict; errors of deployment."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from splitbrain.harness.campaigns.nightly.journal import FILE, read
from splitbrain.results import runfigures
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.nights import Began, Ran
from tests.cli.support import answer, environment, splitbrain, start

pytestmark = pytest.mark.slow

QUICK = '[options]\nnodes = "3"\nrate = 20\ntime-limit = 3\ninterval = 1\n'


def _matrix(folder: Path, axes: str, top: str = "") -> None:
    (folder / "night.toml").write_text(f'budget = "10m"\nshrink = false\n{top}\n[axes]\n{axes}\n{QUICK}')


def _ran(folder: Path) -> list[Ran]:
    """The runs in the journal of the latest night; none while there is none."""
    found = sorted(folder.glob(f"store/nights/*/{FILE}"))
    try:
        return [entry for entry in read(found[-1]) if isinstance(entry, Ran)] if found else []
    except (HistoryFormatError, ValueError):  # a line is being written
        return []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_night_that_is_ended_half_way_is_resumed_without_repeating_a_run(tmp_path: Path, how: signal.Signals) -> None:
    _matrix(tmp_path, 'workload = ["register", "set"]\nnemesis = "kill"', "runs = 5\nreplays = 0")
    night = start("nightly", "night.toml", "--jobs", "1", cwd=tmp_path)
    while len(_ran(tmp_path)) < 3:
        assert night.poll() is None
        time.sleep(0.02)
    night.send_signal(how)
    night.communicate(timeout=60)
    half = _ran(tmp_path)
    assert 3 <= len(half) < 10
    answers = list(tmp_path.glob("store/nights/*/night.json"))
    assert [json.loads(path.read_bytes())["ended_by"] for path in answers] == ["interrupt"] * (how is signal.SIGINT)

    done = splitbrain("nightly", "night.toml", "--jobs", "1", "--resume", "--json", cwd=tmp_path)
    found = answer(done)
    [folder] = tmp_path.glob("store/nights/*")
    entries = read(folder / FILE)
    runs = [entry for entry in entries if isinstance(entry, Ran)]
    assert runs[: len(half)] == half
    assert len({(run.cell, run.seed) for run in runs}) == len(runs) == 10
    assert set(Counter(run.cell for run in runs).values()) == {5}
    assert sum(isinstance(entry, Began) for entry in entries) == 1
    assert (found["ended_by"], found["name"]) == ("runs", folder.name)
    assert sum(found["outcomes"].values()) == 10
    assert found["elapsed_s"] >= half[-1].elapsed_s
    assert done.returncode == found["exit_code"]
    table = runfigures.read(tmp_path / "store" / runfigures.FOLDER / f"{folder.name}.parquet").to_pylist()
    assert [(row["cell"], row["seed"]) for row in table] == [(run.cell, run.seed) for run in runs]
    assert all(row["night"] == folder.name and row["ops"] > 0 and row["sim_s_per_cpu_s"] > 0 for row in table)
    assert found["trends"]["nights"] == 0
    splitbrain("nightly", "night.toml", "--resume", "--budget", "0.000001s", "--jobs", "1", cwd=tmp_path)
    assert len(list(tmp_path.glob("store/nights/*"))) == 2, "one that came to its end is not continued"


def test_what_is_new_fails_the_night_what_is_known_does_not_unless_it_is_strict(tmp_path: Path) -> None:
    axes = 'workload = "register"\nnemesis = "partition-leader"\nbug = ["M23", "none"]'
    _matrix(tmp_path, axes, "runs = 1\nreplays = 1")
    more = ["--jobs", "1", "--junit", "out/junit.xml", "--summary", "out/summary.md", "--seed", "1"]
    done = splitbrain("nightly", "night.toml", *more, "--json", cwd=tmp_path)
    found = answer(done)
    assert (done.returncode, found["outcome"], found["format"]) == (1, "violation", 1)
    [violation] = found["violations"]
    assert violation["classification"] == "new"
    assert violation["cell"] == "register/partition-leader/metadata/default/sim/M23"
    assert (violation["replays"], violation["seen"], violation["problem"]) == (1, 1, None)
    assert (tmp_path / violation["report"]).exists()
    suites = ET.parse(tmp_path / "out/junit.xml").getroot()
    assert (suites.get("tests"), suites.get("failures")) == ("2", "1")
    assert "1 new, 0 flaky, 0 known" in (tmp_path / "out/summary.md").read_text()
    assert found["not_reached"]["marks"]
    assert found["not_reached"]["cells"] == []

    entry = violation["baseline_entry"].replace('issue = ""', 'issue = "#1"').replace('owner = ""', 'owner = "ann"')
    (tmp_path / "known.toml").write_text(entry)
    for strict, code, failures in (([], 0, "0"), (["--strict"], 1, "1")):
        done = splitbrain("nightly", "night.toml", "--baseline", "known.toml", *strict, *more, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        assert f"known: {violation['signatures'][0]}" in done.stdout
        assert ET.parse(tmp_path / "out/junit.xml").getroot().get("failures") == failures
    first = next(run for run in _ran(tmp_path) if run.cell == violation["cell"])
    assert (first.seed, first.why) == (violation["seed"], "failed")


def test_cells_that_got_no_run_are_listed_and_come_first_in_the_next_night(tmp_path: Path) -> None:
    _matrix(tmp_path, 'workload = ["register", "set"]\nnemesis = "kill"', "runs = 1\nreplays = 0")
    done = splitbrain("nightly", "night.toml", "--budget", "0.000001s", "--jobs", "1", "--json", cwd=tmp_path)
    assert done.returncode == 2
    cells = ["register/kill/metadata/default/sim/none", "set/kill/metadata/default/sim/none"]
    assert answer(done)["not_reached"]["cells"] == cells
    _matrix(tmp_path, 'workload = ["bank", "register", "set"]\nnemesis = "kill"', "runs = 1\nreplays = 0")
    splitbrain("nightly", "night.toml", "--jobs", "1", cwd=tmp_path)
    assert [run.cell.partition("/")[0] for run in _ran(tmp_path)] == ["register", "set", "bank"]


def test_a_system_that_cannot_be_deployed_is_an_error_and_its_cell_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert environment()["DOCKER_HOST"].endswith("none.sock")
    _matrix(tmp_path, 'workload = "register"\nnemesis = "kill"\nbackend = ["docker", "sim"]', "runs = 9\nreplays = 0")
    done = splitbrain("nightly", "night.toml", "--jobs", "1", "--json", cwd=tmp_path)
    found: Any = answer(done)
    assert (done.returncode, found["outcome"]) == (255, "harness error")
    assert [each["error_kind"] for each in found["errors"]] == ["deploy", "deploy"]
    [folder] = tmp_path.glob("store/nights/*")
    errors = list(ET.parse(folder / "junit.xml").getroot().iter("error"))
    assert [each.get("type") for each in errors] == ["deploy", "deploy"]
    assert {cell["backend"]: sum(cell["outcomes"].values()) for cell in found["cells"]} == {"docker": 2, "sim": 9}
