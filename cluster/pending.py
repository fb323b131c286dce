"""A client's request from its arrival to its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias, get_args

from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.readfacts import Arrival
from splitbrain.cluster.runtime import Timer
from splitbrain.cluster.tree import Query
from splitbrain.cluster.wire import (
    FencedQuery,
    ForceShrinkMembers,
    Forwardable,
    FromMember,
    LeaderQuery,
    LocalQuery,
    Outcome,
    Priority,
    StateRequest,
)

_WRAPPED: Final = frozenset({LocalQuery, LeaderQuery, FencedQuery})
_QUERIES: Final = frozenset((*get_args(Query), *_WRAPPED))
"""By type, on a hot path: `isinstance` asks each type of a union, and a struct's says no slowly."""

Wanted: TypeAlias = Forwardable | LocalQuery | FencedQuery | ForceShrinkMembers | StateRequest

Answering: TypeAlias = Callable[[int, Outcome, int], None]
"""Takes the term in which an answer is given, the answer, and the index to which it belongs (`wire.Answer`)."""

Reply: TypeAlias = str | FromMember
"""A `wire.ReplyMode`, as soon as that is checked."""


class Pending:
    """A request that was not answered yet. Consensus carries it as a `ref`.

    Attributes:
        number: distinguishes it from all others of this process.
        body: what is wanted.
        answer: takes the answer.
        by_peer: whether a peer passed it on, or this node wants it itself: it is not tried again with another leader.
        reply: how a command is answered.
        priority: of a command.
        stage: what it waits for.
        asked: the member that it was passed on to, whose answer is waited for.
        settled: the answer that a member has yet to confirm, in the form that `answer` takes.
        timer: ends the wait.
        awaited: what `Waits.add` gave for the entry that it waits for, 0 if it waits for none.
        answered: whether it was.
        arrival: of a read at the leader, how it was when consensus took it up, for telemetry.
    """

    __slots__ = (
        "answer",
        "answered",
        "arrival",
        "asked",
        "awaited",
        "body",
        "by_peer",
        "number",
        "priority",
        "reply",
        "settled",
        "stage",
        "timer",
    )

    def __init__(
        self,
        number: int,
        body: Wanted | bytes,
        answer: Answering,
        *,
        by_peer: bool = False,
        reply: Reply = "leader",
        priority: Priority = "normal",
    ) -> None:
        """A body of bytes is a command of this node itself, as it stands in the log."""
        self.number = number
        self.body = body
        self.answer = answer
        self.by_peer = by_peer
        self.reply = reply
        self.priority: Priority = priority
        self.stage: Literal["waiting", "proposed", "forwarded", "applying", "writing"] = "waiting"
        self.asked: NodeId | None = None
        self.settled: tuple[int, Outcome, int] | None = None
        self.timer: Timer | None = None
        self.awaited = 0
        self.answered = False
        self.arrival: Arrival | None = None

    @property
    def is_query(self) -> bool:
        """Whether it changes nothing."""
        return type(self.body) in _QUERIES

    @property
    def query(self) -> Query:
        """What it asks; it must be a query."""
        body: Any = self.body
        if type(body) in _WRAPPED:
            body = body.query
        assert type(body) in _QUERIES, "a command was read"
        return body
