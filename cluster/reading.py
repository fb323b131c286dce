"""What a read promises, and how it is asked for."""

from __future__ import annotations

from typing import Literal, TypeAlias

from splitbrain.cluster.errors import InvalidRequestError
from splitbrain.cluster.tree import Query
from splitbrain.cluster.wire import Body, FencedQuery, LeaderQuery, LocalQuery

ReadMode: TypeAlias = Literal["consistent", "fenced", "leader", "local"]
"""What a read promises. "consistent": it is linearizable (RA-27). "fenced": the node that is asked answers, once it has
applied what the leader that it knows has in its log; stale where that is an old one, but never older than what this
node answered before (KH-11). "leader": a node answers that takes itself for the leader; stale where there is another
one (RA-26). "local": the node that is asked answers from what it has applied (RA-25)."""


def in_mode(query: Query, mode: ReadMode, after: tuple[int, int] | None) -> Body:
    """What is sent for a query; `after` is of a local one, see `wire.LocalQuery`.

    Raises:
        InvalidRequestError: `after` makes no sense in this mode.
    """
    if after is not None and mode != "local":
        raise InvalidRequestError("after is for local reads: others see every command that was answered before them.")
    match mode:
        case "local":
            return LocalQuery(query, after)
        case "leader":
            return LeaderQuery(query)
        case "fenced":
            return FencedQuery(query)
        case "consistent":
            return query
