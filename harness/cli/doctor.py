"""`splitbrain doctor`: what works on this machine."""

from __future__ import annotations

import click
import msgspec

from harness.cli import options


@click.command("doctor")
@options.as_json
def command(as_json: bool) -> None:
    """What works on this machine, and what is missing for the rest.

    Looks only; changes nothing.
    """
    from harness import doctor

    findings = doctor.diagnose()
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(findings)).decode())
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "area", "what", "how, or why not"):
        table.add_column(column)
    for finding in findings:
        mark = "[green]works[/]" if finding.works else "[red]missing[/]"
        detail = finding.detail if not finding.advice else f"{finding.detail}\n[dim]{finding.advice}[/]"
        table.add_row(mark, finding.area, finding.item, detail)
    Console().print(table)
