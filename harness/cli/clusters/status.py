"""`splitbrain cluster status`, of all nodes, and `splitbrain cluster ctl status`, of one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click
import msgspec

from splitbrain.harness.cli import options, parsing
from splitbrain.harness.cli.clusters.asking import statuses
from splitbrain.harness.cli.clusters.call import Call, with_call
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
            click.echo(_line(each))
    leaders = [each.get("leader") for each in found if each.get("leader")]
    ctx.exit(0 if any(leaders.count(leader) > len(nodes) // 2 for leader in leaders) else 1)


@click.command("status", cls=parsing.Command)
@options.as_json
@with_call
def status_of_one(call: Call, as_json: bool) -> None:
    """Print what one node says of itself: role, term, leader, how far it has committed and applied.

    `splitbrain cluster status` asks all nodes.

    \b
    Examples:
      splitbrain cluster ctl status
      splitbrain cluster ctl status --node n3 --json
    """
    found = call.ask(lambda client: client.status())
    click.echo(as_document(found) if as_json else _line(msgspec.to_builtins(found)))


def _line(status: dict[str, Any]) -> str:
    if "problem" in status:
        return f"{status['node']:4} {status['problem']}"
    return (
        f"{status['node']:4} {status['role']:10} term {status['term']:<5} leader {status['leader'] or '-':6} "
        f"committed {status['commit_index']:<8} applied {status['applied_index']:<8} state {status['state_hash']} "
        f"version {_version(status)}" + (f", takes {', '.join(status['down'])} for down" if status["down"] else "")
    )


def _version(status: dict[str, Any]) -> str:
    """The version of the state machine in force, and what the node supports if that is another one."""
    if status["outdated"]:
        return f"{status['machine_version']} (outdated: a later one is in force)"
    in_force, supported = status["machine_version"], status["supported_version"]
    return str(in_force) if in_force == supported else f"{in_force} (supports {supported})"
