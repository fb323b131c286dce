"""Refusals of nodes that do not lead: how their errors begin in a history.

Such a node serves clients and says so, but an answer of the system it is not.
"""

from __future__ import annotations

from typing import Final

STANDBY: Final = "standby: "


def is_declined(error: str | None) -> bool:
    """Whether an op with this error was refused because its node does not lead."""
    return error is not None and error.startswith(STANDBY)
