"""The bound on the store: runs of nights that did not fail go, the oldest first; nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbrain.harness.campaigns.nightly import disk
from splitbrain.harness.campaigns.nightly.journal import FILE, Journal
from splitbrain.results import nights, pruning
from splitbrain.results.nights import Ran, Replayed
from splitbrain.results.pruning import Candidate
from splitbrain.results.store import Store

NAMES = {letter: f"2026050{number}T000000.000Z-1" for number, letter in enumerate("abcdefgh", 1)}
OUTCOMES = {
    "a": "violation",
    "b": None,
    "c": "pass",
    "d": "pass",
    "e": "pass",
    "f": "inconclusive",
    "g": "pass",
    "h": "pass",
}
OTHERS = "c"
"""Runs that no night began."""
REPLAYS = "ah"
"""Runs that repeat a violation."""
REFERRED = "d"
"""Runs that a note in the store names."""


def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> list[str]:
    """A store with a run for each letter, 100 bytes each; the letters of those that are removed, in order."""
    paths = {letter: tmp_path / "test=t" / f"run={name}" for letter, name in NAMES.items()}
    (tmp_path / "notes.md").write_text(NAMES[REFERRED])
    with Journal(tmp_path / nights.FOLDER / "1" / FILE) as journal:
        for letter in set(NAMES) - set(OTHERS):
            run, outcome = str(paths[letter]), OUTCOMES[letter] or "pass"
            if letter in REPLAYS:
                journal.append(Replayed(cell="c", seed=1, seen=outcome == "violation", run=run))
            else:
                journal.append(Ran(cell="c", seed=1, why="fresh", outcome=outcome, command="c", run=run))
    found = [Candidate(str(paths[letter]), "t", OUTCOMES[letter], 0.0, 100) for letter in NAMES]
    letters = {str(path): letter for letter, path in paths.items()}
    removed: list[str] = []

    def candidates(_: Store) -> list[Candidate]:
        return found

    def size_bytes(_: Path) -> int:
        return size

    def remove(run: Candidate) -> None:
        removed.append(letters[run.path])

    for fake in (candidates, size_bytes, remove):
        monkeypatch.setattr(pruning, fake.__name__, fake)
    return removed


@pytest.mark.parametrize(
    ("most", "gone", "left"), [(800, "", 800), (700, "e", 700), (699, "ef", 600), (0, "efgh", 400)]
)
def test_runs_of_nights_that_did_not_fail_go_until_the_store_is_small_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, gone: str, left: int
) -> None:
    removed = _store(tmp_path, monkeypatch, 800)
    assert disk.bound(tmp_path, most) == left
    assert "".join(removed) == gone
