"""`splitbrain cluster ctl` for queues of both types: make one, see what is in it, empty it, remove it (QQ-8, CQ-1).

They are named as commands of rabbitmqadmin and rabbitmqctl are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import click

from splitbrain.harness.cli import options, parsing
from splitbrain.harness.cli.clusters.call import Call, with_call
from splitbrain.harness.cli.clusters.printing import as_document
from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    from splitbrain.cluster.classicclient import ClassicQueues
    from splitbrain.cluster.client import Client
    from splitbrain.cluster.queueclient import QueueOptions, Queues
    from splitbrain.cluster.queueoperators import SeenStatus
    from splitbrain.harness.cli.answers.clusters import DeclaredQueueAnswer, DeletedQueueAnswer, PurgeAnswer

QueueType: TypeAlias = Literal["quorum", "classic"]
F = TypeVar("F", bound=Callable[..., Any])

OF_CLASSIC: Final = frozenset({"delivery_limit", "dead_letter_to"})
"""What a classic queue can be declared with too."""

_TYPE: Final = click.Choice(["quorum", "classic"])
_COUNT: Final = click.IntRange(1, 2**63 - 1)
_LIMIT: Final = click.IntRange(0, 2**63 - 1)

_OF_DECLARATIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option("--members", "initial_group_size", type=_COUNT, help="How many replicate it at first; default: 3."),
    click.option("--target", "target_group_size", type=_COUNT, help="How many live replicas there are to be."),
    click.option(
        "--delivery-limit", type=click.IntRange(-1, 2**31 - 1), help="How often messages may be given back; -1: always."
    ),
    click.option("--max-length", type=_LIMIT, help="How many messages may be ready."),
    click.option("--max-length-bytes", "max_bytes", type=_LIMIT, help="How many bytes of messages may be ready."),
    click.option(
        "--overflow",
        type=click.Choice(["drop_head", "reject_publish"]),
        help="What happens above: the oldest go, or publishers are asked to stop.",
    ),
    click.option("--message-ttl", type=_LIMIT, metavar="MS", help="A message ends after so long."),
    click.option("--expires", type=_COUNT, metavar="MS", help="The queue ends when it is not used for so long."),
    click.option(
        "--single-active-consumer", is_flag=True, default=None, help="One consumer gets all; others succeed it."
    ),
    click.option("--dead-letter-to", callback=parsing.named, help="The queue that gets its dead letters."),
    click.option(
        "--dead-letter-strategy",
        type=click.Choice(["at_most_once", "at_least_once"]),
        help="How often it gets each; at_least_once needs --overflow reject_publish.",
    ),
)


def _of_declarations(function: F) -> F:
    """Add the options that a declaration takes."""
    for option in reversed(_OF_DECLARATIONS):
        function = option(function)
    return function


def _of_either(function: F) -> F:
    """Add the option of a command that finds the type by itself."""
    option = click.option("--type", "kind", type=_TYPE, help="Needed only if there are two queues of that name.")
    return option(function)


@click.command("declare_queue", cls=parsing.Command)
@click.argument("queue", callback=parsing.named)
@click.option("--type", "kind", type=_TYPE, default="quorum", show_default=True, help="A classic one is on one node.")
@_of_declarations
@options.as_json
@with_call
def declare_queue(call: Call, queue: str, kind: QueueType, as_json: bool, **wanted: Any) -> None:
    """Make QUEUE, and wait until it serves. One of that name and type that is there already stays as it is.

    A quorum queue is replicated; a classic one is on the node that is asked (`--node`), and takes a delivery limit and
    a queue for dead letters only.

    \b
    Examples:
      splitbrain cluster ctl declare_queue orders
      splitbrain cluster ctl declare_queue orders --members 5 --delivery-limit 3 --dead-letter-to dead
      splitbrain cluster ctl declare_queue jobs --type classic --node n2
    """
    given = {name: value for name, value in wanted.items() if value is not None}
    if kind == "classic":
        for name in given:
            if name not in OF_CLASSIC:
                option = next(each.opts[0] for each in declare_queue.params if each.name == name)
                raise UsageError(f"{option} is of quorum queues only: remove it, or --type classic.")

    is_new, members = call.ask(lambda client: _declared(call, client, queue, kind, given))
    if as_json:
        answer: DeclaredQueueAnswer = {"queue": queue, "type": kind, "members": members, "is_new": is_new}
        click.echo(as_document(answer))
    else:
        stays = "" if is_new else ", which was there already and stays as it was declared"
        click.echo(f"{queue}: {kind} queue on {', '.join(members)}{stays}")


async def _declared(
    call: Call, client: Client, queue: str, kind: QueueType, given: dict[str, Any]
) -> tuple[bool, list[str]]:
    """Declare a queue; whether that made it, and the ids of its members, or the name of its node."""
    if kind == "classic":
        from splitbrain.cluster import classicoperators

        is_new = await (await client.classic_queues()).declare(queue, **given, timeout_ms=call.timeout_ms)
        every = await classicoperators.every(client, call.timeout_ms)
        return is_new, [each.node for each in every if each.name == queue]
    from splitbrain.cluster.queueclient import QueueOptions

    opened = await client.queues()
    declared = await opened.declare(queue, QueueOptions(**given), timeout_ms=call.timeout_ms)
    return declared.is_new, list((await opened.record(queue, timeout_ms=call.timeout_ms)).members)


@click.command("queue_status", cls=parsing.Command)
@click.argument("queue", callback=parsing.named)
@options.as_json
@with_call
def queue_status(call: Call, queue: str, as_json: bool) -> None:
    """Print what is in the quorum queue QUEUE, as its leader knows it, and what it was declared with.

    `classic_queues` says it of classic ones.

    \b
    Examples:
      splitbrain cluster ctl queue_status orders
      splitbrain cluster ctl queue_status orders --json
    """

    async def ask(client: Client) -> SeenStatus:
        from splitbrain.cluster import queueoperators

        if await queueoperators.types_of(client, queue) == ["classic"]:
            raise UsageError(f"{queue} is a classic queue: see splitbrain cluster ctl classic_queues.")
        return await queueoperators.status(client, queue, call.timeout_ms)

    report = call.ask(ask)
    if as_json:
        click.echo(as_document(report))
    else:
        click.echo(
            f"{queue}: ready {report.ready} ({report.ready_bytes} bytes)  taken {report.checked_out}  "
            f"consumers {report.consumers}  publishers {report.publishers}  dead letters {report.dead_letters}"
        )
        click.echo(f"declared with: {_in_words(report.declared)}")


def _in_words(declared: QueueOptions) -> str:
    limit = declared.delivery_limit
    said = ["no delivery limit" if limit < 0 else f"delivery limit {limit}"]
    lengths = {"max length": declared.max_length, "max bytes": declared.max_bytes}
    said += [f"{name} {most} ({declared.overflow})" for name, most in lengths.items() if most is not None]
    times = {"message ttl": declared.message_ttl, "expires": declared.expires}
    said += [f"{name} {ms} ms" for name, ms in times.items() if ms is not None]
    said += ["single active consumer"] if declared.single_active_consumer else []
    if declared.dead_letter_to is not None:
        said.append(f"dead letters to {declared.dead_letter_to} ({declared.dead_letter_strategy})")
    return "  ".join(said)


@click.command("purge_queue", cls=parsing.Command)
@click.argument("queue", callback=parsing.named)
@_of_either
@options.as_json
@with_call
def purge_queue(call: Call, queue: str, kind: QueueType | None, as_json: bool) -> None:
    """Remove all messages of QUEUE that wait; those that are taken, and dead letters, stay.

    \b
    Examples:
      splitbrain cluster ctl purge_queue orders
      splitbrain cluster ctl purge_queue jobs --type classic
    """

    async def ask(client: Client) -> int:
        queues = await _opened(client, queue, kind)
        return await queues.purge(queue, timeout_ms=call.timeout_ms)

    purged = call.ask(ask)
    if as_json:
        answer: PurgeAnswer = {"queue": queue, "purged": purged}
        click.echo(as_document(answer))
    else:
        click.echo(f"{queue}: {purged} messages removed")


@click.command("delete_queue", cls=parsing.Command)
@click.argument("queue", callback=parsing.named)
@_of_either
@options.as_json
@with_call
def delete_queue(call: Call, queue: str, kind: QueueType | None, as_json: bool) -> None:
    """Remove QUEUE, with its messages.

    \b
    Examples:
      splitbrain cluster ctl delete_queue orders
      splitbrain cluster ctl delete_queue jobs --type classic
    """

    async def ask(client: Client) -> None:
        queues = await _opened(client, queue, kind)
        await queues.delete(queue, timeout_ms=call.timeout_ms)

    call.ask(ask)
    if as_json:
        answer: DeletedQueueAnswer = {"deleted": queue}
        click.echo(as_document(answer))
    else:
        click.echo(f"{queue} is removed.")


async def _opened(client: Client, queue: str, kind: QueueType | None) -> Queues | ClassicQueues:
    """The client of that type of queue; without a type that of the only queue of that name.

    Raises:
        UsageError: there are two of that name.
    """
    if kind is None:
        from splitbrain.cluster import queueoperators

        types = await queueoperators.types_of(client, queue)
        if len(types) > 1:
            raise UsageError(f"there are two queues {queue}: say --type quorum or --type classic.")
        kind = "classic" if types == ["classic"] else "quorum"
    return await (client.classic_queues() if kind == "classic" else client.queues())


COMMANDS: Final = (declare_queue, queue_status, purge_queue, delete_queue)
