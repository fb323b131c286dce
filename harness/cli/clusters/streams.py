"""`splitbrain cluster ctl` for streams: where their copies are, and how operators add and remove some (ST-1).

They are named as commands of rabbitmq-streams are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import click

from splitbrain.harness.cli import options, parsing
from splitbrain.harness.cli.clusters.call import Call, with_call
from splitbrain.harness.cli.clusters.printing import as_document

if TYPE_CHECKING:
    from splitbrain.cluster.client import Client, Streams
    from splitbrain.cluster.streamclient import StreamStatus
    from splitbrain.harness.cli.answers.clusters import CopiesOfStreamAnswer, SuperStreamAnswer

_COUNT: Final = click.IntRange(1, 1000)
"""A cluster has at most so many streams."""

DECLARE_MS: Final = 30_000
"""So long partitions are waited for at least: each has a writer of its own to be chosen."""


@click.command("streams", cls=parsing.Command)
@options.as_json
@with_call
def streams(call: Call, as_json: bool) -> None:
    """Print the streams, with their writers, their targets, and what each member with a copy does.

    A target in brackets is none of the stream's own: without a policy or a setting there are to be so many copies.

    \b
    Examples:
      splitbrain cluster ctl streams
      splitbrain cluster ctl streams --json
    """
    found = call.ask(_every)
    if as_json:
        click.echo(as_document(found))
        return
    if not found:
        click.echo("no streams")
        return
    width = max(len(each.name) for each in found)
    for each in found:
        click.echo(f"{each.name:{width}}  {_words(each)}")


def _words(stream: StreamStatus) -> str:
    target = f"({stream.size})" if stream.target is None else str(stream.target)
    copies = ", ".join(f"{member} {_phase(stream, member)}" for member in stream.members)
    part = "" if stream.part_of is None else f"  part of {stream.part_of}"
    return f"epoch {stream.epoch}  writer {stream.writer or '-'}  target {target}  copies {copies}{part}"


def _phase(stream: StreamStatus, member: str) -> str:
    phase = stream.members[member]
    return phase if member in stream.voters or not stream.epoch else f"{phase} without a vote"


async def _every(client: Client) -> list[StreamStatus]:
    from splitbrain.cluster import queueoperators

    return await queueoperators.every_stream(client)


@click.command("add_replica", cls=parsing.Command)
@click.argument("stream", callback=parsing.named)
@click.argument("name", callback=parsing.named)
@options.as_json
@with_call
def add_replica(call: Call, stream: str, name: str, as_json: bool) -> None:
    """Have node NAME get a copy of STREAM, and a vote, which begins a new epoch, once it has caught up.

    Refused while a copy has not run for 10 s, or while another change has not begun its epoch. `streams` says when the
    copy runs.

    \b
    Example:
      splitbrain cluster ctl add_replica events n4
    """
    _changed(call, stream, lambda found: found.add_replica(stream, name, timeout_ms=call.timeout_ms), as_json)


@click.command("delete_replica", cls=parsing.Command)
@click.argument("stream", callback=parsing.named)
@click.argument("name", callback=parsing.named)
@options.as_json
@with_call
def delete_replica(call: Call, stream: str, name: str, as_json: bool) -> None:
    """Have node NAME give up its copy of STREAM, which begins a new epoch.

    Without a target the stream has one copy less from now on. With one, another node may get a copy instead: a node
    that is to have none is drained first. Refused for the last copy, and while another change has not begun its epoch.

    \b
    Example:
      splitbrain cluster ctl delete_replica events n1
    """
    _changed(call, stream, lambda found: found.delete_replica(stream, name, timeout_ms=call.timeout_ms), as_json)


@click.command("add_super_stream", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@click.option("--partitions", default=3, show_default=True, type=_COUNT, help="How many streams it has.")
@click.option("--target", type=_COUNT, help="How many live copies each is to have; default: a policy's.")
@options.as_json
@with_call
def add_super_stream(call: Call, name: str, partitions: int, target: int | None, as_json: bool) -> None:
    """Make the streams NAME-0, NAME-1 and so on, which are the partitions of superstream NAME.

    Writers and copies are spread over the nodes, and each partition keeps its copies as any stream does. Partitions
    that are there already stay as they are.

    \b
    Examples:
      splitbrain cluster ctl add_super_stream orders
      splitbrain cluster ctl add_super_stream orders --partitions 5 --target 3
    """

    async def ask(client: Client) -> list[str]:
        found = await client.streams()
        await found.declare_super(
            name, partitions=partitions, target_group_size=target, timeout_ms=max(call.timeout_ms, DECLARE_MS)
        )
        return [each.name for each in await found.partitions(name, timeout_ms=call.timeout_ms)]

    _partitions(name, call.ask(ask), as_json)


@click.command("delete_super_stream", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@options.as_json
@with_call
def delete_super_stream(call: Call, name: str, as_json: bool) -> None:
    """Remove all partitions of superstream NAME, with their messages.

    \b
    Example:
      splitbrain cluster ctl delete_super_stream orders
    """

    async def ask(client: Client) -> list[str]:
        await (await client.streams()).delete_super(name, timeout_ms=call.timeout_ms)
        return []

    _partitions(name, call.ask(ask), as_json)


def _partitions(name: str, partitions: list[str], as_json: bool) -> None:
    if as_json:
        answer: SuperStreamAnswer = {"super_stream": name, "partitions": partitions}
        click.echo(as_document(answer))
    else:
        click.echo(f"{name}: {', '.join(partitions) or 'no partitions any more'}")


def _changed(call: Call, stream: str, change: Callable[[Streams], Awaitable[object]], as_json: bool) -> None:
    async def ask(client: Client) -> list[str]:
        from splitbrain.cluster import queueoperators

        await change(await client.streams())
        found = await queueoperators.every_stream(client)
        return [member for each in found if each.name == stream for member in each.members]

    copies = call.ask(ask)
    if as_json:
        answer: CopiesOfStreamAnswer = {"stream": stream, "copies": copies}
        click.echo(as_document(answer))
    else:
        click.echo(f"{stream}: copies on {', '.join(copies)}")


COMMANDS: Final = (streams, add_replica, delete_replica, add_super_stream, delete_super_stream)
