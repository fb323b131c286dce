"""A member takes a node into its cluster: it says to all members where the node is, then asks the leader for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

from splitbrain.cluster import wire
from splitbrain.cluster.discovery.book import Book
from splitbrain.cluster.discovery.calls import ask_all
from splitbrain.cluster.discovery.messages import Done, Introduce, Refused, Reply, TakeIn
from splitbrain.cluster.pending import Answering
from splitbrain.cluster.runtime import Runtime

_INTRODUCE_MS: Final = 500

MemberOf: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""Names of the members of a cluster, and their ids."""


class TakingIn:
    """What a member does for nodes that join."""

    def __init__(self, runtime: Runtime, book: Book) -> None:
        self._runtime = runtime
        self._book = book

    async def answer(self, request: TakeIn, cluster: MemberOf, change: Callable[[Answering], None]) -> Reply:
        """Have a node taken in; the answer for it. `change` asks the leader, and gives its answer on."""
        members, ids = cluster
        name = request.peer.name
        if name in members and (request.member not in ids or not request.again):
            return Refused(other_data(name))
        self._book.learn((request.peer,))
        others = {member: self._book.addresses[member] for member in members if member in self._book.addresses}
        others.pop(name, None)
        # A leader that does not know where the node is refuses it. One that misses this learns it later
        # (`Book.complete`).
        await ask_all(self._runtime, others, Introduce((request.peer,)), _INTRODUCE_MS)
        outcome: asyncio.Future[wire.Outcome] = asyncio.get_running_loop().create_future()

        def answered(_term: int, said: wire.Outcome, _index: int) -> None:
            if not outcome.done():
                outcome.set_result(said)

        change(answered)
        return _reply(await outcome, name, again=request.again)


def other_data(name: str) -> str:
    """Why a node cannot join under a name that a member has; a clause."""
    return (
        f"{name} is a member with other data: if these are lost, remove it from the cluster "
        f"(splitbrain cluster ctl remove {name}), and start {name} with a higher --incarnation"
    )


def _reply(outcome: wire.Outcome, name: str, *, again: bool) -> Reply:
    match outcome:
        case wire.MemberList():
            return Done()
        case wire.Failure("already_member"):
            return Done() if again else Refused(other_data(name))
        case wire.Failure("was_member"):
            return Refused(f"{name} was a member before: start it with a higher --incarnation and an empty directory")
        case wire.Failure(reason, _, detail):
            return Refused(f"{reason}: {detail}")
        case _:
            return Refused(f"the leader answered {type(outcome).__name__}")
