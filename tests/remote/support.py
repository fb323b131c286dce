"""Stores to push, and the commands of the command line on what was pushed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from splitbrain.harness.cli.main import splitbrain as command
from splitbrain.results.errors import SplitbrainError
from splitbrain.results.remote.runs import RemoteRun, RemoteStore
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.spark.support import REGISTER, SET, crashed, register_history, set_history, stored


def lay(root: Path) -> list[RunDir]:
    """Runs of all kinds: two that pass, one that lost an element, one whose controller was killed, a stale register."""
    store = Store(root)
    return [
        stored(store, "set", 1, set_history(20), SET),
        stored(store, "set", 2, set_history(20, lost=[7]), SET),
        crashed(store, "set", 3, set_history(20), SET),
        stored(store, "register", 4, register_history(4, 3, 20), REGISTER),
        stored(store, "register", 5, register_history(5, 3, 20, stale=[1]), REGISTER),
    ]


def run(*arguments: str) -> Result:
    """A command that works, whatever it finds."""
    done = CliRunner().invoke(command, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), (done.exception, done.output)
    return done


def refused(*arguments: str) -> SplitbrainError:
    """The error of a command."""
    done = CliRunner().invoke(command, arguments)
    assert isinstance(done.exception, SplitbrainError), (done.exception, done.output)
    return done.exception


def push(root: Path, address: str, *more: str) -> Mapping[str, str]:
    """What became of each run, by its name where it was recorded."""
    done = run("push", "--store", str(root), "--to", address, "--json", *more)
    return {Path(each["run"]).name.removeprefix("run="): each["became"] for each in json.loads(done.stdout)}


def analyze(address: str, *more: str) -> list[dict[str, Any]]:
    """The answer of an analysis, without what it took."""
    lines = run("analyze", "--engine", "inline", "--json", "--store", address, *more).stdout.splitlines()
    *runs, sums = map(json.loads, lines)
    assert (sums["kind"], sums["runs"]) == ("sums", len(runs))
    return runs


def judged(address: str, *more: str) -> list[str]:
    """Names of the runs that an analysis judged."""
    return [each["run"].rpartition("run=")[2] for each in analyze(address, *more) if each["judged"]]


def listed(address: str) -> list[RemoteRun]:
    """The runs of a store, as they are seen now."""
    return RemoteStore(address).runs()


def timeless(found: Any) -> Any:
    """JSON without the seconds that something took."""
    if isinstance(found, dict):
        return {key: timeless(value) for key, value in found.items() if "seconds" not in str(key)}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(found, list):
        return [timeless(each) for each in found]  # pyright: ignore[reportUnknownVariableType]
    return found
