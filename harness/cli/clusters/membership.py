"""`splitbrain cluster ctl members`, `add`, `remove`, `transfer` and others: who is a member, and who leads (KH-16)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click
import msgspec

from splitbrain.harness.cli import options, parsing
from splitbrain.harness.cli.clusters.call import Call, fail, with_call
from splitbrain.harness.cli.clusters.joining import Joining, Membership, membership, settled
from splitbrain.harness.cli.clusters.layout import ClusterNode
from splitbrain.harness.cli.clusters.printing import as_document
from splitbrain.harness.cli.clusters.processes import alive, set_aside, stop
from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    from splitbrain.cluster.client import Client, MemberRole
    from splitbrain.harness.cli.answers.clusters import MembersAnswer, TransferAnswer


@click.command("members", cls=parsing.Command)
@options.as_json
@with_call
def members(call: Call, as_json: bool) -> None:
    """Print the members, as one node sees them: a change may not be committed yet.

    A member is a node, or a later incarnation of it (n2#1) if it left and joined again.

    \b
    Examples:
      splitbrain cluster ctl members
      splitbrain cluster ctl members --node n3 --json
    """
    _show([], call.ask(membership), as_json)


@click.command("add", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@click.option(
    "--role",
    type=click.Choice(["voter", "promotable", "learner"]),
    default="voter",
    show_default=True,
    help="promotable: a learner that becomes a voter once it has caught up. learner: it gets the log, and never votes.",
)
@options.as_json
@with_call
def add(call: Call, name: str, role: MemberRole, as_json: bool) -> None:
    """Start node NAME if it does not run, and have it taken in as a member.

    NAME is a spare (see `splitbrain cluster up`), a node that left, or a member whose process has ended. A node that
    left begins again without data, as another member; its former folder is kept under another name. A learner that
    is added as a voter becomes one.

    \b
    Examples:
      splitbrain cluster ctl add n4
      splitbrain cluster ctl add n5 --role learner
      splitbrain cluster ctl add n5 --role voter
    """
    joining = Joining(call, name)
    joining.add(role)
    _show(joining.said, call.ask(membership), as_json)


@click.command("remove", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@options.as_json
@with_call
def remove(call: Call, name: str, as_json: bool) -> None:
    """Have node NAME leave the cluster, and stop its process.

    The member leaves for ever: its data are not used again. `add` lets the node join as another member.

    \b
    Example:
      splitbrain cluster ctl remove n2
    """
    said, asked = _left(call, name)
    _show(said, call.ask(membership, asked), as_json)


@click.command("join", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@options.as_json
@with_call
def join(call: Call, name: str, as_json: bool) -> None:
    """Have node NAME join the cluster as a voter, without data, unless it is a member that runs already.

    As `add`; but to ask again is no error.

    \b
    Example:
      splitbrain cluster ctl join n4
    """
    asked = call.node(name)
    known = call.ask(membership, asked)
    joining = Joining(call, name)
    if known.of(name) is None or not alive(call.layout.find(name)):
        joining.add("voter")
    else:
        joining.said.append(f"{known.of(name)} is a member already.")
    _show(joining.said, call.ask(membership, asked), as_json)


@click.command("reset", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@click.option("--yes", is_flag=True, help="Do it: what only this node has is lost.")
@options.as_json
@with_call
def reset(call: Call, name: str, yes: bool, as_json: bool) -> None:
    """Have node NAME leave the cluster, stop its process, and put its data aside: it can join again without them.

    \b
    Example:
      splitbrain cluster ctl reset n2 --yes
      splitbrain cluster ctl join n2
    """
    if not yes:
        raise UsageError(f"reset {name}: what only {name} has is lost. If that is meant, add --yes.")
    said, asked = _left(call, name)
    left = set_aside(call.layout, name, call.layout.find(name).incarnation + 1)
    left.with_nodes(msgspec.structs.replace(left.find(name), part="spare"))
    said.append(f"The data of {name} were put aside; it begins again as incarnation {left.find(name).incarnation}.")
    _show(said, call.ask(membership, asked), as_json)


def _left(call: Call, name: str) -> tuple[list[str], ClusterNode]:
    """Have a node leave and stop its process; what was done, and a node that can be asked afterwards."""
    from splitbrain.cluster.client import ChangeRefusedError, member_id

    node = call.layout.find(name)
    asked = call.node(name)
    member = call.ask(membership, asked).of(name) or member_id(name, node.incarnation)

    async def change(client: Client) -> bool:
        try:
            await settled(call, lambda: client.remove_member(member, timeout_ms=call.timeout_ms))
        except ChangeRefusedError as refusal:
            if refusal.reason != "not_member" or not alive(node):
                raise
            return False
        return True

    was_member = call.ask(change, asked)
    ran = alive(node)
    stopped = stop(call.layout, name)
    stopped.with_nodes(msgspec.structs.replace(stopped.find(name), part="removed"))
    said = [f"{member} left the cluster." if was_member else f"{member} is no member."]
    if ran:
        said.append(f"The process of {name} was stopped.")
    others = [each for each in call.layout.nodes if each.node != name and alive(each)]
    return said, asked if asked.node != name or not others else others[0]


@click.command("transfer", cls=parsing.Command)
@click.argument("name", callback=parsing.named)
@options.as_json
@with_call
def transfer(call: Call, name: str, as_json: bool) -> None:
    """Have the leader ask node NAME to stand for election at once.

    It is usually elected within milliseconds; `splitbrain cluster status` shows it.

    \b
    Example:
      splitbrain cluster ctl transfer n2
    """
    node = call.layout.find(name)
    asked = call.node()
    found = call.ask(membership, asked)
    member = found.of(name)
    if member is None:
        fail(f"{asked.node}: {node.node} is no member. Members: {', '.join((*found.voters, *found.learners))}.")
    call.ask(
        lambda client: settled(call, lambda: client.transfer_leadership(member, timeout_ms=call.timeout_ms)), asked
    )
    if as_json:
        answer: TransferAnswer = {"asked": member}
        click.echo(as_document(answer))
    else:
        click.echo(f"{member} was asked to stand for election.")


@click.command("force-shrink", cls=parsing.Command)
@click.option("--yes", is_flag=True, help="Do it: see above for what is lost.")
@options.as_json
@with_call
def force_shrink(call: Call, yes: bool, as_json: bool) -> None:
    """Make the node of --node the only member, for a majority that is lost for ever.

    Without a majority the cluster can neither change its members nor commit anything. This makes one node go on alone,
    at once, with what it has. What only the others have is lost, even if it was acknowledged. They must never run
    again with their data: there would be two clusters. Their processes are stopped, and `add` lets them join without
    data.

    \b
    Example, of three nodes of which n2 and n3 are lost:
      splitbrain cluster ctl force-shrink --node n1 --yes
      splitbrain cluster ctl add n2
      splitbrain cluster ctl add n3
    """
    layout, node = call.layout, call.wanted
    if node is None:
        raise UsageError("force-shrink: name the node that is to be the only member: --node NAME.")
    others = [each.node for each in layout.state.nodes if each.node != node.node and each.part == "member"]
    if not yes:
        lost = ", ".join(others) or "no other node"
        raise UsageError(
            f"force-shrink makes {node.node} the only member. What it lacks of what was acknowledged is lost, and "
            f"{lost} can only join again without data. If a majority can run again, start that. If not: add --yes."
        )
    if not alive(node):
        fail(f"{node.node} does not run: start it with splitbrain cluster ctl add {node.node}.")
    # First: two clusters are worse than none.
    stopped = stop(layout, *others)
    stopped.with_nodes(*(msgspec.structs.replace(stopped.find(each), part="removed") for each in others))
    left = call.ask(lambda client: client.force_shrink(timeout_ms=call.timeout_ms), node)
    said = [f"{', '.join(left)} is the only member.", *([f"Stopped: {', '.join(others)}."] if others else [])]
    _show(said, Membership(left, ()), as_json)


def _show(said: Sequence[str], found: Membership, as_json: bool) -> None:
    """Print what was done, and the members."""
    if as_json:
        answer: MembersAnswer = {"voters": list(found.voters), "learners": list(found.learners), "done": list(said)}
        click.echo(as_document(answer))
        return
    for each in said:
        click.echo(each)
    click.echo(f"voters    {', '.join(found.voters)}")
    if found.learners:
        click.echo(f"learners  {', '.join(found.learners)}")


COMMANDS: Final = (members, add, join, remove, reset, transfer, force_shrink)
