"""`splitbrain doctor`: what works on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from splitbrain.harness.cli import options, parsing

if TYPE_CHECKING:
    from rich.console import Console

    from splitbrain.harness.campaigns.doctor import Fault, Finding
    from splitbrain.harness.cli.answers.stores import DoctorAnswer


@click.command("doctor", cls=parsing.Command)
@options.hosts
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    hosts: str | None,
    known_hosts: str | None,
    ssh_key: str | None,
    ssh_user: str | None,
    as_json: bool,
) -> None:
    """What works on this machine and on hosts, and what is missing for the rest.

    Faults are rows, backends are columns. Below the table: how each backend injects the faults it supports, and what is
    missing for the others. All probes are undone at once.

    \b
    Examples:
      splitbrain doctor
      splitbrain doctor --hosts @lab.hosts --known-hosts lab.keys --ssh-key ~/.ssh/lab
    """
    from splitbrain.harness.backends.ssh.inventory import KNOWN_HOSTS, Inventory
    from splitbrain.harness.campaigns import doctor, doctor_systems

    inventory = None
    if hosts is None:
        options.check_hosts(ctx, "it needs --hosts: add --hosts, or remove this option.")
    else:
        options.check_user(hosts, ssh_user)
        inventory = Inventory.of(hosts, known_hosts or KNOWN_HOSTS, ssh_key, ssh_user)
    findings = [*doctor.diagnose(), *doctor_systems.systems()]
    faults = doctor.faults(inventory)
    if as_json:
        document: DoctorAnswer = {
            "findings": findings,
            "faults": {fault.kind: dict(fault.backends) for fault in faults},
        }
        click.echo(msgspec.json.format(msgspec.json.encode(document)).decode())
        return
    from rich.console import Console

    console = Console()
    _show_findings(findings)
    _show_matrix(faults)
    _show_reasons(console, faults)


def _show_findings(findings: Sequence[Finding]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from splitbrain.harness.cli.tables import print_whole

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "area", "what", "found"):
        table.add_column(column)
    for finding in findings:
        mark = "[green]works[/]" if finding.works else "[red]missing[/]"
        advice = f"\n[dim]{escape(finding.advice)}[/]" if finding.advice else ""
        detail = f"{escape(finding.detail)}{advice}"
        table.add_row(mark, finding.area, finding.item, detail)
    print_whole(table)


def _show_matrix(faults: Sequence[Fault]) -> None:
    from rich.table import Table

    from splitbrain.harness.cli.tables import print_whole

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("fault")
    for backend in faults[0].backends:
        table.add_column(backend)
    for fault in faults:
        marks = ["[green]works[/]" if found.works else "[red]no[/]" for found in fault.backends.values()]
        table.add_row(fault.kind, *marks)
    click.echo()
    print_whole(table)


def _show_reasons(console: Console, faults: Sequence[Fault]) -> None:
    """For each backend the faults that it cannot inject and why, then how it injects the others. Kinds with one reason
    share a line.

    A reason of several lines (one per host) is printed line by line.
    """
    from rich.markup import escape

    from splitbrain.harness.campaigns.doctor import reasons

    for backend in faults[0].backends:
        console.print(f"\n[bold]{backend}[/]")
        for works, mark in ((False, "[red]no[/]   "), (True, "[green]works[/]")):
            for reason, kinds in reasons(faults, backend, works=works).items():
                named = "everything" if len(kinds) == len(faults) else ", ".join(kinds)
                for line in reason.splitlines():
                    console.print(f"  {mark} {named}: [dim]{escape(line)}[/]", soft_wrap=True)
