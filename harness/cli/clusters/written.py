"""`splitbrain cluster ctl snapshot` and `checkpoint`: have a node write down its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from splitbrain.harness.cli import options, parsing
from splitbrain.harness.cli.clusters.call import Call, with_call
from splitbrain.harness.cli.clusters.printing import as_document

if TYPE_CHECKING:
    from splitbrain.cluster.client import WrittenState


@click.command("snapshot", cls=parsing.Command)
@options.as_json
@with_call
def snapshot(call: Call, as_json: bool) -> None:
    """Have one node write a snapshot of what it has applied now.

    The snapshot is durable, and the node needs its log before it no more.

    \b
    Examples:
      splitbrain cluster ctl snapshot
      splitbrain cluster ctl snapshot --node n3 --json
    """
    asked = call.node()
    written = call.ask(lambda client: client.snapshot(timeout_ms=call.timeout_ms), asked)
    _show(asked.node, "snapshot", written, as_json)


@click.command("checkpoint", cls=parsing.Command)
@options.as_json
@with_call
def checkpoint(call: Call, as_json: bool) -> None:
    """Have one node write a checkpoint of what it has applied now.

    A checkpoint makes the next start quick. It is not synced, and the log stays: a loss of power may take it.

    \b
    Example:
      splitbrain cluster ctl checkpoint --node n2
    """
    asked = call.node()
    written = call.ask(lambda client: client.checkpoint(timeout_ms=call.timeout_ms), asked)
    _show(asked.node, "checkpoint", written, as_json)


def _show(node: str, what: str, written: WrittenState, as_json: bool) -> None:
    if as_json:
        click.echo(as_document(written))
    else:
        click.echo(f"{node} has a {what} of entry {written.index} of term {written.term}.")


COMMANDS: Final = (snapshot, checkpoint)
