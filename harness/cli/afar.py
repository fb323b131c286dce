"""Pushed stores on the command line: references to runs behind an address, and copies of them for other commands."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from splitbrain.harness.cli import options
from splitbrain.results import places
from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    from splitbrain.results.remote.copies import Copies
    from splitbrain.results.remote.runs import RemoteRun, RemoteStore
    from splitbrain.results.rundir import RunDir

F = TypeVar("F", bound=Callable[..., Any])


def check_address(option: str, address: str) -> None:
    """Refuse what is no address of a pushed store.

    Raises:
        UsageError: it is none; `option` gave it.
    """
    if not places.is_address(address):
        raise UsageError(
            f"{option} {address!r} is no address of a pushed store: write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, "
            "hdfs://HOST:PORT/FOLDER, or file:///FOLDER for one on a disk."
        )


def addressed(ctx: click.Context, store: str, references: Sequence[str] = ()) -> tuple[str, tuple[str, ...]] | None:
    """The address of the store, and the references in it, where --store is one, or the runs are named by theirs.

    Raises:
        UsageError: runs of several stores are named, or by address and otherwise.
    """
    found = [places.run_in(each) for each in references]
    if not any(found):
        return (store, tuple(references)) if places.is_address(store) else None
    stores = {each[0] for each in found if each is not None}
    if None in found or len(stores) > 1:
        raise UsageError("name all runs by their address in one store, or all of them in --store.")
    if options.given(ctx, "store"):
        raise UsageError(f"--store {store}: each run is given by its address: remove --store.")
    (address,) = stores
    if places.place_of(address) is None:
        raise UsageError(f"{address} is a folder with runs as they were recorded: name their folders without file://.")
    return address, tuple(each[1] for each in found if each is not None)


def chosen(store: RemoteStore, references: Sequence[str]) -> list[RemoteRun]:
    """The selected runs: each named one, or all.

    Raises:
        RunNotFoundError: there is no such run, or none at all.
        UsageError: a run is given twice.
    """
    from splitbrain.results.errors import RunNotFoundError

    if not references:
        found = store.runs()
        if not found:
            raise RunNotFoundError(f"there is no run in the store {store.place}: splitbrain push --to {store.place}")
        return found
    named = [store.find(each) for each in references]
    for place, run in enumerate(named):
        if run in named[:place]:
            raise UsageError(f"RUN {references[place]} is run {run.name}, which is given twice: give it once.")
    return named


def fetch_selected(copies: Copies, runs: Sequence[RunDir]) -> None:
    """Copy what is compared of runs of which there are sketches; of a damaged one an error is printed.

    Raises:
        RemoteConnectionError: the service does not answer.
    """
    from splitbrain.results.errors import RemoteConnectionError, SplitbrainError
    from splitbrain.results.remote.runs import of_all

    listed = {copies.of(run).path: run for run in copies.store.runs()}

    def fetch(run: RemoteRun) -> None:
        try:
            copies.fetch(run)
        except RemoteConnectionError:
            raise
        except SplitbrainError as error:
            click.echo(f"splitbrain: {error}", err=True)

    of_all(fetch, [listed[run.path] for run in runs if run.path in listed])


@contextlib.contextmanager
def opened(address: str) -> Generator[Copies]:
    """A store, with a folder for copies of its runs; errors in the block name addresses.

    Raises:
        RemoteStoreError: the store cannot be read.
    """
    from splitbrain.results.remote.copies import copies_of
    from splitbrain.results.remote.runs import RemoteStore

    with copies_of(RemoteStore(address)) as copies, copies.named():
        yield copies


@contextlib.contextmanager
def sketched(address: str) -> Generator[Copies]:
    """The same with what is compared of all runs but their histories.

    Raises:
        RemoteStoreError: the store cannot be read.
    """
    from splitbrain.results.damage import DAMAGE
    from splitbrain.results.remote.copies import VERDICT, sketches

    with opened(address) as copies:
        sketches(copies, copies.store.runs(), (VERDICT, DAMAGE, "figures.json"), lambda: None)
        yield copies


def copied(name: str) -> Callable[[F], F]:
    """A decorator of a command whose argument of this name may be the address of a run: it gets a copy's folder."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapped(*args: Any, **given: Any) -> Any:
            found = places.run_in(given[name])
            if found is None or places.place_of(found[0]) is None:
                return function(*args, **given)
            with opened(found[0]) as copies:
                run = copies.store.find(found[1])
                return function(*args, **{**given, name: str(copies.fetch(run).path)})

        return cast("F", wrapped)

    return decorate


_COPIED: Final[dict[str, tuple[str, Copies]]] = {}
"""By the address of a run that a command reads as a file: the folder of its copy."""


def fetch_for(ctx: click.Context, files: Sequence[str]) -> None:
    """Copy the runs among these that are named by their address, for as long as the command runs.

    Raises:
        SplitbrainError: there is no such run, or its store cannot be read.
    """
    by_address: dict[str, Copies] = {}
    for file in files:
        found = places.run_in(file)
        if found is None or places.place_of(found[0]) is None:
            continue
        if found[0] not in by_address:
            by_address[found[0]] = ctx.with_resource(opened(found[0]))
        copies = by_address[found[0]]
        _COPIED[file] = str(copies.fetch(copies.store.find(found[1])).path), copies
        ctx.call_on_close(functools.partial(_COPIED.pop, file, None))


def path_of(file: str) -> str:
    """Where to read what a command names: in its copy, if there is one."""
    return _COPIED[file][0] if file in _COPIED else file


@contextlib.contextmanager
def named(file: str) -> Generator[None]:
    """A context whose errors name the address of a run, not its copy."""
    if file not in _COPIED:
        yield
        return
    with _COPIED[file][1].named():
        yield
