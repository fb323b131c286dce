"""`splitbrain pull`: bring runs from a store behind an address to this machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from splitbrain.harness.cli import afar, options, parsing
from splitbrain.results.errors import RemoteConnectionError, SplitbrainError
from splitbrain.results.text import encoded

if TYPE_CHECKING:
    from splitbrain.results.remote.runs import RemoteRun, RemoteStore


@click.command("pull", cls=parsing.Command)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--from", "address", required=True, metavar="URL", help="The address of the store.")
@options.store
@options.as_json
@click.pass_context
def command(ctx: click.Context, runs: tuple[str, ...], address: str, store: str, as_json: bool) -> None:
    """Bring pushed runs to this machine, with all their files, under the names that they were recorded with.

    A run that is here already is left alone. A RUN is named as in splitbrain analyze; night:NAME or night:latest is a
    night, with its records and the table of its figures, and without its runs.

    \b
    Examples:
      splitbrain pull latest --from s3://nightly/splitbrain
      splitbrain pull night:latest --from s3://nightly/splitbrain
      splitbrain serve
    """
    from splitbrain.results import nights
    from splitbrain.results.remote.runs import RemoteStore

    parsing.refuse_twice("RUN", runs)
    afar.check_address("--from", address)
    there = RemoteStore(address)
    folders: list[str] = []
    problems: list[SplitbrainError] = []
    named = [each for each in runs if not each.startswith(nights.PREFIX)]
    pulls = [partial(_night, each, there, Path(store)) for each in runs if each.startswith(nights.PREFIX)]
    pulls += [partial(_run, run, there, Path(store)) for run in (afar.chosen(there, named) if named else ())]
    for each in pulls:
        try:
            found, is_new = each()
        except RemoteConnectionError:
            raise
        except SplitbrainError as error:
            problems.append(error)
            click.echo(f"splitbrain: {error}", err=True)
            continue
        folders.append(str(found))
        if not as_json:
            click.echo(f"{found}{'' if is_new else '  was here already'}")
    if as_json:
        click.echo(encoded(folders).decode())
    ctx.exit(max((problem.exit_code for problem in problems), default=0))


def _run(run: RemoteRun, there: RemoteStore, store: Path) -> tuple[Path, bool]:
    """Pull a run; its folder, and whether it was not here yet."""
    from splitbrain.results.remote.pushing import pull

    found, is_new = pull(run, there, store)
    return found.path, is_new


def _night(reference: str, there: RemoteStore, store: Path) -> tuple[Path, bool]:
    """Pull a night; its folder, and whether it was not here yet."""
    from splitbrain.results import nights
    from splitbrain.results.remote import nights as pushed

    name = nights.chosen(reference, pushed.names(there), str(there.place))
    assert name is not None, reference  # it begins with the prefix
    return pushed.pull(name, there, store)
