"""What ZooKeeper's errors mean for a request: it certainly changed nothing and never will, or its outcome is unknown.

A request that was proposed and not answered may be committed by the next leader, whatever ended the connection: that is
unknown. Errors of the state (no such node, there is one already, another version, children) are decided when the leader
has the request in its turn, and nothing is proposed then but the error. Of all others only that a request cannot be
understood is definite; what remains (a session that expired or moved, a timeout, a server that throttles) is unknown.

Sources: `KeeperException.java` and `PrepRequestProcessor.java` of ZooKeeper 3.8.
"""

from __future__ import annotations

from typing import Final

from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError

NO_NODE: Final = -101
BAD_VERSION: Final = -103
NODE_EXISTS: Final = -110

REFUSING: Final = {
    NO_NODE: "NoNode",
    BAD_VERSION: "BadVersion",
    NODE_EXISTS: "NodeExists",
    -6: "Unimplemented",
    -8: "BadArguments",
    -102: "NoAuth",
    -108: "NoChildrenForEphemerals",
    -111: "NotEmpty",
}
"""Codes of requests that were refused."""


class RefusedError(DefiniteError):
    """A node refused a request. `code` says why."""

    def __init__(self, code: int) -> None:
        super().__init__(f"{REFUSING[code]} ({code})")
        self.code = code


def error_of(code: int, *, changes: bool) -> DefiniteError | IndefiniteError:
    """What an error in answer to a request must be raised as."""
    if code in REFUSING:
        return RefusedError(code)
    return unknown(f"error {code}", changes=changes)


def unknown(words: str, *, changes: bool) -> DefiniteError | IndefiniteError:
    """What must be raised of a request of which nothing is known: a read has changed nothing."""
    return IndefiniteError(words) if changes else DefiniteError(words)
