"""`splitbrain pull`: bring runs from a store behind an address to this machine."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from splitbrain.harness.cli import afar, options, parsing
from splitbrain.results.errors import RemoteConnectionError, SplitbrainError


@click.command("pull", cls=parsing.Command)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--from", "address", required=True, metavar="URL", help="The address of the store.")
@options.store
@options.as_json
@click.pass_context
def command(ctx: click.Context, runs: tuple[str, ...], address: str, store: str, as_json: bool) -> None:
    """Bring pushed runs to this machine, with all their files, under the names that they were recorded with.

    A run that is here already is left alone. A RUN is named as in splitbrain analyze.

    \b
    Examples:
      splitbrain pull latest --from s3://nightly/splitbrain
      splitbrain serve
    """
    from splitbrain.results.remote.pushing import pull
    from splitbrain.results.remote.runs import RemoteStore

    parsing.refuse_twice("RUN", runs)
    afar.check_address("--from", address)
    there = RemoteStore(address)
    folders: list[str] = []
    problems: list[SplitbrainError] = []
    for run in afar.chosen(there, runs):
        try:
            found, is_new = pull(run, there, Path(store))
        except RemoteConnectionError:
            raise
        except SplitbrainError as error:
            problems.append(error)
            click.echo(f"splitbrain: {error}", err=True)
            continue
        folders.append(str(found.path))
        if not as_json:
            click.echo(f"{found.path}{'' if is_new else '  was here already'}")
    if as_json:
        click.echo(msgspec.json.encode(folders).decode())
    ctx.exit(max((problem.exit_code for problem in problems), default=0))
