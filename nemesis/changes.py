"""Request a change from a cluster that may refuse it, until it is done, refused for long enough, or its outcome is
unknown for too long.

A request can be repeated safely (`Membership`), so a missing answer leads to a retry. Until an answer says that the
change is done, its outcome stays unknown; later refusals do not change that.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from splitbrain.harness.contract.nodes import NodeId, NodeView
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.harness.running.deadlines import together, within
from splitbrain.harness.running.nearing import CATCHING_UP, Nearing

REQUEST_S: Final = 3.0
"""Timeout of one request."""

IN_DOUBT_S: Final = 6.0
"""How long a request is repeated after a missing answer."""

VIEW_S: Final = 1.0
"""Timeout of the question how far a node is."""

POLL_MS: Final = 200

_MS: Final = 1_000_000

T = TypeVar("T")

Attempt = Callable[[], Coroutine[Any, Any, T]]


class NotDoneError(Exception):
    """The change was not seen to happen; if `definite`, it did not happen and will not."""

    def __init__(self, reason: str, *, definite: bool) -> None:
        super().__init__(reason)
        self.definite = definite


class Deadline:
    """A deadline on the clock of a run."""

    def __init__(self, context: NemesisContext, limit_s: float) -> None:
        self._clock = context.runtime.clock
        self._end_ns = self._clock.now_ns() + round(limit_s * 1e9)

    async def allows_another(self) -> bool:
        """Wait for a moment; whether the deadline is still ahead."""
        if self._clock.now_ns() >= self._end_ns:
            return False
        await self._clock.sleep_ns(POLL_MS * _MS)
        return True


class PatientDeadline(Deadline):
    """A deadline that is put off whenever a node comes nearer to the others (`Nearing`), up to `CATCHING_UP` times."""

    def __init__(self, context: NemesisContext, limit_s: float) -> None:
        super().__init__(context, limit_s)
        self._context = context
        self._limit_ns = round(limit_s * 1e9)
        self._last_ns = self._clock.now_ns() + CATCHING_UP * self._limit_ns
        self._nearing = Nearing()

    async def allows_another(self) -> bool:
        """Wait for a moment; whether the deadline is still ahead. A node that came nearer meanwhile puts it off."""
        test, deployment = self._context.test, self._context.deployment
        asked = [within(self._clock, VIEW_S, test.system.view(deployment, node)) for node in deployment.nodes]
        if self._nearing.nearer(view for view in await together(asked) if isinstance(view, NodeView)):
            self._end_ns = min(self._clock.now_ns() + self._limit_ns, self._last_ns)
        return await super().allows_another()


async def certain(
    context: NemesisContext,
    whom: Callable[[], Coroutine[Any, Any, Sequence[NodeId]]],
    ask: Callable[[NodeId], Coroutine[Any, Any, T]],
) -> tuple[NodeId, T]:
    """Ask a node; while the outcome is unknown, ask again. Returns the node asked last, and its answer.

    Args:
        context: of the nemesis.
        whom: returns the nodes that can be asked now; they are asked in turn.
        ask: asks one of them.

    Raises:
        NotDoneError: the first answer is a refusal, or no answer made the outcome known.
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
    """Make attempts in turn until one succeeds or the time is over.

    Raises:
        NotDoneError: that of the last attempt: all were refused for that long, or the outcome of this one is unknown.
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
