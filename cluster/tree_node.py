"""What an answer says of a tree node."""

from __future__ import annotations

from typing import Any

import msgspec

from splitbrain.cluster.asking import error_of
from splitbrain.cluster.commands import decode_value
from splitbrain.cluster.tree import Done
from splitbrain.cluster.wire import Answer


class TreeNode(msgspec.Struct, frozen=True):
    """A tree node as it was when the request was carried out.

    Attributes:
        term: the term in which the answer was given; of a command, that of its entry.
        value: the payload; None where there is none, or a stored procedure.
        has_payload: whether there is a value, which may be None.
        payload_version: counts changes of the payload, from 1.
        child_list_version: counts commands that added or removed direct children, from 1.
        child_list_length: the number of direct children.
        index: of the entry of a command in the log; of a query, how far the node that answered had applied the log.
    """

    term: int
    value: Any
    has_payload: bool
    payload_version: int
    child_list_version: int
    child_list_length: int
    index: int = 0


def tree_node(answer: Answer) -> TreeNode:
    """The tree node of an answer; one without payload, and with zeros, if none is left.

    Raises:
        ClientError: the answer says that there is none, or why.
    """
    if not isinstance(answer.outcome, Done):
        raise error_of(answer.outcome, answer.term)
    found = answer.outcome.properties
    if found is None:
        return TreeNode(answer.term, None, False, 0, 0, 0, answer.index)
    return TreeNode(
        answer.term,
        decode_value(found.payload) if isinstance(found.payload, bytes) else None,
        isinstance(found.payload, bytes),
        found.payload_version,
        found.child_list_version,
        found.child_list_length,
        answer.index,
    )
