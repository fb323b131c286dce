"""Where threads find their clients: each thread has its own, or several threads of a node share one (`Test.sharing`).

Applications share clients, too: a connection has several requests under way, and goes on after one that got no answer.
What a client keeps for that (numbers of requests, the results that it still needs) is never met by clients that have
one op at a time, and end with the first op of unknown outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError, NonsenseError
from splitbrain.harness.contract.test import Client, SharedClient, Test
from splitbrain.results.history import Op


class Opened:
    """A client that is open.

    Attributes:
        client: the client.
        users: how many ops are under way on it.
        is_over: no op begins on it any more; the last one that ends closes it.
    """

    __slots__ = ("client", "is_over", "users")

    def __init__(self, client: Client) -> None:
        self.client = client
        self.users = 0
        self.is_over = False


class Place:
    """Where the threads of one group find their client.

    Attributes:
        current: the client on which ops begin; None while there is none.
        opening: held by the op that opens one.
    """

    __slots__ = ("current", "opening")

    def __init__(self) -> None:
        self.current: Opened | None = None
        self.opening = asyncio.Lock()

    def begin(self, opened: Opened, *, is_late: bool) -> None:
        """A client was opened; if that came too late for its op, no other op uses it."""
        if is_late:
            opened.is_over = True
        else:
            self.current = opened

    def end(self, used: Opened) -> None:
        """No op begins on this client any more."""
        used.is_over = True
        if self.current is used:
            self.current = None

    def give_up_opening(self) -> None:
        """An op was given up before it had a client: should its attempt hang, others do not wait for it."""
        self.opening = asyncio.Lock()


def places(test: Test) -> Sequence[Place]:
    """For each thread of a test its place: its own, or that of so many threads of its node as share a client."""
    if not test.sharing:
        return [Place() for _ in range(test.concurrency)]
    found: list[Place] = []
    groups: dict[str, tuple[Place, int]] = {}
    for thread in range(test.concurrency):
        node = test.node_of(thread)
        place, members = groups.get(node, (None, 0))
        if place is None or members == test.sharing:
            place, members = Place(), 0
        groups[node] = place, members + 1
        found.append(place)
    return found


def survives(client: Client, op: Op, error: BaseException | None) -> bool:
    """Whether ops may begin on a client after this one, whose outcome is unknown, or which was refused.

    Args:
        client: one that can be shared.
        op: the op.
        error: what it raised, if it did. After what is no error of a session, its client is not trusted.
    """
    is_session_s = error is None or isinstance(error, (DefiniteError, IndefiniteError))
    if not is_session_s or isinstance(error, NonsenseError):
        return False
    return isinstance(client, SharedClient) and client.survives(op)
