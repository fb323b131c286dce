"""The metadata tree: a deterministic state machine of named nodes with payloads and versions, modelled on Khepri.

What others use of it stands here; the modules say more.
"""

from __future__ import annotations

from splitbrain.cluster.tree.messages import (
    Children,
    Command,
    CompareAndSwap,
    Create,
    Delete,
    Done,
    Forgotten,
    Get,
    Increment,
    InvalidCommand,
    ManyNodesDenied,
    MismatchingNode,
    Names,
    NodeNotFound,
    Project,
    Properties,
    Put,
    Query,
    Result,
    TooManyRefs,
    Update,
    encode_command,
)
from splitbrain.cluster.tree.nodes import HASH_MASK, share
from splitbrain.cluster.tree.paths import Path, format_path, is_pattern, parse_path
from splitbrain.cluster.tree.state import IMPLICIT_PARENTS_GO, NEWEST_VERSION, Tree

__all__ = [
    "HASH_MASK",
    "IMPLICIT_PARENTS_GO",
    "NEWEST_VERSION",
    "Children",
    "Command",
    "CompareAndSwap",
    "Create",
    "Delete",
    "Done",
    "Forgotten",
    "Get",
    "Increment",
    "InvalidCommand",
    "ManyNodesDenied",
    "MismatchingNode",
    "Names",
    "NodeNotFound",
    "Path",
    "Project",
    "Properties",
    "Put",
    "Query",
    "Result",
    "TooManyRefs",
    "Tree",
    "Update",
    "encode_command",
    "format_path",
    "is_pattern",
    "parse_path",
    "share",
]
