"""`splitbrain cluster ctl` for policies: what is to hold for queues and streams by their names (CMR-1, CQ-6).

They are named as commands of rabbitmqctl are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, cast

import click

from splitbrain.harness.cli import options, parsing
from splitbrain.harness.cli.clusters.call import Call, with_call
from splitbrain.harness.cli.clusters.printing import as_document, value_of
from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    from splitbrain.cluster.client import Client
    from splitbrain.cluster.queueoperators import SeenPolicy
    from splitbrain.harness.cli.answers.clusters import ClearedPolicyAnswer, PolicyAnswer

_PRIORITY: Final = click.IntRange(-(2**31), 2**31 - 1)


@click.command("list_policies", cls=parsing.Command)
@options.as_json
@with_call
def list_policies(call: Call, as_json: bool) -> None:
    """Print the policies of users and of the operator, in the order in which they count.

    For a queue or a stream the first policy of users that is for it counts, and beside it the first one of the
    operator. `set_target` sets one of users, `set_delivery_limit` one of the operator.

    \b
    Examples:
      splitbrain cluster ctl list_policies
      splitbrain cluster ctl list_policies --json
    """

    async def ask(client: Client) -> list[SeenPolicy]:
        from splitbrain.cluster import queueoperators

        return await queueoperators.every_policy(client, call.timeout_ms)

    found = call.ask(ask)
    if as_json:
        click.echo(as_document(found))
        return
    if not found:
        click.echo("no policies")
        return
    width = max(len(each.name) for each in found)
    for each in found:
        whose = "operator" if each.operator else "user    "
        settings = ", ".join(f"{setting} {value}" for setting, value in sorted(each.definition.items()))
        of = f"{each.apply_to} that match {each.pattern}"
        click.echo(f"{each.name:{width}}  {whose}  priority {each.priority}  {of}  {settings}")


@click.command("set_policy", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@click.argument("pattern", callback=parsing.named)
@click.argument("definition")
@click.option("--priority", default=0, show_default=True, type=_PRIORITY, help="The highest one that matches counts.")
@click.option(
    "--apply-to",
    default="all",
    show_default=True,
    type=click.Choice(("all", "queues")),
    help="What it is for; streams are queues.",
)
@click.option("--operator", is_flag=True, help="One of the operator: it counts beside those of users.")
@options.as_json
@with_call
def set_policy(
    call: Call,
    name: str,
    pattern: str,
    definition: str,
    priority: int,
    apply_to: Literal["all", "queues"],
    operator: bool,
    as_json: bool,
) -> None:
    """Have what DEFINITION says hold for queues and streams in whose names the regular expression PATTERN is found.

    DEFINITION is a JSON object: target-group-size (quorum queues and streams), max-length-bytes and max-age (streams),
    delivery-limit, dead-letter-to and queue-mode (classic queues). A policy NAME that is there is replaced.

    \b
    Examples:
      splitbrain cluster ctl set_policy week '^events' '{"max-age": "7D", "target-group-size": 3}'
      splitbrain cluster ctl set_policy disk '.*' '{"max-length-bytes": 1000000000}' --operator
    """
    value = value_of(definition)
    if not isinstance(value, dict) or not value:
        raise UsageError(f'DEFINITION {definition}: give a JSON object, such as \'{{"max-age": "7D"}}\'.')
    given = cast("dict[str, Any]", value)

    async def ask(client: Client) -> None:
        from splitbrain.cluster import queueoperators

        await queueoperators.set_policy(
            client,
            name,
            pattern,
            given,
            priority=priority,
            apply_to=apply_to,
            operator=operator,
            timeout_ms=call.timeout_ms,
        )

    call.ask(ask, call.node())
    if as_json:
        answer: PolicyAnswer = {
            "policy": name,
            "pattern": pattern,
            "definition": given,
            "priority": priority,
            "apply_to": apply_to,
            "operator": operator,
        }
        click.echo(as_document(answer))
    else:
        click.echo(f"{name} is for what matches {pattern}.")


@click.command("clear_policy", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@click.option("--operator", is_flag=True, help="One of the operator.")
@options.as_json
@with_call
def clear_policy(call: Call, name: str, operator: bool, as_json: bool) -> None:
    """Remove policy NAME.

    What a stream has dropped by it does not come back, and replicas that are there by it stay.

    \b
    Examples:
      splitbrain cluster ctl clear_policy target-of-replicas
      splitbrain cluster ctl clear_policy delivery-limit --operator
    """

    async def ask(client: Client) -> bool:
        from splitbrain.cluster import queueoperators

        return await queueoperators.clear_policy(client, name, operator=operator, timeout_ms=call.timeout_ms)

    was_there = call.ask(ask, call.node())
    if as_json:
        answer: ClearedPolicyAnswer = {"policy": name, "operator": operator, "was_there": was_there}
        click.echo(as_document(answer))
    else:
        click.echo(f"{name} is removed." if was_there else f"There was no policy {name}.")


COMMANDS: Final = (list_policies, set_policy, clear_policy)
