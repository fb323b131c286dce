"""`splitbrain cluster ctl migrate`, `rollback` and `cluster_status`: the two stores of entities (M2K-2, M2K-5).

The last is named as RabbitMQ's command is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, cast

import click
import msgspec

from splitbrain.harness.cli import options, parsing
from splitbrain.harness.cli.clusters.call import Call, with_call
from splitbrain.harness.cli.clusters.printing import as_document

if TYPE_CHECKING:
    from splitbrain.cluster.client import Client, StoresState
    from splitbrain.harness.cli.answers.clusters import ClusterStatusAnswer, StoreAnswer

_NAMES: Final = {
    "tables": "the tables are",
    "tree": "the tree is",
    "none": "no store is",
    "unknown": "it is unknown which store is",
}


@click.command("migrate", cls=parsing.Command)
@options.as_json
@with_call
def migrate(call: Call, as_json: bool) -> None:
    """Move all entities from the tables to the tree, and enable the feature flag khepri_db.

    The nodes must have been started with --store tables, and all of them must run. Clients can go on meanwhile: their
    calls wait for as long as no store is in force. It is carried out on all nodes or on none, also if the node of
    --node dies. The tables are kept for a day, for `rollback`.

    \b
    Examples:
      splitbrain cluster ctl migrate
      splitbrain cluster ctl migrate --node n2 --timeout 60
    """
    _asked(call, lambda client: client.migrate(timeout_ms=call.timeout_ms), as_json)


@click.command("rollback", cls=parsing.Command)
@options.as_json
@with_call
def rollback(call: Call, as_json: bool) -> None:
    """Have the tables in force again after `migrate`, as long as nothing has changed in the tree.

    Once the tree has taken a change there is no way back: the tables lack it. The feature flag stays enabled, as all
    flags do. `migrate` moves the entities again.

    \b
    Example:
      splitbrain cluster ctl rollback
    """
    _asked(call, lambda client: client.roll_back(timeout_ms=call.timeout_ms), as_json)


def _asked(call: Call, ask: Callable[[Client], Awaitable[StoresState]], as_json: bool) -> None:
    state = call.ask(ask, call.node())
    if as_json:
        answer: StoreAnswer = {"store": state.store}
        click.echo(as_document(answer))
    else:
        click.echo(f"{_NAMES[state.store]} in force.")


@click.command("cluster_status", cls=parsing.Command)
@options.as_json
@with_call
def cluster_status(call: Call, as_json: bool) -> None:
    """Print which store of entities is in force, how far a migration is, the members, and the feature flags.

    \b
    Examples:
      splitbrain cluster ctl cluster_status
      splitbrain cluster ctl cluster_status --node n3 --json
    """
    asked = call.node()
    state = call.ask(lambda client: client.stores(timeout_ms=call.timeout_ms), asked)
    members = call.ask(lambda client: client.members(learners=True), asked)
    flags = {flag.name: flag.state for flag in call.ask(lambda client: client.feature_flags(), asked)}
    if as_json:
        of_flags = {name: str(of) for name, of in flags.items()}
        fields = {"members": list(members), "feature_flags": of_flags, **msgspec.structs.asdict(state)}
        answer = cast("ClusterStatusAnswer", fields)
        click.echo(as_document(answer))
        return
    click.echo(f"members        {', '.join(members)}")
    click.echo(f"store          {_NAMES[state.store]} in force")
    if state.replicas:
        _print_tables(asked.node, state)
    click.echo(f"feature flags  {', '.join(f'{name} {of}' for name, of in flags.items())}")


def _print_tables(node: str, state: StoresState) -> None:
    step = f", step {state.step}" if state.step else ""
    click.echo(f"migration      {state.marker}{step}{', the tree has taken changes' if state.written else ''}")
    click.echo(f"tables         {state.phase} on {node}, with {', '.join(state.active) or 'no other'}")
    if state.partitions:
        click.echo(f"partitions     {', '.join(state.partitions)} run apart from {node}")


COMMANDS: Final = (migrate, rollback, cluster_status)
