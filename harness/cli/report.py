"""`splitbrain report`: the page of a run, again."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from harness.cli import options


@click.command("report")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@options.store
@options.as_json
def command(runs: tuple[str, ...], store: str, as_json: bool) -> None:
    """Build the report page of runs again, from what is stored; the latest run if none is named.

    The verdict stays as it is: `splitbrain analyze RUN` judges again.
    """
    from results.collecting import collect_telemetry
    from results.report import write_report
    from results.store import Store

    pages: list[str] = []
    for reference in runs or ("latest",):
        run = Store(Path(store)).find(reference)
        if run.status() != "running":
            collect_telemetry(run)
        pages.append(str(write_report(run.path)))
    click.echo(msgspec.json.encode(pages).decode() if as_json else "\n".join(pages))
