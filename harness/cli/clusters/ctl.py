"""`splitbrain cluster ctl`: requests to a node of the metadata cluster."""

from __future__ import annotations

import click

from splitbrain.harness.cli import parsing
from splitbrain.harness.cli.clusters import (
    classic,
    flags,
    membership,
    patterns,
    policies,
    queues,
    registered,
    replicas,
    stores,
    streams,
    tree,
    written,
)
from splitbrain.harness.cli.clusters.call import call_options
from splitbrain.harness.cli.clusters.status import status_of_one


@click.group("ctl", cls=parsing.Group, no_args_is_help=False)
@call_options
@click.pass_context
def ctl(ctx: click.Context, node: str | None, timeout: float | None, directory: str | None) -> None:
    """Ask a node of the cluster: for a value, a change of the tree, a change of the members, a snapshot.

    Exit code 1 if the request was refused, or if its outcome is unknown.

    \b
    Examples:
      splitbrain cluster ctl put /queues/orders '{"durable": true}'
      splitbrain cluster ctl --node n2 get /queues/orders --mode local
      splitbrain cluster ctl status --node n2
      splitbrain cluster ctl list '/queues/*'
      splitbrain cluster ctl transact move:1 '{"from": "/a", "to": "/b"}'
      splitbrain cluster ctl members
      splitbrain cluster ctl add n4 --role promotable
      splitbrain cluster ctl transfer n2
      splitbrain cluster ctl remove n1
      splitbrain cluster ctl snapshot --node n3
      splitbrain cluster ctl list_feature_flags
      splitbrain cluster ctl migrate
      splitbrain cluster ctl cluster_status
      splitbrain cluster ctl declare_queue orders
      splitbrain cluster ctl queues
      splitbrain cluster ctl drain n2
      splitbrain cluster ctl streams
      splitbrain cluster ctl classic_queues
      splitbrain cluster ctl list_policies
    """
    ctx.obj = {"node": node, "timeout": timeout, "directory": directory}


_OF_THE_TREE = (*tree.COMMANDS, *patterns.COMMANDS, *registered.COMMANDS)

_OF_NODES = (*membership.COMMANDS, status_of_one, *written.COMMANDS, *flags.COMMANDS, *stores.COMMANDS)

for each in (
    *_OF_THE_TREE,
    *_OF_NODES,
    *queues.COMMANDS,
    *replicas.COMMANDS,
    *streams.COMMANDS,
    *policies.COMMANDS,
    *classic.COMMANDS,
):
    ctl.add_command(each)
