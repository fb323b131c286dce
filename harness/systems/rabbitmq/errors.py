"""What RabbitMQ's errors mean for an operation: it certainly changed nothing and never will, or its outcome is unknown.

An operation that was sent and not answered may have happened, whatever ended the connection or the channel. Only a
channel that the node closes with a code that says that the request itself was refused is definite. These codes are
given before anything is changed; 541 (internal error) is what a queue answers that waited in vain for a majority or for
another node, and what it was asked for may still happen when the cluster has healed. A negative confirm says that the
queue's process failed, or that it timed out: that is not definite either. A message that no queue took comes back
(`mandatory`), which is.

Sources: the AMQP 0-9-1 reference of RabbitMQ ("Reply codes"), its guide "Consumer Acknowledgements and Publisher
Confirms", and `rabbit_channel.erl`.
"""

from __future__ import annotations

from typing import Final

from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError

REFUSING: Final = {
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
    501: "FRAME_ERROR",
    502: "SYNTAX_ERROR",
    503: "COMMAND_INVALID",
    530: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED",
}
"""Codes for a request that was refused as it stands."""

_SHOWN: Final = 300


def error_of(error: BaseException, *, sent: bool, what: str) -> DefiniteError | IndefiniteError:
    """What an error of the driver must be raised as.

    Args:
        error: why the channel or the connection ended, or what the driver raised.
        sent: whether anything of the operation may have reached the node.
        what: the operation, for the words.
    """
    code: object = getattr(error, "reply_code", None)
    text: object = getattr(error, "reply_text", None)
    said = f"{code} {text}" if isinstance(code, int) else f"{type(error).__name__}: {error}"
    words = " ".join(f"{what}: {said}".split())[:_SHOWN]
    definite = not sent or (isinstance(code, int) and code in REFUSING)
    return DefiniteError(words) if definite else IndefiniteError(words)
