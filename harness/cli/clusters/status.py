"""`splitbrain cluster status`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from splitbrain.harness.cli import options, parsing
from splitbrain.harness.cli.clusters.asking import statuses
from splitbrain.harness.cli.clusters.layout import folder, running
from splitbrain.harness.cli.clusters.printing import as_document


@click.command("status", cls=parsing.Command)
@folder
@options.as_json
@click.pass_context
def status(ctx: click.Context, directory: str, as_json: bool) -> None:
    """The status of every node. Exit code 0 if a majority agrees on a leader, else 1.

    \b
    Examples:
      splitbrain cluster status
      splitbrain cluster status --json
    """
    nodes = running(Path(directory)).nodes
    found = asyncio.run(statuses(nodes))
    if as_json:
        click.echo(as_document(found))
    else:
        for each in found:
            click.echo(f"{each['node']:4} {_said(each)}")
    leaders = [each.get("leader") for each in found if each.get("leader")]
    ctx.exit(0 if any(leaders.count(leader) > len(nodes) // 2 for leader in leaders) else 1)


def _said(status: dict[str, Any]) -> str:
    if "problem" in status:
        return status["problem"]
    return (
        f"{status['role']:10} term {status['term']:<5} leader {status['leader'] or '-':6} "
        f"committed {status['commit_index']:<8} applied {status['applied_index']:<8} state {status['state_hash']}"
    )
