"""How many live replicas a queue is to have: by its argument, else by a policy, else by configuration (S001).

The document lets the argument take precedence over the policy, and that over the configuration; RabbitMQ 4 takes the
largest of the three instead. Between a user's policy and an operator's the larger counts (`entities.policies`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SETTING: Final = "target-group-size"
"""In policies."""


def target_of(argument: int | None, policy: Mapping[str, Any], configuration: int) -> int | None:
    """The target of a queue, None if there is none.

    Args:
        argument: what the queue was declared with, None for nothing.
        policy: the settings that count for the queue.
        configuration: of the node, 0 for none.
    """
    said = policy.get(SETTING)
    for each in (argument, said if isinstance(said, int) and not isinstance(said, bool) else None, configuration):
        if each is not None and each > 0:
            return each
    return None
