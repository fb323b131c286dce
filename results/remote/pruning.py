"""Which runs of a remote store may go, and their removal: by the rules of local stores (`splitbrain.results.pruning`).

The manifest is removed first: a run is whole or gone for everyone who looks at the store meanwhile. What an interrupted
removal, or an interrupted push, left behind is removed by a later one when it is older than a day.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from splitbrain.results.damage import DAMAGE, is_made_from_another
from splitbrain.results.errors import RemoteConnectionError, SplitbrainError
from splitbrain.results.judgement import Judgement
from splitbrain.results.madefrom import is_other
from splitbrain.results.places import PUSHED
from splitbrain.results.pruning import UNJUDGED, Candidate, began_s, standing
from splitbrain.results.references import kept, may_be_source, names_in
from splitbrain.results.remote.copies import VERDICT
from splitbrain.results.remote.runs import Manifest, RemoteRun, RemoteStore, of_all
from splitbrain.results.values import NOT_JSON
from splitbrain.results.versioned import FORMAT

_LEFT_FOR: Final = timedelta(days=1)
"""Files without a manifest may be those of a push that is under way, but not for that long."""


def by_address(store: RemoteStore) -> dict[str, RemoteRun]:
    """All runs of a store, oldest first, by their address, which is the `path` of a candidate.

    Raises:
        RemoteStoreError: the store cannot be listed.
    """
    return {store.place.below(run.folder): run for run in store.runs()}


def candidate(store: RemoteStore, run: RemoteRun) -> Candidate:
    """A run as the rules see it. One that cannot be read never goes.

    Raises:
        RemoteConnectionError: the service does not answer.
    """
    where, began = store.place.below(run.folder), began_s(run.name)
    try:
        manifest = store.manifest(run)
        outcome = None if began is None else _outcome(store, run, manifest)
    except RemoteConnectionError:
        raise
    except SplitbrainError:
        return Candidate(where, run.test_name, None, 0.0, 0)
    size = sum(kept.bytes for kept in manifest.files.values())
    return Candidate(where, run.test_name, outcome, began or 0.0, size)


def _outcome(store: RemoteStore, run: RemoteRun, manifest: Manifest) -> str | None:
    try:
        document = msgspec.json.decode(store.objects.read(f"{run.folder}/{VERDICT}"), type=dict[str, Any])
        found = msgspec.convert(document, Judgement)
    except FileNotFoundError:
        return UNJUDGED
    except NOT_JSON:
        return None
    if found.format > FORMAT or is_other(document):
        return None
    digests = {name: kept.digest for name, kept in manifest.files.items()}
    damaged = (
        is_made_from_another(document.get("made_from"), digests)
        or store.objects.found(f"{run.folder}/{DAMAGE}") is not None
    )
    return standing(found.outcome.replace(" ", "-"), damaged=damaged)


def referred_by_others(store: RemoteStore, runs: Mapping[str, RemoteRun], going: Collection[str]) -> dict[str, str]:
    """Those of the runs that would go from which one that stays was derived, as replays are; each with that one.

    Args:
        store: the store.
        runs: all of it, by address.
        going: the addresses of those that would go.

    Raises:
        RemoteConnectionError: the service does not answer.
    """
    manifests = _readable(store, list(runs.values()))
    recorded: defaultdict[str, list[str]] = defaultdict(list)
    for run, manifest in manifests.items():
        recorded[manifest.recorded_as].append(run.name)
    referring: defaultdict[str, list[str]] = defaultdict(list)
    for address, run in runs.items():
        if run not in manifests:  # damaged: what it is derived from is not known
            for each in runs.values():
                if each.test_name == run.test_name and may_be_source(each.name, run.name):
                    referring[each.name].append(address)
            continue
        derived = manifests[run].document.get("derived_from")
        for name in names_in(derived) if isinstance(derived, str) else ():
            for source in {name, *recorded[name]} - {run.name}:
                referring[source].append(address)
    return kept(going, referring)


def _readable(store: RemoteStore, runs: Sequence[RemoteRun]) -> dict[RemoteRun, Manifest]:
    def one(run: RemoteRun) -> Manifest | None:
        try:
            return store.manifest(run)
        except RemoteConnectionError:
            raise
        except SplitbrainError:
            return None

    read = zip(runs, of_all(one, runs), strict=True)
    return {run: manifest for run, manifest in read if manifest is not None}


def remove(store: RemoteStore, run: RemoteRun) -> None:
    """Remove a run.

    Raises:
        RemoteStoreError: it cannot be removed.
    """
    store.objects.remove(run.manifest)
    store.objects.remove_folder(run.folder)


def remove_leftovers(store: RemoteStore) -> None:
    """Remove the files of runs that have no manifest, as far as nothing was written there for a day.

    Raises:
        RemoteStoreError: the store cannot be read, or they cannot be removed.
    """
    listed = {run.folder for run in store.runs()}
    for test in store.objects.folders(""):
        if not test.startswith("test=") or test == PUSHED:
            continue
        for name in store.objects.folders(test):
            folder = f"{test}/{name}"
            if name.startswith("run=") and folder not in listed and _is_left(store, folder):
                store.objects.remove_folder(folder)


def _is_left(store: RemoteStore, folder: str) -> bool:
    written = [each.changed for each in store.objects.listed(folder, deep=True)]
    until = datetime.now(UTC) - _LEFT_FOR
    return all(changed is not None and changed < until for changed in written)
