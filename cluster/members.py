"""The id of a member: the name of its node, and which life of that node's data it is.

A node that has lost its data must not come back as the member that it was. It would have forgotten its vote
and what it acknowledged, and a member that does not know that it left would still rely on it: of founders n1, n2 and
n3, with n3 cut off while n4 and n5 join and n2 leaves and returns with an empty disk, n3 and n2 are a majority of all
that n3 knows, and have none of what was committed. So it returns as another member, which n3 does not know (etcd draws
an id for each, Ra a uid: RA-33); and a leader never takes in an id that its log has named before.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

from splitbrain.cluster.raft.messages import NodeId

SEPARATOR: Final = "#"
"""Between name and incarnation; a name of a node cannot have it."""


def member_id(node: str, incarnation: int) -> NodeId:
    """The id of a node whose data were lost so often: "n2" while they never were, then "n2#1", "n2#2", ..."""
    return f"{node}{SEPARATOR}{incarnation}" if incarnation else node


def node_of(member: NodeId) -> str:
    """The name of the node that a member is."""
    return member.partition(SEPARATOR)[0]


def names(members: Iterable[NodeId]) -> tuple[str, ...]:
    """The names of the nodes of these members, sorted."""
    return _names(tuple(members))


@functools.lru_cache(maxsize=1024)
def _names(members: tuple[NodeId, ...]) -> tuple[str, ...]:
    return tuple(sorted(node_of(member) for member in members))


def is_member_id(text: str) -> bool:
    """Whether this is the id of some member."""
    try:
        incarnation_of(text)
    except ValueError:
        return False
    return True


def incarnation_of(member: NodeId) -> int:
    """How often its node had lost its data before.

    Raises:
        ValueError: this is no id of a member.
    """
    node, separator, incarnation = member.partition(SEPARATOR)
    if not node or (separator and not (incarnation.isascii() and incarnation.isdigit() and incarnation[0] != "0")):
        raise ValueError(f"{member!r} is no id of a member: it is NAME, or NAME{SEPARATOR}N with N from 1 on.")
    return int(incarnation or 0)
