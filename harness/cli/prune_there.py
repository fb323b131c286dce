"""`splitbrain prune` of a pushed store."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from splitbrain.results.errors import (
    HarnessError,
    RemoteConnectionError,
    RunNotFoundError,
    SplitbrainError,
    UnknownNameError,
)
from splitbrain.results.quantities import counted

if TYPE_CHECKING:
    from splitbrain.results.pruning import Candidate, Limits


def prune(
    address: str,
    limits: Limits,
    report: Callable[[list[Candidate], list[Candidate], list[str], Mapping[str, str]], None],
    *,
    dry_run: bool,
) -> None:
    """Remove runs from a pushed store. A run from which one that stays was derived stays with it.

    Args:
        address: of the store.
        limits: what may go.
        report: called with all runs, those that were removed, why others could not be, and what refers to those that
            stay because of that.
        dry_run: whether nothing is to be removed.

    Raises:
        SplitbrainError: the store cannot be read, or a run cannot be removed.
    """
    from splitbrain.results import pruning
    from splitbrain.results.remote import pruning as there
    from splitbrain.results.remote.runs import RemoteStore, of_all

    store = RemoteStore(address)
    by_path = there.by_address(store)
    if not by_path:
        raise RunNotFoundError(f"there is no run in the store {store.place}.")
    known = {run.test_name for run in by_path.values()}
    for name in sorted(limits.tests - known):
        raise UnknownNameError("test", name, known, f"in the store {store.place}")
    runs = of_all(lambda run: there.candidate(store, run), list(by_path.values()))
    going = {each.path for each in pruning.choose(runs, limits, time.time())}
    kept = there.referred_by_others(store, by_path, going)
    removed: list[Candidate] = []
    problems: list[str] = []
    chosen = [run for run in runs if run.path in going and run.path not in kept]
    for run in chosen:
        try:
            if not dry_run:
                there.remove(store, by_path[run.path])
        except RemoteConnectionError:
            raise
        except SplitbrainError as error:
            problems.append(str(error))
        else:
            removed.append(run)
    if not dry_run:
        there.remove_leftovers(store)
    report(runs, removed, problems, kept)
    if problems:
        raise HarnessError(f"{len(problems)} of {counted(len(chosen), 'run')} could not be removed: {problems[0]}")
