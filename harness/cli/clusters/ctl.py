"""`splitbrain cluster ctl`: requests to a node of the metadata cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from splitbrain.harness.cli import parsing
from splitbrain.harness.cli.clusters.asking import with_client
from splitbrain.harness.cli.clusters.layout import folder, running_state
from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    from splitbrain.cluster.client import Client


@click.command("ctl", cls=parsing.Command)
@click.option(
    "--node", default=None, callback=parsing.named, metavar="NAME", help="The node to ask.  [default: the first]"
)
@click.option("--timeout", default=5.0, show_default=True, metavar="SECONDS", help="Timeout of an answer.")
@folder
@click.argument("verb", type=click.Choice(["get", "children", "put", "create", "update", "cas", "delete"]))
@click.argument("path")
@click.argument("values", nargs=-1, metavar="[VALUE]...")
@click.pass_context
def ctl(
    ctx: click.Context, node: str | None, timeout: float, directory: str, verb: str, path: str, values: tuple[str, ...]
) -> None:
    """One operation on the metadata tree, through one node. Values are JSON; other text is taken as a string.

    Exit code 1 if it was refused, or if its outcome is unknown.

    \b
    get PATH | children PATH | delete PATH
    put PATH VALUE | create PATH VALUE | update PATH VALUE
    cas PATH EXPECTED VALUE
    """
    from splitbrain.cluster.client import ClusterError
    from splitbrain.harness.contract.test import TIME_MAX_S, check_number

    wanted = {"put": 1, "create": 1, "update": 1, "cas": 2}.get(verb, 0)
    if len(values) != wanted:
        raise UsageError(f"ctl {verb} takes a path and {wanted} value(s), not {len(values)}.")
    check_number("--timeout", timeout, TIME_MAX_S)
    nodes = running_state(Path(directory))
    chosen = next((each for each in nodes if node in (None, each.node)), None)
    if chosen is None:
        raise UsageError(f"there is no node {node!r} in this cluster: {', '.join(each.node for each in nodes)}.")
    arguments = [_value(each) for each in values]
    method = {"cas": "compare_and_swap"}.get(verb, verb)

    async def ask(client: Client) -> Any:
        return await getattr(client, method)(path, *arguments, timeout_ms=int(timeout * 1000))

    try:
        answer = asyncio.run(with_client(chosen, ask))
    except (ClusterError, OSError) as error:
        click.echo(f"splitbrain: {chosen.node}: {error}", err=True)
        ctx.exit(1)
    click.echo(msgspec.json.format(msgspec.json.encode(answer)).decode())


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
