"""What etcd's errors mean for a request: it certainly changed nothing and never will, or its outcome is unknown.

etcd answers with a gRPC code and a message. Codes alone are not enough: UNAVAILABLE is both "no leader", which refuses
a request before it is proposed, and "request timed out", after which a proposal may still be committed; and messages
that etcd has no code for come as UNKNOWN. So a request is definitely refused if its code means that the request itself
is at fault, or if its message is on a list of those that etcd gives before it proposes anything; everything else is
indefinite.

Sources, as of etcd 3.4 to 3.6: `api/v3rpc/rpctypes/error.go` (codes and messages), `etcdserver/v3_server.go`
(`processInternalRaftRequestOnce`: what is refused before `Propose`, and what is only given up after it), `raft/raft.go`
(`ErrProposalDropped`: no leader is known, or one is just being replaced; the entry is in no log). Jepsen's etcd tests
(`remap-errors` in client.clj) sort in the same way, with one difference: "raft: stopped" is definite there. A node that
stops while its raft loop holds a proposal gives the same message, so here it is not.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import msgspec

from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError

_REFUSING_CODES: Final = {
    3: "INVALID_ARGUMENT",
    5: "NOT_FOUND",
    7: "PERMISSION_DENIED",
    9: "FAILED_PRECONDITION",
    11: "OUT_OF_RANGE",
    12: "UNIMPLEMENTED",
    16: "UNAUTHENTICATED",
}
"""Codes for a request that can never be carried out as it stands. Where etcd finds that only when it applies the
request (a lease that is gone), every node finds the same, and applies nothing."""

_OTHER_CODES: Final = {
    1: "CANCELLED",
    2: "UNKNOWN",
    4: "DEADLINE_EXCEEDED",
    6: "ALREADY_EXISTS",
    8: "RESOURCE_EXHAUSTED",
    10: "ABORTED",
    13: "INTERNAL",
    14: "UNAVAILABLE",
    15: "DATA_LOSS",
}

_REFUSING_MESSAGES: Final = frozenset(
    {
        "etcdserver: no leader",
        "etcdserver: not leader",
        "etcdserver: too many requests",
        "etcdserver: request is too large",
        "etcdserver: unhealthy cluster",
        "raft proposal dropped",
    }
)
"""Messages with other codes that etcd gives before it proposes a request.

"mvcc: database space exceeded" is none of them: it is also what a request gets that fills the quota, after it was
applied (measured with 3.4 and 3.5: 6 to 10 of 30 refused keys were there).
"""

_HTTP_OK: Final = 200
_HTTP_NOT_FOUND: Final = 404
_SHOWN: Final = 200


class _Refusal(msgspec.Struct):
    """The gateway's error document; older gateways repeat the message under `error`."""

    code: int
    message: str = ""


def error_of(status: int, content: bytes) -> DefiniteError | IndefiniteError | None:
    """What an answer with this HTTP status and body must be raised as; None if it is a result."""
    if status == _HTTP_OK:
        return None
    try:
        refusal = msgspec.json.decode(content, type=_Refusal)
    except msgspec.DecodeError:
        text = " ".join(content.decode(errors="replace").split())[:_SHOWN]
        # No such path: the request was not taken. Any other page has an unknown origin.
        return (DefiniteError if status == _HTTP_NOT_FOUND else IndefiniteError)(f"HTTP {status}: {text}")
    definite = refusal.code in _REFUSING_CODES or refusal.message in _REFUSING_MESSAGES
    name = _REFUSING_CODES.get(refusal.code) or _OTHER_CODES.get(refusal.code) or f"code {refusal.code}"
    return (DefiniteError if definite else IndefiniteError)(f"{name}: {refusal.message[:_SHOWN]}")


@contextmanager
def changing_nothing() -> Generator[None]:
    """For a request that changes nothing that ops depend on: with any outcome of it, the op did not happen."""
    try:
        yield
    except IndefiniteError as error:
        raise DefiniteError(str(error)) from error
