"""`splitbrain cluster ctl` for classic queues: where they are, their files, and which nodes may convert some (CQ-7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from splitbrain.cluster.permits import ALARMS
from splitbrain.harness.cli import options, parsing
from splitbrain.harness.cli.clusters.call import Call, with_call
from splitbrain.harness.cli.clusters.printing import as_document

if TYPE_CHECKING:
    from splitbrain.cluster.classicclient import ClassicQueues
    from splitbrain.cluster.classicoperators import SeenClassicQueue, SeenConversions
    from splitbrain.cluster.client import Client
    from splitbrain.harness.cli.answers.clusters import ConvertAnswer, EnableAnswer, LimitAnswer

T = TypeVar("T")


@click.command("classic_queues", cls=parsing.Command)
@options.as_json
@with_call
def classic_queues(call: Call, as_json: bool) -> None:
    """Print the classic queues, with their nodes, their messages, delivery limits, and versions of files.

    \b
    Examples:
      splitbrain cluster ctl classic_queues
      splitbrain cluster ctl classic_queues --json
    """

    async def ask(client: Client) -> list[SeenClassicQueue]:
        from splitbrain.cluster import classicoperators

        return await classicoperators.every(client, call.timeout_ms)

    found = call.ask(ask)
    if as_json:
        click.echo(as_document(found))
        return
    if not found:
        click.echo("no classic queues")
        return
    width = max(len(each.name) for each in found)
    for each in found:
        click.echo(f"{each.name:{width}}  node {each.node}  {_in_words(each)}")


def _in_words(queue: SeenClassicQueue) -> str:
    if queue.problem is not None:
        return f"({queue.problem})"
    limit = "-" if queue.limit is None else queue.limit
    versions = ", ".join(str(version) for version in sorted(set((queue.versions or {}).values())))
    return (
        f"ready {queue.ready}  taken {queue.taken}  dropped {queue.dropped}  dead {queue.dead}  limit {limit}  "
        f"dead letters to {queue.dead_letter_to or '-'}  versions {versions}"
    )


@click.command("convert_queue", cls=parsing.Command)
@click.argument("queue", callback=parsing.named)
@options.as_json
@with_call
def convert_queue(call: Call, queue: str, as_json: bool) -> None:
    """Have all files of classic QUEUE converted to records of version 2, which hold counts of redeliveries.

    Its node is asked first, and refuses while it has an alarm, or more messages to convert than it may.
    `classic_queues` says which versions the files have.

    \b
    Example:
      splitbrain cluster ctl convert_queue jobs
    """
    converts = _asked(call, lambda queues: queues.convert(queue, timeout_ms=call.timeout_ms))
    if as_json:
        answer: ConvertAnswer = {"queue": queue, "converts": converts}
        click.echo(as_document(answer))
    else:
        click.echo(f"{queue}: {'its node converts it.' if converts else 'there was nothing to change.'}")


@click.command("set_delivery_limit", cls=parsing.Command)
@click.argument("limit", type=click.IntRange(min=0))
@click.option("--pattern", default=".*", help="A regular expression, found in the names of the queues it is for.")
@click.option("--dead-letter-to", callback=parsing.named, help="The queue that gets their dead letters.")
@options.as_json
@with_call
def set_delivery_limit(call: Call, limit: int, pattern: str, dead_letter_to: str | None, as_json: bool) -> None:
    """Have messages of classic queues delivered again LIMIT times at most, by the operator's policy.

    A lower limit of a queue's declaration, or of a user's policy, counts instead. There is one such policy: the last.

    \b
    Examples:
      splitbrain cluster ctl set_delivery_limit 20
      splitbrain cluster ctl set_delivery_limit 5 --pattern '^jobs' --dead-letter-to dead
    """

    async def ask(client: Client) -> None:
        from splitbrain.cluster import classicoperators

        await classicoperators.set_limit(client, limit, pattern, dead_letter_to, call.timeout_ms)

    call.ask(ask, call.node())
    if as_json:
        answer: LimitAnswer = {"limit": limit, "pattern": pattern, "dead_letter_to": dead_letter_to}
        click.echo(as_document(answer))
    else:
        click.echo(f"Classic queues that match {pattern} deliver a message again {limit} times at most.")


@click.command("alarms", cls=parsing.Command)
@options.as_json
@with_call
def alarms(call: Call, as_json: bool) -> None:
    """Print the alarms of all nodes, and the transformations of stored data that each has begun.

    \b
    Examples:
      splitbrain cluster ctl alarms
      splitbrain cluster ctl alarms --json
    """

    async def ask(client: Client) -> list[SeenConversions]:
        from splitbrain.cluster import classicoperators

        return await classicoperators.conversions(client, call.timeout_ms)

    found = call.ask(ask)
    if as_json:
        click.echo(as_document(found))
        return
    for each in found:
        click.echo(_of_node(each))


@click.command("set_alarm", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@click.argument("alarm", type=click.Choice(ALARMS))
@options.as_json
@with_call
def set_alarm(call: Call, name: str, alarm: str, as_json: bool) -> None:
    """Set ALARM of node NAME, which converts no files of classic queues until it is cleared, or the node begins anew.

    \b
    Example:
      splitbrain cluster ctl set_alarm n2 disk
    """
    _alarmed(call, name, alarm, as_json, is_active=True)


@click.command("clear_alarm", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@click.argument("alarm", type=click.Choice(ALARMS))
@options.as_json
@with_call
def clear_alarm(call: Call, name: str, alarm: str, as_json: bool) -> None:
    """Clear ALARM of node NAME: what it was to convert meanwhile it converts now.

    \b
    Example:
      splitbrain cluster ctl clear_alarm n2 disk
    """
    _alarmed(call, name, alarm, as_json, is_active=False)


def _alarmed(call: Call, name: str, alarm: Any, as_json: bool, *, is_active: bool) -> None:
    call.layout.find(name)

    async def ask(client: Client) -> SeenConversions:
        from splitbrain.cluster import classicoperators

        queues = await client.classic_queues()
        seen = await queues.set_alarm(name, alarm, is_active=is_active, timeout_ms=call.timeout_ms)
        return classicoperators.of_node(name, seen)

    found = call.ask(ask)
    click.echo(as_document(found) if as_json else _of_node(found))


def _of_node(seen: SeenConversions) -> str:
    if seen.problem is not None:
        return f"{seen.node}  ({seen.problem})"
    if seen.transformations is None:
        begun = "none: it has no numpy"
    else:
        begun = ", ".join(f"{name} {version}" for name, version in seen.transformations.items()) or "-"
    return f"{seen.node}  alarms {', '.join(seen.alarms or ()) or '-'}  transformations {begun}"


@click.command("enable_transformation", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@options.as_json
@with_call
def enable_transformation(call: Call, name: str, as_json: bool) -> None:
    """Have all nodes begin transformation NAME of stored data, or none: message_properties.

    All must run, and are asked before the first one begins. From then on files of classic queues are converted where a
    count of redeliveries is to be written. Nodes that began with this program have begun it.

    \b
    Example:
      splitbrain cluster ctl enable_transformation message_properties
    """
    is_new = _asked(call, lambda queues: queues.enable(name, timeout_ms=call.timeout_ms))
    if as_json:
        answer: EnableAnswer = {"enabled": name, "is_new": is_new}
        click.echo(as_document(answer))
    else:
        click.echo(f"{name}: {'all nodes have begun it now.' if is_new else 'all nodes had begun it before.'}")


def _asked(call: Call, use: Callable[[ClassicQueues], Awaitable[T]]) -> T:
    async def ask(client: Client) -> T:
        return await use(await client.classic_queues())

    return call.ask(ask)


COMMANDS: Final = (
    classic_queues,
    convert_queue,
    set_delivery_limit,
    alarms,
    set_alarm,
    clear_alarm,
    enable_transformation,
)
"""Requests to nodes of the metadata cluster."""
