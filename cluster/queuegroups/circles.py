"""Queues whose dead letters go round: a message that no consumer refuses would be passed on for ever (QQ-5).

As in RabbitMQ a letter does not come to a queue a second time unless a consumer rejected it on its way. A letter names
the groups of the queues in which it became one since; groups, as a later queue of a name is another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

from splitbrain.cluster.queues import decode_command
from splitbrain.cluster.queues.commands import Annotations, Enqueue
from splitbrain.cluster.queues.effects import Reason

PASSED: Final = "x-death-queues"
"""The annotation of a dead letter that names these groups."""


def noted(annotations: Annotations, group: str, reason: Reason) -> Annotations:
    """The annotations of a message that became a dead letter in the queue of a group."""
    others = {name: value for name, value in annotations.items() if name != PASSED}
    return others if reason == "rejected" else {**others, PASSED: [*_groups(annotations), group]}


def comes_again(group: str, command: bytes) -> bool:
    """Whether the command puts a dead letter into a queue that it came from, and no consumer rejected it since."""
    found = decode_command(command)
    return isinstance(found, Enqueue) and group in _groups(found.annotations)


def _groups(annotations: Annotations) -> Iterable[Any]:
    found: Any = annotations.get(PASSED)  # a consumer may have written anything there
    return cast("list[Any]", found) if isinstance(found, list) else ()
