"""`splitbrain cluster ctl` for streams: where their copies are, and how operators add and remove some (ST-1).

They are named as commands of rabbitmq-streams are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from splitbrain.harness.cli import options, parsing
from splitbrain.harness.cli.clusters.call import Call, with_call
from splitbrain.harness.cli.clusters.printing import as_document
from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    from splitbrain.cluster.client import Client, Streams
    from splitbrain.cluster.queueoperators import SeenStream
    from splitbrain.cluster.streamclient import StreamStatus
    from splitbrain.harness.cli.answers.clusters import CopiesOfStreamAnswer, SuperStreamAnswer

_COUNT: Final = click.IntRange(1, 1000)
"""A cluster has at most so many streams."""

_BYTES: Final = click.IntRange(0, 2**63 - 1)

DECLARE_MS: Final = 30_000
"""So long partitions are waited for at least: each has a writer of its own to be chosen."""


@click.command("streams", cls=parsing.Command)
@options.as_json
@with_call
def streams(call: Call, as_json: bool) -> None:
    """Print the streams, with their writers, their targets, what each member with a copy does, and what is kept.

    A target in brackets is none of the stream's own: without a policy or a setting there are to be so many copies.
    What is kept is the lower of what the stream was declared with and what policies say.

    \b
    Examples:
      splitbrain cluster ctl streams
      splitbrain cluster ctl streams --json
    """

    async def ask(client: Client) -> list[SeenStream]:
        from splitbrain.cluster import queueoperators

        return await queueoperators.every_stream_kept(client, call.timeout_ms)

    found = call.ask(ask)
    if as_json:
        click.echo(as_document(found))
        return
    if not found:
        click.echo("no streams")
        return
    width = max(len(each.name) for each in found)
    for each in found:
        click.echo(f"{each.name:{width}}  {_words(each)}")


def _words(stream: SeenStream) -> str:
    target = f"({stream.size})" if stream.target is None else str(stream.target)
    copies = ", ".join(f"{member} {_phase(stream, member)}" for member in stream.members)
    part = "" if stream.part_of is None else f"  part of {stream.part_of}"
    return f"epoch {stream.epoch}  writer {stream.writer or '-'}  target {target}  copies {copies}{_kept(stream)}{part}"


def _kept(stream: SeenStream) -> str:
    limits = [] if stream.kept_bytes is None else [f"{stream.kept_bytes} bytes"]
    if stream.kept_ms is not None:
        from splitbrain.cluster.streams.retention import age_in_words

        limits.append(age_in_words(stream.kept_ms))
    return f"  keeps {', '.join(limits)}" if limits else ""


def _phase(stream: StreamStatus, member: str) -> str:
    phase = stream.members[member]
    return phase if member in stream.voters or not stream.epoch else f"{phase} without a vote"


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


def _age(_: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """An age in ms, of words such as 7D."""
    from splitbrain.cluster.streams.retention import age_ms

    found = age_ms(value)
    if value is not None and found is None:
        raise UsageError(f"{parameter.opts[0]} {value}: give a number and one of Y, M, D, h, m, s, such as 7D.")
    return found


F = TypeVar("F", bound=Callable[..., Any])


def _of_declarations(function: F) -> F:
    """Add the options that a declaration takes: how many live copies there are to be, and what is kept."""
    for option in (
        click.option(
            "--max-age", "max_age_ms", callback=_age, metavar="AGE", help="How old messages may get: 7D, 12h."
        ),
        click.option("--max-length-bytes", type=_BYTES, help="What each copy keeps at most, about."),
        click.option("--target", type=_COUNT, help="How many live copies there are to be; default: a policy's."),
    ):
        function = option(function)
    return function


@click.command("add_stream", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@_of_declarations
@options.as_json
@with_call
def add_stream(
    call: Call, name: str, target: int | None, max_length_bytes: int | None, max_age_ms: int | None, as_json: bool
) -> None:
    """Make stream NAME, with three copies at first, and wait until it is written.

    Without limits it keeps all, unless a policy says less (`set_policy`). One that is there already stays as it is.

    \b
    Examples:
      splitbrain cluster ctl add_stream events
      splitbrain cluster ctl add_stream events --max-length-bytes 1000000000 --max-age 7D
    """

    def change(found: Streams) -> Awaitable[object]:
        return found.declare(
            name,
            target_group_size=target,
            max_length_bytes=max_length_bytes,
            max_age_ms=max_age_ms,
            timeout_ms=max(call.timeout_ms, DECLARE_MS),
        )

    _changed(call, name, change, as_json)


@click.command("delete_stream", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@options.as_json
@with_call
def delete_stream(call: Call, name: str, as_json: bool) -> None:
    """Remove stream NAME, with its messages.

    \b
    Example:
      splitbrain cluster ctl delete_stream events
    """
    _changed(call, name, lambda found: found.delete(name, timeout_ms=call.timeout_ms), as_json)


@click.command("add_super_stream", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@click.option("--partitions", default=3, show_default=True, type=_COUNT, help="How many streams it has.")
@_of_declarations
@options.as_json
@with_call
def add_super_stream(
    call: Call,
    name: str,
    partitions: int,
    target: int | None,
    max_length_bytes: int | None,
    max_age_ms: int | None,
    as_json: bool,
) -> None:
    """Make the streams NAME-0, NAME-1 and so on, which are the partitions of superstream NAME.

    Writers and copies are spread over the nodes, and each partition keeps its copies as any stream does. Partitions
    that are there already stay as they are. Target and limits are those of each partition.

    \b
    Examples:
      splitbrain cluster ctl add_super_stream orders
      splitbrain cluster ctl add_super_stream orders --partitions 5 --target 3 --max-age 12h
    """

    async def ask(client: Client) -> list[str]:
        found = await client.streams()
        await found.declare_super(
            name,
            partitions=partitions,
            target_group_size=target,
            max_length_bytes=max_length_bytes,
            max_age_ms=max_age_ms,
            timeout_ms=max(call.timeout_ms, DECLARE_MS),
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
        click.echo(f"{stream}: copies on {', '.join(copies) or 'no node any more'}")


COMMANDS: Final = (
    streams,
    add_stream,
    delete_stream,
    add_replica,
    delete_replica,
    add_super_stream,
    delete_super_stream,
)
