"""The ops of the topology workload and of its nemesis that the checker knows."""

from __future__ import annotations

from typing import Any, Final

import msgspec

MAKES: Final = ("declare", "bind")
REMOVES: Final = ("delete", "unbind")
CLAIM: Final = "claim"
DISCONNECT: Final = "disconnect"
OWN: Final = "own"
LOOK: Final = "look"
PROJECT: Final = "project"
LEAVE: Final = "leave"
"""Of the nemesis: a member leaves the cluster, whose queues go, though its process may serve on for a while."""


class Answered(msgspec.Struct, frozen=True):
    """An op of a client: rows of its invocation and its completion, how it ended, its value and error."""

    f: str
    invoke: int
    complete: int
    type: str
    asked: Any
    value: Any
    error: str
    process: int
