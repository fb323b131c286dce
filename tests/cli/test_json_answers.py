"""Every answer with --json has a schema in docs/json, and what commands really print is as that says."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from splitbrain.harness.cli.answers.catalogue import ANSWERS
from splitbrain.harness.cli.main import main, splitbrain
from tests.cli.support import ROOT, SPLITBRAIN, environment, start

SHAPES = {answer.name: answer.shape for answer in ANSWERS}
FOLDER = ROOT / "docs" / "json"
SIM = ("run", "--backend", "sim", "--nodes", "3", "--nemesis", "none", "--time-limit", "2")


def with_json(group: click.Group, before: str = "") -> Iterator[str]:
    """The names of all commands that take --json."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from with_json(found, f"{before}{name} ")
        elif found is not None and any("--json" in each.opts for each in found.params):
            yield f"{before}{name}"


def check(name: str, text: str) -> Any:
    """Hold an answer against its shape: nothing is missing, of another type, or unknown to it."""
    document = json.loads(text)
    assert json.loads(msgspec.json.encode(msgspec.json.decode(text, type=SHAPES[name]))) == document
    return document


class Asking:
    """Runs commands in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def lines(self, *words: str) -> str:
        """What a command prints with --json."""
        self._capsys.readouterr()
        with pytest.raises(SystemExit):
            main([*words, "--json"])
        printed = self._capsys.readouterr()
        assert printed.out, printed.err
        return printed.out

    def __call__(self, name: str, *words: str) -> Any:
        """The answer of a command, checked."""
        return check(name, self.lines(*words))


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Asking:
    monkeypatch.chdir(tmp_path)
    return Asking(capsys)


def test_every_command_with_json_has_a_schema_and_no_other() -> None:
    assert set(with_json(splitbrain)) == {answer.command for answer in ANSWERS}
    assert len(SHAPES) == len(ANSWERS)


def test_the_folder_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "schemas.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    names = {f"{answer.name}.{answer.format}.json" for answer in ANSWERS}
    assert names <= {path.name for path in FOLDER.iterdir()}


def test_fields_of_answers_are_described() -> None:
    for answer in ANSWERS:
        document = json.loads((FOLDER / f"{answer.name}.{answer.format}.json").read_text())
        assert document["title"] == f"splitbrain {answer.command} --json"
        top = document.get("$ref", document.get("items", {}).get("$ref", "")).rpartition("/")[2]
        for name, kind in document.get("$defs", {}).items():
            if name == top and "properties" in kind and name != "WrittenState":
                assert all("description" in each or "$ref" in each for each in kind["properties"].values()), name


def test_a_field_that_goes_needs_another_format() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        schemas: Any = importlib.import_module("schemas")
    finally:
        sys.path.pop(0)
    old: Any = {"$defs": {"A": {"properties": {"x": {"type": "string"}, "y": {"type": "integer"}}, "required": ["x"]}}}

    def losses(properties: Any, required: Sequence[str] = ("x",)) -> list[str]:
        return list(schemas.losses(old, {"$defs": {"A": {"properties": properties, "required": list(required)}}}))

    same = old["$defs"]["A"]["properties"]
    assert losses({**same, "z": {"type": "string"}}, ["x", "z"]) == []
    assert losses({**same, "x": {"type": "string", "description": "now with words"}}) == []
    assert losses({"x": same["x"]}) == ["A.y is gone"]
    assert losses({**same, "y": {"type": "string"}}) == ["A.y has another type"]
    assert losses(same, []) == ["A.x may be missing"]


def test_an_answer_with_a_field_that_its_schema_lacks_is_noticed() -> None:
    good = {"url": "http://127.0.0.1:1", "store": "store"}
    check("serve", json.dumps(good))
    for bad in ({**good, "more": 1}, {"url": "x"}, {**good, "store": 3}):
        with pytest.raises((AssertionError, msgspec.ValidationError)):
            check("serve", json.dumps(bad))


@pytest.mark.slow
def test_answers_about_runs(ask: Asking) -> None:
    for seed in ("1", "2"):
        ask("run", *SIM, "--seed", seed)
    first = str(next(Path("store").glob("test=*/run=*-1")))
    assert ask("replay-simulated", "replay", first, "--times", "2", "--keep")["same"] == 2
    assert ask("check", "check", first)[0]["valid"] is True
    Path("wrong.jsonl").write_text("{")
    assert "error" in ask("check", "check", "wrong.jsonl", first)[0]
    *runs, sums = ask.lines("analyze", "--again").splitlines()
    assert [check("analyze-run", each)["judged"] for each in runs] == [True] * 3
    assert check("analyze-sums", sums)["runs"] == 3
    for line in ask.lines("analyze", first).splitlines()[:1]:
        assert check("analyze-run", line)["unchanged_since"] is not None
    assert len(ask("report", "report", first)) == 1
    assert ask("compare", "compare", first, "latest")["runs_a"]


@pytest.mark.slow
def test_answers_about_violations(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("splitbrain.harness.campaigns.nightly.closer.SHRINK_S", 5.0)
    found = ask("hunt", "hunt", "--bug", "M96", "--workload", "counter", "--nemesis", "none", "--nodes", "3",
                "--time-limit", "8", "--seed", "1", "--jobs", "1", "--shrink-budget", "9")  # fmt: skip
    assert found["findings"]
    assert found["smaller"]["plan"]
    ask("shrink", "shrink", found["smaller"]["plan"], "--jobs", "1", "--budget", "9")
    ask("hunt", "hunt", "--runs", "1", "--no-canary", "--seed", "1", "--workload", "register", "--nemesis", "kill",
        "--nodes", "3", "--time-limit", "5", "--jobs", "1")  # fmt: skip
    Path("night.toml").write_text(
        'format = 1\nbudget = "60s"\nruns = 1\nreplays = 1\n[axes]\nworkload = "counter"\nnemesis = "none"\n'
        'bug = ["none", "M96"]\n[options]\nnodes = 3\ntime-limit = 8\n[seeds]\nfixed = [1]\nfresh = false\n'
    )
    night = ask("nightly", "nightly", "night.toml", "--jobs", "1")
    assert night["violations"]
    other = ask("nightly", "nightly", "night.toml", "--jobs", "1")["name"]
    assert ask("compare-nights", "compare", night["name"], other)


@pytest.mark.slow
def test_answers_about_stores_and_machines(ask: Asking, tmp_path: Path) -> None:
    ask("run", *SIM, "--seed", "1")
    ask("run", *SIM, "--seed", "2")
    address = f"file://{tmp_path}/there"
    Path("there").mkdir()
    assert {each["became"] for each in ask("push", "push", "--to", address)} == {"new"}
    assert len(ask("pull", "pull", "latest", "--from", address, "--store", "back")) == 1
    ask("compact", "compact", "--dry-run")
    ask("compact", "compact")
    assert len(ask("prune", "prune", "--keep", "1", "--dry-run")["removed"]) == 1
    ask("prune", "prune", "--keep", "1")
    ask("pack", "pack", "packed.tar.gz", "--only-ours")
    ask("clean", "clean", "--dry-run")
    ask("list", "list")
    ask("doctor", "doctor")


@pytest.mark.slow
def test_answer_of_the_site(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    site = start("serve", "--port", "0", "--json", cwd=tmp_path)
    try:
        assert site.stdout is not None
        assert check("serve", site.stdout.readline())["store"] == "store"
    finally:
        site.terminate()
        site.communicate(timeout=60)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.cluster
def test_answers_about_real_nodes(ask: Asking, tmp_path: Path) -> None:
    ask("run", "run", "--nodes", "1", "--nemesis", "none", "--time-limit", "1", "--rate", "20")
    ask("replay-real", "replay", "latest")

    def shell(*words: str) -> str:
        """Run a command in a process of its own: nodes that it starts live on."""
        done = subprocess.run(
            [sys.executable, *SPLITBRAIN, *words], env=environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def told(name: str, *words: str) -> None:
        check(name, shell(*words, "--json"))

    shell("cluster", "up", "--nodes", "3", "--spares", "1", "--base-port", "21731")
    try:
        ask("cluster-status", "cluster", "status")
        shell("cluster", "ctl", "put", "/a/b", "1")
        ctl = ("cluster", "ctl")
        told("cluster-ctl-status", *ctl, "status")
        told("cluster-ctl-list", *ctl, "list")
        told("cluster-ctl-snapshot", *ctl, "snapshot", "--node", "n1")
        told("cluster-ctl-checkpoint", *ctl, "checkpoint", "--node", "n1")
        ask("cluster-log", "cluster", "log", "metadata-cluster/n1")
        ask("cluster-state", "cluster", "state", "metadata-cluster/n1")
        told("cluster-ctl-members", *ctl, "members")
        told("cluster-ctl-add", *ctl, "add", "n4", "--role", "learner")
        told("cluster-ctl-remove", *ctl, "remove", "n4")
        told("cluster-ctl-join", *ctl, "join", "n4")
        told("cluster-ctl-reset", *ctl, "reset", "n4", "--yes")
        told("cluster-ctl-transfer", *ctl, "transfer", "n2")
        told("cluster-ctl-force-shrink", *ctl, "force-shrink", "--node", "n1", "--yes")
        ask("cluster-status", "cluster", "status")
    finally:
        shell("cluster", "down")
