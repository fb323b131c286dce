"""The jobs in examples/ci: files that their services read, and command lines that splitbrain reads."""

from __future__ import annotations

import configparser
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from splitbrain.harness.campaigns.nightly.matrix import load_matrix
from splitbrain.harness.cli.main import splitbrain
from splitbrain.results.baseline import Baseline

FOLDER = Path(__file__).parents[2] / "examples" / "ci"
GITHUB: Any = yaml.safe_load((FOLDER / "github.yml").read_text())
GITLAB: Any = yaml.safe_load((FOLDER / "gitlab.yml").read_text())
SCRIPT = (FOLDER / "nightly.sh").read_text()


def steps() -> list[dict[str, Any]]:
    return GITHUB["jobs"]["nightly"]["steps"]


def lines(name: str) -> Iterator[str]:
    """The lines of shell in a job."""
    if name == "github.yml":
        yield from (line for step in steps() for line in step.get("run", "").splitlines())
    elif name == "gitlab.yml":
        for part in ("before_script", "script", "after_script"):
            yield from GITLAB["nightly"][part]
    else:
        yield from SCRIPT.splitlines()


def commands(name: str) -> list[list[str]]:
    """The command lines of splitbrain in a job, without the program."""
    found: list[list[str]] = []
    for line in lines(name):
        words = shlex.split(line.partition(" > ")[0], comments=True)
        if "splitbrain" in words:
            found.append(words[words.index("splitbrain") + 1 :])
    return found


def parse(words: list[str]) -> click.Context:
    """The context of a command line; an option or argument that is wrong is an error."""
    with splitbrain.make_context("splitbrain", list(words)) as root:
        name, command, rest = splitbrain.resolve_command(root, list(words))
        assert command is not None
        return command.make_context(name, rest, parent=root)


@pytest.mark.parametrize("name", ["github.yml", "gitlab.yml", "nightly.sh"])
def test_every_command_line_is_one_of_ours(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = commands(name)
    nights = [parse(words).params for words in found if words[0] == "nightly"]
    assert [(night["matrix"], night["resume"], night["junit"]) for night in nights] == [
        ("nightly.toml", True, "junit.xml")
    ]
    for words in found:
        parse(words)


def test_an_option_that_does_not_exist_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(click.UsageError, match="No such option"):
        parse(["nightly", "nightly.toml", "--junitxml", "x"])


def test_the_matrix_and_the_baseline_are_read() -> None:
    matrix = load_matrix(FOLDER / "nightly.toml")
    assert len(matrix.cells) == 3 * 3 * 2 - 3
    assert matrix.baseline is not None
    assert len(Baseline.load(matrix.baseline).entries) == 1


def test_github_has_cache_artifacts_and_summary() -> None:
    assert set(GITHUB[True]) == {"schedule", "workflow_dispatch"}  # "on" is true in YAML 1.1
    uses = [step.get("uses", "").partition("@")[0] for step in steps()]
    restored, saved = (steps()[uses.index(f"actions/cache/{each}")] for each in ("restore", "save"))
    assert restored["with"]["path"] == saved["with"]["path"]
    assert restored["with"]["key"] == saved["with"]["key"]
    assert restored["with"]["key"].startswith(restored["with"]["restore-keys"])
    artifact = steps()[uses.index("actions/upload-artifact")]
    assert (saved["if"], artifact["if"]) == ("always()", "always()")
    assert "junit.xml" in artifact["with"]["path"]
    [night] = [words for words in commands("github.yml") if words[0] == "nightly"]
    assert night[night.index("--summary") + 1] == "$GITHUB_STEP_SUMMARY"


def test_gitlab_has_cache_artifacts_and_the_junit_report() -> None:
    job = GITLAB["nightly"]
    assert [path for cache in job["cache"] for path in cache["paths"]] == [".cache", "store"]
    assert job["artifacts"]["when"] == "always"
    [night] = [words for words in commands("gitlab.yml") if words[0] == "nightly"]
    assert night[night.index("--junit") + 1] == job["artifacts"]["reports"]["junit"]


def test_units_of_systemd_name_the_script() -> None:
    units: dict[str, configparser.ConfigParser] = {}
    for kind in ("service", "timer"):
        units[kind] = configparser.ConfigParser(interpolation=None)
        units[kind].read(FOLDER / f"splitbrain-nightly.{kind}")
    assert units["service"]["Service"]["ExecStart"].endswith("/nightly.sh")
    assert units["timer"]["Timer"]["OnCalendar"]


NIGHT = """#!/bin/sh
echo "$@" > asked
mkdir -p store/nights/1 && echo page > store/nights/1/night.html
echo details
[ -z "$SUMMARY" ] || echo "$SUMMARY" > summary.md
exit "$CODE"
"""


@pytest.mark.skipif(shutil.which("flock") is None, reason="there is no flock")
@pytest.mark.parametrize(
    ("code", "summary", "said"), [(0, "1 known", ""), (1, "1 new", "1 new\n"), (254, "", "details\n")]
)
def test_the_script_says_nothing_unless_there_is_something_new(
    tmp_path: Path, code: int, summary: str, said: str
) -> None:
    shutil.copy(FOLDER / "nightly.sh", tmp_path)
    program = tmp_path / ".venv" / "bin" / "splitbrain"
    program.parent.mkdir(parents=True)
    program.write_text(NIGHT)
    program.chmod(0o755)
    done = subprocess.run(
        [tmp_path / "nightly.sh"],
        env={**os.environ, "CODE": str(code), "SUMMARY": summary},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, said, "")
    assert (tmp_path / "latest.html").read_text() == "page\n"
    assert (tmp_path / "asked").read_text().startswith("nightly nightly.toml --resume")
