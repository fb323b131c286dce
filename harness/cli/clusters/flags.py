"""`splitbrain cluster ctl list_feature_flags` and `enable_feature_flag`: what all nodes of the cluster can do (FF-1).

They are named as RabbitMQ's commands are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import msgspec

from splitbrain.harness.cli import options, parsing
from splitbrain.harness.cli.clusters.call import Call, with_call
from splitbrain.harness.cli.clusters.printing import as_document

if TYPE_CHECKING:
    from splitbrain.harness.cli.answers.clusters import FlagEnabledAnswer


@click.command("list_feature_flags", cls=parsing.Command)
@options.as_json
@with_call
def list_feature_flags(call: Call, as_json: bool) -> None:
    """Print the feature flags that one node knows, and their states there.

    A flag is disabled, enabled, or its state is changing: then all nodes are enabling it, or undoing that. It is
    unknown while a node that joined has not heard yet what is enabled.

    \b
    Examples:
      splitbrain cluster ctl list_feature_flags
      splitbrain cluster ctl list_feature_flags --node n3 --json
    """
    found = call.ask(lambda client: client.feature_flags(), call.node())
    if as_json:
        click.echo(as_document([msgspec.to_builtins(flag) for flag in found]))
        return
    width = max(len(flag.name) for flag in found)
    for flag in found:
        click.echo(f"{flag.name:{width}}  {flag.state:14}  {flag.stability:12}  {flag.line}".rstrip())


@click.command("enable_feature_flag", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@click.option("--experimental", is_flag=True, help="Enable it although it is experimental.")
@options.as_json
@with_call
def enable_feature_flag(call: Call, name: str, experimental: bool, as_json: bool) -> None:
    """Enable feature flag NAME on all nodes, and what it depends on before it.

    All members must run, and know it. It is enabled on all of them or on none, also if the node of --node dies
    meanwhile. A flag that is enabled is never disabled again.

    \b
    Examples:
      splitbrain cluster ctl enable_feature_flag khepri_db --experimental
      splitbrain cluster ctl enable_feature_flag khepri_db --experimental --node n2
    """
    asked = call.node()
    call.ask(
        lambda client: client.enable_feature_flag(name, experimental=experimental, timeout_ms=call.timeout_ms), asked
    )
    if as_json:
        answer: FlagEnabledAnswer = {"enabled": name}
        click.echo(as_document(answer))
    else:
        click.echo(f"{name} is enabled on all nodes.")


COMMANDS: Final = (list_feature_flags, enable_feature_flag)
