"""How a client sends a command again without having it carried out twice (KH-9, KH-10).

    refs = Refs("billing-7f3a")         # a name that no other client uses, now or later
    ref = refs.next()
    node = await retrying(lambda ms: client.increment("/count", 1, ref=ref, timeout_ms=ms), 5000)
    refs.answered(ref)

Nothing sends a command again by itself. A caller may do so itself, with the same ref, also through another node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from splitbrain.cluster.dedup import KEEP_MS, Ref
from splitbrain.cluster.errors import ClientError, OutcomeUnknownError

T = TypeVar("T")

ATTEMPT_MS: Final = 1000
PAUSE_MS: Final = 20
GRACE_MS: Final = 100
"""How much later than the timeout of an attempt its answer may come: the node says that the time ran out."""


class Refs:
    """The refs of one client, and which of their results it still needs.

    Args:
        client: a name that no other client of the cluster uses, now or later.
        keep_ms: how long the cluster keeps results at least, after this client's last command with a ref. A command
            that is sent again after that is carried out again.
    """

    def __init__(self, client: str, keep_ms: int = KEEP_MS) -> None:
        self._client = client
        self._keep_ms = keep_ms
        self._last = 0
        self._open: dict[int, None] = {}

    def next(self) -> Ref:
        """The ref of the next command."""
        self._last += 1
        self._open[self._last] = None
        return Ref(self._client, self._last, min(self._open), self._keep_ms)

    def answered(self, ref: Ref) -> None:
        """The command with this ref is never sent again: its result is known, or is needed no more.

        The cluster learns it from the next ref.
        """
        self._open.pop(ref.number, None)


async def retrying(
    send: Callable[[int], Awaitable[T]], timeout_ms: int, *, attempt_ms: int = ATTEMPT_MS, pause_ms: int = PAUSE_MS
) -> T:
    """Send a command until it has a result, or the time is over.

    Only an attempt whose outcome is unknown is followed by another one. Once there was one, no refusal of a later
    attempt is definite, unless it is what the command comes to.

    Args:
        send: sends the command, each time with the same ref; takes the timeout of this attempt in ms.
        timeout_ms: of all attempts together.
        attempt_ms: the longest time that one attempt may take.
        pause_ms: between two attempts.

    Raises:
        RefusedError: the first attempt was refused, or the command comes to that (`ClientError.is_result`).
        OutcomeUnknownError: the time is over, or the connection broke.
    """
    loop = asyncio.get_running_loop()
    ends = loop.time() + timeout_ms / 1000
    unknown: ClientError | None = None
    while True:
        left_ms = round((ends - loop.time()) * 1000)
        if unknown is not None and left_ms <= 0:
            raise OutcomeUnknownError(str(unknown), unknown.term)
        attempt = max(1, min(attempt_ms, left_ms))
        try:
            async with asyncio.timeout((attempt + GRACE_MS) / 1000):  # the request or its answer may be lost
                return await send(attempt)
        except TimeoutError:
            unknown = unknown or OutcomeUnknownError("no answer came in time")
        except ClientError as error:
            if error.definite and (unknown is None or error.is_result):
                raise
            unknown = error if unknown is None or not error.definite else unknown
            if error.term is None:  # no node answered: the connection is gone
                raise OutcomeUnknownError(str(unknown), unknown.term) from error
        await asyncio.sleep(pause_ms / 1000)  # noqa: TID251 - of a client, which has no runtime: its loop's time
