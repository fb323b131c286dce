"""`splitbrain cluster up`, `down` and `status`."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from splitbrain.harness.cli import options, parsing
from splitbrain.harness.cli.clusters.asking import statuses
from splitbrain.harness.cli.clusters.layout import NodeProcess, folder, read_state, running_state, write_state
from splitbrain.harness.cli.clusters.processes import HOST, alive, check_free, start, stop_all
from splitbrain.results.errors import NodeStartError, UnknownNameError, UsageError
from splitbrain.results.stores import check_writable

_UP_S: Final = 15.0


@click.command("up", cls=parsing.Command)
@click.option(
    "-n", "--nodes", default="3", show_default=True, metavar="N|NAME[,NAME...]", help="Number of nodes, or their names."
)
@click.option(
    "--base-port",
    default=7101,
    show_default=True,
    type=click.IntRange(1024, 65000),
    help="Port of the first node on 127.0.0.1; the others take the next ports.",
)
@click.option(
    "--bug", default="", callback=parsing.named, metavar="ID[,ID...]", help="Switch bugs on (splitbrain list bugs)."
)
@folder
def up(nodes: str, base_port: int, bug: str, directory: str) -> None:
    """Start the nodes and wait for a leader. Data of an earlier `up` in the same DIR is reused."""
    from splitbrain.cluster.client import BUGS
    from splitbrain.harness.campaigns.compose import node_names
    from splitbrain.harness.contract.listed import names

    for each in names("--bug", bug):
        if each not in BUGS:
            raise UnknownNameError("bug", each, BUGS)
    home = Path(directory)
    if any(alive(node) for node in read_state(home)):
        raise UsageError(f"a cluster is already up in {home}. To stop it: splitbrain cluster down --dir {home}")
    listed = node_names(nodes)
    ports = {node: base_port + i for i, node in enumerate(listed)}
    check_writable(home, "--dir")
    for node, port in ports.items():
        check_free(node, port)
    home.mkdir(parents=True, exist_ok=True)
    started = [start(home, node, ports, bug) for node in listed]
    write_state(home, started)
    try:
        leader = asyncio.run(_until_led(home, started))
    except BaseException:
        stop_all(home)
        raise
    for node in started:
        click.echo(f"{node.node}  {HOST}:{node.port}  pid {node.pid}{'  leader' if node.node == leader else ''}")


@click.command("down", cls=parsing.Command)
@folder
def down(directory: str) -> None:
    """Stop every node that `up` started. The data stays; the next `up` reuses it."""
    stopped = stop_all(Path(directory))
    click.echo(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")


async def _until_led(home: Path, nodes: list[NodeProcess]) -> str:
    """The leader, once a majority agrees on it."""
    deadline = time.monotonic() + _UP_S
    while time.monotonic() < deadline:
        for node in nodes:
            if not alive(node):
                said = (home / f"{node.node}.log").read_text(errors="replace").strip().splitlines()[-3:]
                raise NodeStartError(f"node {node.node} ended at once: {' | '.join(said)}")
        leaders = [status["leader"] for status in await statuses(nodes) if status.get("leader")]
        for leader in leaders:
            if leaders.count(leader) > len(nodes) // 2:
                return leader
        await asyncio.sleep(0.1)
    raise NodeStartError(f"no leader after {_UP_S:g} s. The nodes' logs are {home}/*.log.")


@click.command("status", cls=parsing.Command)
@folder
@options.as_json
@click.pass_context
def status(ctx: click.Context, directory: str, as_json: bool) -> None:
    """The status of every node. Exit code 0 if a majority agrees on a leader, else 1."""
    nodes = running_state(Path(directory))
    found = asyncio.run(statuses(nodes))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
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
