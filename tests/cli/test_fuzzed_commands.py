"""Commands that read a damaged run end with an answer, or with an error in one line: never with a traceback."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from splitbrain.harness.cli.main import splitbrain
from splitbrain.results.errors import SplitbrainError
from tests.cli.fuzzed import Damaging, recorded, remove

SEEDS: Final = 4
"""Damages for each command."""


class Place:
    """Where a damaged copy of a run is.

    Attributes:
        store: the store of the copy.
        sound: the run that it is a copy of.
        aside: a folder for what a command writes.
    """

    def __init__(self, root: Path) -> None:
        self.sound = recorded(root, "register", 5)
        self._other = recorded(root, "set", 6)
        self.store, self.aside = root / "copies", root / "aside"
        self.run = self.store / self.sound.parent.name / self.sound.name

    def damaged(self, seed: int) -> str:
        """Make the copy anew and damage it; what was done."""
        remove(self.store)
        remove(self.aside)
        self.aside.mkdir()
        shutil.copytree(self.sound, self.run)
        return Damaging(self.run, self._other, random.Random(seed)).do()


COMMANDS: Final[Mapping[str, Callable[[Place], Sequence[object]]]] = {
    "check": lambda at: ["check", at.run],
    "compact": lambda at: ["compact", "--store", at.store],
    "compare": lambda at: ["compare", at.run, at.sound, "--json"],
    "export": lambda at: ["export", at.run, "-o", at.aside / "history.edn"],
    "manifest": lambda at: ["manifest", "--store", at.store],
    "prune": lambda at: ["prune", "--store", at.store, "--keep", "0"],
    "push": lambda at: ["push", "--store", at.store, "--to", f"file://{at.aside / 'pushed'}"],
    "replay": lambda at: ["replay", at.run],
    "report": lambda at: ["report", at.run],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("fuzzed"))
    yield made
    remove(made.store)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_damaged_run_ends_no_command_with_a_traceback(
    place: Place, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed in range(SEEDS):
        what = place.damaged(SEEDS * sorted(COMMANDS).index(command) + seed)
        done = CliRunner().invoke(splitbrain, [str(word) for word in COMMANDS[command](place)])
        error = done.exception
        assert error is None or isinstance(error, SystemExit | SplitbrainError), (seed, what, error)
        assert "Traceback" not in done.output, (seed, what)
        assert "\n" not in str(error), (seed, what)
