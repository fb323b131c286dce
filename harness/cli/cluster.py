"""`splitbrain cluster`: run the metadata cluster by hand, as processes on this machine that live until they are
stopped.
"""

from __future__ import annotations

import click

from splitbrain.harness.cli import parsing
from splitbrain.harness.cli.clusters.ctl import ctl
from splitbrain.harness.cli.clusters.files import log, state
from splitbrain.harness.cli.clusters.lifecycle import down, up
from splitbrain.harness.cli.clusters.status import status


@click.group("cluster", cls=parsing.Group)
def command() -> None:
    """Start, stop and use the metadata cluster by hand.

    \b
    Examples:
      splitbrain cluster up --nodes 3
      splitbrain cluster ctl put /queues/orders '{"durable": true}'
      splitbrain cluster ctl --node n2 get /queues/orders
      splitbrain cluster status
      splitbrain cluster ctl add n4 --role promotable
      splitbrain cluster down
      splitbrain cluster log metadata-cluster/n1
    """


for each in (up, down, status, ctl, log, state):
    command.add_command(each)
