"""The bound on what nights keep: runs of nights that did not fail go, the oldest first, until the store is in it."""

from __future__ import annotations

from pathlib import Path

from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.nightly import journal
from splitbrain.results import pruning
from splitbrain.results.errors import SplitbrainError
from splitbrain.results.nights import Ran, folders
from splitbrain.results.store import Store


def bound(store: Path, most_bytes: int) -> int:
    """Remove runs of nights, never a violation, until the store is small enough; the bytes that it has then.

    Runs that no night began are left alone, and so is what cannot be removed.
    """
    size = pruning.size_bytes(store)
    if size <= most_bytes:
        return size
    ours = _runs_of_nights(store)
    for run in pruning.candidates(Store(store)):
        if size <= most_bytes:
            break
        if str(Path(run.path).resolve()) not in ours or run.outcome in (None, *pruning.KEPT_BY_DEFAULT):
            continue
        try:
            pruning.remove(run)
        except SplitbrainError:
            continue
        size -= run.size_bytes
    return size


def _runs_of_nights(store: Path) -> set[str]:
    found: set[str] = set()
    for folder in folders(store):
        try:
            entries = journal.read(folder / journal.FILE)
        except (OSError, SplitbrainError):
            continue
        for entry in entries:
            if isinstance(entry, Ran) and entry.run is not None and entry.outcome != Outcome.VIOLATION.value:
                found.add(str(Path(entry.run).resolve()))
    return found
