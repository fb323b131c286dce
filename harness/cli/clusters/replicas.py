"""`splitbrain cluster ctl` for replicas of quorum queues: where they are, and what operators do with them (CMR-1).

They are named as commands of rabbitmq-queues and rabbitmq-upgrade are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Literal

import click

from splitbrain.harness.cli import options, parsing
from splitbrain.harness.cli.clusters.call import Call, with_call
from splitbrain.harness.cli.clusters.printing import as_document

if TYPE_CHECKING:
    from splitbrain.cluster.client import Client
    from splitbrain.cluster.queueclient import Queues
    from splitbrain.cluster.queueoperators import SeenQueue
    from splitbrain.harness.cli.answers.clusters import DrainAnswer, DrainedAnswer, MembersOfQueueAnswer, TargetAnswer


@click.command("queues", cls=parsing.Command)
@options.as_json
@with_call
def queues(call: Call, as_json: bool) -> None:
    """Print the quorum queues, with their leaders, their members, and a change of members that is under way.

    The target is that of the declaration; without one policies and the nodes' configuration say it (`list_policies`).

    \b
    Examples:
      splitbrain cluster ctl queues
      splitbrain cluster ctl queues --json
    """
    found = call.ask(_every)
    if as_json:
        click.echo(as_document(found))
        return
    if not found:
        click.echo("no quorum queues")
        return
    width = max(len(each.name) for each in found)
    for each in found:
        change = f"  ({each.change} under way)" if each.change else ""
        click.echo(f"{each.name:{width}}  {_in_words(each)}{change}")


def _in_words(queue: SeenQueue) -> str:
    return f"leader {queue.leader or '-'}  target {queue.target or '-'}  members {', '.join(queue.members)}"


async def _every(client: Client) -> list[SeenQueue]:
    from splitbrain.cluster import queueoperators

    return await queueoperators.every(client)


@click.command("grow", cls=parsing.Command)
@click.argument("queue", callback=parsing.named)
@click.argument("name", callback=parsing.named)
@options.as_json
@with_call
def grow(call: Call, queue: str, name: str, as_json: bool) -> None:
    """Have node NAME take part in QUEUE, and wait until its replica has a vote.

    Refused if the node takes part already, does not run, or is being drained. A change of members that is under way is
    waited for.

    \b
    Example:
      splitbrain cluster ctl grow orders n4
    """
    _changed(call, queue, lambda found: found.grow(queue, name, timeout_ms=call.timeout_ms), as_json)


@click.command("shrink", cls=parsing.Command)
@click.argument("queue", callback=parsing.named)
@click.argument("name", callback=parsing.named)
@options.as_json
@with_call
def shrink(call: Call, queue: str, name: str, as_json: bool) -> None:
    """Have node NAME take part in QUEUE no more, and wait until it does not.

    Refused if too few live replicas would be left, or no majority that runs.

    \b
    Example:
      splitbrain cluster ctl shrink orders n1
    """
    _changed(call, queue, lambda found: found.shrink(queue, name, timeout_ms=call.timeout_ms), as_json)


def _changed(call: Call, queue: str, change: Callable[[Queues], Awaitable[object]], as_json: bool) -> None:
    async def ask(client: Client) -> tuple[str, ...]:
        opened = await client.queues()
        await change(opened)
        return (await opened.record(queue, timeout_ms=call.timeout_ms)).members

    members = call.ask(ask)
    if as_json:
        answer: MembersOfQueueAnswer = {"queue": queue, "members": list(members)}
        click.echo(as_document(answer))
    else:
        click.echo(f"{queue}: members {', '.join(members)}")


@click.command("drain", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@options.as_json
@with_call
def drain(call: Call, name: str, as_json: bool) -> None:
    """Have node NAME lead no queues, and get no new replicas, until `revive`.

    A queue or a stream that is declared meanwhile has none of its first replicas there.

    \b
    Example:
      splitbrain cluster ctl drain n2
    """
    _noted(call, name, "draining", as_json)


@click.command("revive", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@options.as_json
@with_call
def revive(call: Call, name: str, as_json: bool) -> None:
    """Have node NAME lead queues, and get replicas, again.

    \b
    Example:
      splitbrain cluster ctl revive n2
    """
    _noted(call, name, "regular", as_json)


def _noted(call: Call, name: str, state: Literal["draining", "regular"], as_json: bool) -> None:
    call.layout.find(name)

    async def ask(client: Client) -> None:
        from splitbrain.cluster import queueoperators

        await queueoperators.note(client, name, state, call.timeout_ms)

    call.ask(ask, call.node())
    if as_json:
        answer: DrainAnswer = {"node": name, "state": state}
        click.echo(as_document(answer))
    else:
        click.echo(f"{name} is being drained." if state == "draining" else f"{name} takes on work.")


@click.command("list_drained", cls=parsing.Command)
@options.as_json
@with_call
def list_drained(call: Call, as_json: bool) -> None:
    """Print the nodes that are being drained.

    \b
    Example:
      splitbrain cluster ctl list_drained
    """

    async def ask(client: Client) -> list[str]:
        from splitbrain.cluster import queueoperators

        return await queueoperators.drained(client, call.timeout_ms)

    found = call.ask(ask)
    if as_json:
        answer: DrainedAnswer = {"draining": found}
        click.echo(as_document(answer))
    else:
        click.echo(", ".join(found) or "no node is being drained")


@click.command("set_target", cls=parsing.Command)
@click.argument("target", type=click.IntRange(min=1))
@click.option("--pattern", default=".*", help="A regular expression, found in the names of the queues it is for.")
@options.as_json
@with_call
def set_target(call: Call, target: int, pattern: str, as_json: bool) -> None:
    """Have queues and streams keep TARGET live replicas, by a policy; what one was declared with counts before it.

    There is one such policy of users, target-of-replicas: the last. For a queue one policy of users counts, so one with
    more than a target is set by `set_policy`.

    \b
    Examples:
      splitbrain cluster ctl set_target 3
      splitbrain cluster ctl set_target 5 --pattern '^orders'
    """

    async def ask(client: Client) -> None:
        from splitbrain.cluster import queueoperators

        await queueoperators.set_target(client, target, pattern, call.timeout_ms)

    call.ask(ask, call.node())
    if as_json:
        answer: TargetAnswer = {"target": target, "pattern": pattern}
        click.echo(as_document(answer))
    else:
        click.echo(f"Queues that match {pattern} are to have {target} live replicas.")


COMMANDS: Final = (queues, grow, shrink, drain, revive, list_drained, set_target)
