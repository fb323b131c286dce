"""The nemesis thread: carries out nemesis ops one at a time, beside the clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.test import Nemesis, NemesisContext
from splitbrain.harness.running.blocked import BlockedError
from splitbrain.harness.running.deadlines import within
from splitbrain.harness.running.journal import Journal
from splitbrain.harness.running.processes import describe
from splitbrain.harness.validate.inforce import left
from splitbrain.results.errors import HarnessError, NemesisError, ProtocolError, SplitbrainError
from splitbrain.results.history import Op
from splitbrain.results.reasons import ADVICE_FOR_BLOCKED

OP_LIMIT_S = 30.0
"""How long a nemesis op may take. Backends bound their own work far below; this is for those that do not."""

NODE_LIMIT_S = 15.0
"""The same for each node, where that is more: an op may deal with one node after the other (a rolling restart does)."""

HEAL_LIMIT_S = 600.0
"""The same for the healing at the end: a member that joins may take long as long as it comes nearer."""


class Injector:
    """Runs a (validated) nemesis.

    Args:
        completed: called with every completion right after it was recorded.
        broken: called with an error that must end the run.
    """

    def __init__(
        self,
        nemesis: Nemesis,
        context: NemesisContext,
        journal: Journal,
        *,
        completed: Callable[[Op], None],
        broken: Callable[[Exception], None],
    ) -> None:
        self._nemesis = nemesis
        self._context = context
        self._journal = journal
        self._completed = completed
        self._broken = broken
        self._task: asyncio.Task[None] | None = None

    def start(self, op: Op) -> None:
        """Carry out a nemesis op that was just recorded."""
        assert self._task is None or self._task.done(), "the nemesis is busy"
        self._task = asyncio.ensure_future(self._inject(op))

    async def heal(self, limit_s: float | None = None) -> None:
        """Wait for the op in progress, then heal everything that is in force.

        Args:
            limit_s: timeout of the op in progress, in a run that must end at once; after it the op is cancelled.

        Raises:
            NemesisError: it could not be undone, or not in time, or something is still in force.
        """
        clock = self._context.runtime.clock
        if limit_s is not None:
            if self._task is not None:
                self._task.cancel()
            await within(clock, limit_s, self._nemesis.heal(self._context))
            return  # what is left, the end of the deployment removes
        if self._task is not None and not self._task.done():
            await within(clock, self._limit_s(), _ended(self._task))
        try:
            await within(clock, HEAL_LIMIT_S, self._nemesis.heal(self._context))
        except TimeoutError as error:
            raise NemesisError(f"faults were not healed within {HEAL_LIMIT_S:g} s.") from error
        # Everything is judged as healed from here on: a fault that stays would look like a defect of the system.
        remains = await left(self._context.deployment)
        if remains is not None:
            raise NemesisError(
                f"the nemesis healed, but the deployment still shows {remains}. Let its heal undo all "
                "that its ops can do."
            )

    def _limit_s(self) -> float:
        return max(OP_LIMIT_S, NODE_LIMIT_S * len(self._context.deployment.nodes))

    async def _inject(self, op: Op) -> None:
        try:
            done = await within(self._context.runtime.clock, self._limit_s(), self._nemesis.invoke(self._context, op))
        except ProtocolError as error:
            done = op.complete("info", error=str(error))
            self._broken(error)
        except BlockedError as error:
            done = op.complete("info", error=str(error))
            self._broken(ProtocolError(f"{error}. {ADVICE_FOR_BLOCKED}"))
        except NemesisError as error:
            done = op.complete("info", error=str(error))
        except (SplitbrainError, OSError) as error:  # of the machine or the network: the fault may be in force, or not
            done = op.complete("info", error=describe(error))
        except Exception as error:
            done = op.complete("info", error=describe(error))
            self._broken(HarnessError(f"the nemesis failed in {op.f!r}: {describe(error)}. Correct its code."))
        if done.type == "info":
            reached("fault not verified")
        try:
            completion = self._journal.complete(op, done.type, done.value, error=done.error)
        except Exception as error:
            self._broken(error)
        else:
            self._completed(completion)


async def _ended(task: asyncio.Task[None]) -> None:
    await task
