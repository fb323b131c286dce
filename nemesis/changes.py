"""Asking a cluster for a change that it may refuse, until it is made, refused for long enough, or in doubt too long.

What is asked for can be asked again without harm (`Membership`). So an answer that never came is made
up for by asking again; but as long as none says that it is done, nobody knows, whatever refusals come after it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.harness.running.deadlines import within

REQUEST_S: Final = 3.0
"""How long one request may take."""

IN_DOUBT_S: Final = 6.0
"""How long it is asked again after an answer that never came."""

POLL_MS: Final = 200

_MS: Final = 1_000_000

T = TypeVar("T")

Attempt = Callable[[], Coroutine[Any, Any, T]]


class NotDoneError(Exception):
    """The change was not seen to be made; if `definite`, it was not made, and will not be."""

    def __init__(self, reason: str, *, definite: bool) -> None:
        super().__init__(reason)
        self.definite = definite


class Deadline:
    """An end of waiting, on the clock of a run."""

    def __init__(self, context: NemesisContext, limit_s: float) -> None:
        self._clock = context.runtime.clock
        self._end_ns = self._clock.now_ns() + round(limit_s * 1e9)

    async def allows_another(self) -> bool:
        """Wait a moment; whether there is still time."""
        if self._clock.now_ns() >= self._end_ns:
            return False
        await self._clock.sleep_ns(POLL_MS * _MS)
        return True


async def certain(
    context: NemesisContext,
    whom: Callable[[], Coroutine[Any, Any, Sequence[NodeId]]],
    ask: Callable[[NodeId], Coroutine[Any, Any, T]],
) -> tuple[NodeId, T]:
    """Ask a node; where it is in doubt what became of that, ask on. Who was asked last, and its answer.

    Args:
        context: of the nemesis.
        whom: finds the nodes that can be asked now; they are asked in turn.
        ask: asks one of them.

    Raises:
        NotDoneError: the first answer is a refusal, or none came that ends the doubt.
    """
    deadline, turn, doubt = Deadline(context, IN_DOUBT_S), 0, ""
    while True:
        nodes = await whom()
        if not nodes and not doubt:
            raise NotDoneError("there is no node with a majority that could be asked", definite=True)
        if nodes:
            asked = nodes[turn % len(nodes)]
            turn += 1
            try:
                return asked, await within(context.runtime.clock, REQUEST_S, ask(asked))
            except DefiniteError as refusal:
                if not doubt:
                    raise NotDoneError(f"{asked}: {refusal}", definite=True) from None
            except (IndefiniteError, TimeoutError) as problem:
                doubt = f"{asked}: {problem}"
        if not await deadline.allows_another():
            raise NotDoneError(doubt, definite=False)


async def patiently(context: NemesisContext, limit_s: float, attempts: Sequence[Attempt[T]]) -> T:
    """Make attempts in turn until one comes off, or the time is over.

    Raises:
        NotDoneError: that of the last attempt: all were refused for that long, or this one is in doubt.
    """
    deadline = Deadline(context, limit_s)
    while True:
        refusal: NotDoneError | None = None
        for attempt in attempts:
            try:
                return await attempt()
            except NotDoneError as problem:
                if not problem.definite:
                    raise
                refusal = problem
        assert refusal is not None, "there is something to attempt"
        if not await deadline.allows_another():
            raise refusal
