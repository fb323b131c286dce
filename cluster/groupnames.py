"""Names of groups: each is a cluster of its own, with its own leader, log and state, in the same processes.

A group that is made again after it was deleted has the name of the former one, and is another group: its incarnation is
higher. Members speak, and report, of a group by its address, which has both, so that nothing of the former group, such
as a message that was long on its way, is taken for the new one's.
"""

from __future__ import annotations

import re
from typing import Final

METADATA: Final = "metadata"
"""The group of the metadata store, which every node has."""

SEPARATOR: Final = "#"
"""Between name and incarnation in an address; a name cannot have it."""

QUEUES: Final = "queue."
"""Groups of quorum queues are named so, with a number behind it that no other one has, or will have: "queue.7"."""

STREAM_COORDINATOR: Final = "stream-coordinator"
"""The group that says who writes which stream; it begins with the first one (`splitbrain.cluster.streams`)."""

COORDINATOR_PATH: Final = ("stream_coordinator",)
"""The tree node of the metadata that names the founders of the coordinator's group."""

_NAME: Final = re.compile("[a-z0-9][a-z0-9._-]{0,63}")


def group_problem(name: str) -> str | None:
    """What is wrong with the name of a group, None if it is in order."""
    if _NAME.fullmatch(name):
        return None
    return "a group has a name of 1 to 64 of a-z, 0-9, dot, dash and underscore, which begins with a letter or a digit"


def group_address(name: str, incarnation: int) -> str:
    """How members speak of a group: "q1" of the first one of that name, "q1#1", "q1#2", ... of those after it."""
    return f"{name}{SEPARATOR}{incarnation}" if incarnation else name


def group_of(address: str) -> str:
    """The name in an address."""
    return address.partition(SEPARATOR)[0]


def queue_group(number: int) -> str:
    """The name of the group of a quorum queue."""
    return f"{QUEUES}{number}"


def is_queue_group(name: str) -> bool:
    """Whether a group is that of a quorum queue: its kind of state machine stands in its name."""
    return name.startswith(QUEUES)


def has_own_machine(name: str) -> bool:
    """Whether the state machine of a group is not the store: commands in its log then have a time."""
    return is_queue_group(name) or name == STREAM_COORDINATOR


def queue_number(name: str) -> int:
    """The number in the name of a group of a queue; those of later declarations are higher."""
    return int(name.removeprefix(QUEUES))


def named_problem(name: str) -> str | None:
    """What is wrong with the name of a group that is begun by name, None if it is in order."""
    if is_queue_group(name):
        return f"groups whose names begin with {QUEUES!r} are those of queues, which are declared and deleted"
    if name == STREAM_COORDINATOR:
        return f"{STREAM_COORDINATOR} is the group of the coordinator of streams, and begins with the first stream"
    return group_problem(name)
