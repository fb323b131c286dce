"""The bound on what nights keep: runs of nights that did not fail go, the oldest first, until the store is in it."""

from __future__ import annotations

from pathlib import Path

from splitbrain.harness.campaigns.nightly import journal
from splitbrain.results import pruning
from splitbrain.results.errors import SplitbrainError
from splitbrain.results.nights import Ran, Replayed, folders
from splitbrain.results.references import kept, references
from splitbrain.results.store import Store


def bound(store: Path, most_bytes: int) -> int:
    """Remove runs of nights, never a violation, until the store is small enough; the bytes that it has then.

    Runs stay that no night began, to which something refers, or that cannot be removed.
    """
    size = pruning.size_bytes(store)
    if size <= most_bytes:
        return size
    ours, where = _runs_of_nights(store), Store(store)
    going = [
        run
        for run in pruning.candidates(where)
        if str(Path(run.path).resolve()) in ours and run.outcome not in (None, *pruning.KEPT_BY_DEFAULT)
    ]
    stay = kept([run.path for run in going], references(where.root, [run.path for run in where.folders()]))
    for run in going:
        if size <= most_bytes:
            break
        if run.path in stay:
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
            if isinstance(entry, Ran | Replayed) and entry.run is not None:
                found.add(str(Path(entry.run).resolve()))
    return found
