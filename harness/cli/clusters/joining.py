"""Nodes that join the cluster: their processes, their incarnations, and their data.

A node that left joins as its next incarnation, with an empty folder (`splitbrain.cluster.members`). Its former folder
gets another name.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from splitbrain.harness.cli.clusters.asking import with_client
from splitbrain.harness.cli.clusters.call import Call
from splitbrain.harness.cli.clusters.layout import ClusterNode, Layout
from splitbrain.harness.cli.clusters.processes import (
    alive,
    last_words,
    refusal_of_port,
    set_aside,
    start,
    stop,
)
from splitbrain.results.errors import NodeStartError, UsageError

if TYPE_CHECKING:
    from splitbrain.cluster.client import Client, MemberRole

_SERVES_S: Final = 10.0
_AGAIN_S: Final = 0.1

NOT_YET: Final = ("change_not_permitted", "not_up_to_date")
"""Refusals that pass: another change is under way, or a member has to catch up."""


class Membership(msgspec.Struct, frozen=True):
    """The members that a node sees: ids of voters, and ids of learners."""

    voters: tuple[str, ...]
    learners: tuple[str, ...]

    def of(self, name: str) -> str | None:
        """The id of the member that a node is, None if it is none."""
        from splitbrain.cluster.client import node_of

        return next((each for each in (*self.voters, *self.learners) if node_of(each) == name), None)


async def membership(client: Client) -> Membership:
    """The members that a node sees."""
    return Membership(await client.members(), await client.learners())


async def settled(call: Call, change: Callable[[], Awaitable[Any]]) -> None:
    """Change the members; again while that is refused for a reason that passes, until the time is up.

    Raises:
        ClusterError: it is refused, or its outcome is unknown.
    """
    from splitbrain.cluster.client import ChangeRefusedError

    deadline = time.monotonic() + call.timeout_s
    while True:
        try:
            await change()
        except ChangeRefusedError as refusal:
            if refusal.reason not in NOT_YET or time.monotonic() >= deadline:
                raise
            await asyncio.sleep(_AGAIN_S)
        else:
            return


class Joining:
    """A node that is to be added.

    Args:
        call: how other nodes are asked.
        name: of the node.

    Attributes:
        said: sentences on what was done, in order.
    """

    def __init__(self, call: Call, name: str) -> None:
        self.said: list[str] = []
        self._call = call
        self._name = name
        self._layout: Layout = call.layout
        if name not in self._layout.names:
            home = self._layout.home
            raise UsageError(
                f"the nodes that run have no address of {name!r}: they know {', '.join(self._layout.names)}. More "
                f"spares: splitbrain cluster down --dir {home}, then splitbrain cluster up --dir {home} --spares N."
            )

    @property
    def _node(self) -> ClusterNode:
        return self._layout.find(self._name)

    def add(self, role: MemberRole) -> None:
        """Start the node if it does not run, and have it taken in; ends the command with 1 if that is refused."""
        if self._node.part == "member" and not any(alive(node) for node in self._layout.nodes):
            self._run()
            return
        asked = self._call.node(self._name)
        known = self._call.ask(membership, asked)
        member = known.of(self._name)
        if member is not None:
            self._add_again(member, asked, role, is_learner=member in known.learners)
            return
        # Of one that was a member the data must not be used again.
        if not alive(self._node) and self._node.part != "spare":
            self._renew(self._node.incarnation + 1)
        while True:
            self._run()
            if self._call.ask(lambda client: self._take_in(client, role), asked):
                self.said.append(f"{self._member} is a {_called(role)} now.")
                return
            self._renew(self._node.incarnation + 1)

    @property
    def _member(self) -> str:
        from splitbrain.cluster.client import member_id

        return member_id(self._name, self._node.incarnation)

    def _add_again(self, member: str, asked: ClusterNode, role: MemberRole, *, is_learner: bool) -> None:
        """Add what is a member: a process that does not run is started, a learner may become a voter."""
        from splitbrain.cluster.client import incarnation_of

        ran = alive(self._node)
        if not ran:
            if incarnation_of(member) != self._node.incarnation:
                self._renew(incarnation_of(member))
            self._run()
        if is_learner and role == "voter":
            self._call.ask(lambda client: settled(self._call, lambda: self._change(client, member, role)), asked)
            self.said.append(f"{member} was a learner and is a voter now.")
        elif ran:
            self._call.ask(lambda client: self._change(client, member, role), asked)
        else:
            self.said.append(f"{member} is a member already.")

    async def _take_in(self, client: Client, role: MemberRole) -> bool:
        """Ask for the change; False if the cluster has known this incarnation before."""
        from splitbrain.cluster.client import ChangeRefusedError

        try:
            await settled(self._call, lambda: self._change(client, self._member, role))
        except ChangeRefusedError as refusal:
            if refusal.reason != "was_member":
                raise
            return False
        return True

    async def _change(self, client: Client, member: str, role: MemberRole) -> None:
        await client.add_member(member, role=role, timeout_ms=self._call.timeout_ms)

    def _renew(self, incarnation: int) -> None:
        self._layout = set_aside(stop(self._layout, self._name), self._name, incarnation)
        self.said.append(f"{self._name} begins again without data, as incarnation {incarnation}.")

    def _run(self) -> None:
        if alive(self._node):
            return
        problem = refusal_of_port(self._node.port)
        if problem is not None:
            raise UsageError(
                f"port {self._node.port}, at which the other nodes look for {self._name}: {problem}. End the program "
                f"that uses it, or choose other ports: splitbrain cluster down, then up --base-port."
            )
        self._layout = start(self._layout, self._name)
        asyncio.run(_until_it_serves(self._layout, self._node))
        self.said.append(f"{self._name} was started, pid {self._node.pid}.")


async def _until_it_serves(layout: Layout, node: ClusterNode) -> None:
    deadline = time.monotonic() + _SERVES_S
    while time.monotonic() < deadline:
        if not alive(node):
            raise NodeStartError(f"node {node.node} ended at once: {last_words(layout, node.node)}")
        try:
            await with_client(node, lambda client: client.status())
        except (OSError, ConnectionError):
            await asyncio.sleep(_AGAIN_S)
        else:
            return
    raise NodeStartError(f"node {node.node} does not serve after {_SERVES_S:g} s: {last_words(layout, node.node)}")


def _called(role: MemberRole) -> str:
    return "learner, and becomes a voter once it has caught up," if role == "promotable" else role
