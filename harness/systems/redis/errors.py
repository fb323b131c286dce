"""What Redis's errors mean for a command: it certainly changed nothing and never will, or its outcome is unknown.

A server executes one command after another and refuses one before it executes it (`processCommand` in `server.c`).
Only refusals of that kind are definite. What a command or a script answers once it runs may come after some of its
effect. Nor does an answer say more than that the primary has executed the command: a failover may lose what it
acknowledged, and a harness finds that out only if such a command counts as acknowledged.

Sources: `createSharedObjects` and `processCommand` of Redis 7.0 and 8.0, and the manual's pages on Sentinel, on
replication and on WAIT.
"""

from __future__ import annotations

from typing import Final

from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError, StandbyError

REFUSING: Final = {
    "READONLY": "the node is a replica",
    "NOREPLICAS": "too few replicas have said lately that they are there (min-replicas-to-write)",
    "LOADING": "the node still loads its data",
    "BUSY": "a script keeps the node busy",
    "MISCONF": "the node could not save its data, and takes no writes until it can",
    "OOM": "the node has used all the memory that it may use",
    "NOAUTH": "the node wants a password",
}
"""The first word of errors for commands that were refused before they were executed."""

TOO_MANY_CLIENTS: Final = "ERR max number of clients reached"
"""The node says that in place of accepting a connection; it executes nothing that comes on it."""

_REPLICA: Final = "READONLY "

_SHOWN: Final = 200


def refuses(text: str) -> bool:
    """Whether an error of a server says that the command was not executed."""
    return text.partition(" ")[0] in REFUSING or text.startswith(TOO_MANY_CLIENTS)


def error_of(text: str, *, changes: bool) -> DefiniteError | IndefiniteError:
    """What an error in answer to a command must be raised as.

    Args:
        text: the error, as the server said it, or what became of the connection.
        changes: whether the command may change something.
    """
    words = " ".join(text.split())[:_SHOWN]
    if words.startswith(_REPLICA):
        return StandbyError(words)
    return DefiniteError(words) if not changes or refuses(text) else IndefiniteError(words)
