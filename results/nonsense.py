"""Answers that are none, and clients that fail: how the errors of such ops begin in a history.

A node that mixes up its replies answers a question with what is no answer to it. That is the system's fault. A client
that raises an error of a programming mistake fails itself: nothing follows about the system.
"""

from __future__ import annotations

from typing import Final

NONSENSE: Final = "nonsense answer: "
"""Of an op that a node answered with a value that no such op can have."""

CLIENT_FAILED: Final = "client failed: "
"""Of an op that ended because its client's own code failed."""


def is_nonsense(error: str | None) -> bool:
    """Whether an op with this error got an answer that is none."""
    return error is not None and error.startswith(NONSENSE)


def is_client_failure(error: str | None) -> bool:
    """Whether an op with this error ended because its client's own code failed."""
    return error is not None and error.startswith(CLIENT_FAILED)
