"""Bouncing: nodes are killed and started again at once, one after the other, many times.

A kill that lasts gives the others time to elect somebody and to forget the dead. A node that is back within
milliseconds takes part in the election in which it was killed: whatever it promised in it and did not store, it
promises again to somebody else. (Jepsen's tests restart nodes so with `kill` and `start` back to back.)

An op carries the nodes in the order in which they are bounced, and the pauses between them, drawn when it is scheduled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from harness.marks import reached
from harness.protocols import FaultKind, NemesisContext, NodeId
from harness.rng import Rng
from nemesis.effects import Effect, carry_out, request
from nemesis.ledger import Ledger
from results.errors import BackendError, NemesisError
from results.history import Op

FAULT: Final = "bounce"

TIMES: Final = (6, 16)
"""How many bounces an op has."""

PAUSES_MS: Final = (20, 300)
"""How long the pause after each is."""

_MS: Final = 1_000_000


class Bounces(msgspec.Struct, frozen=True):
    """What the request of an op carries: whom to bounce, in this order, and the pauses after each."""

    nodes: tuple[NodeId, ...]
    pauses_ms: tuple[int, ...]


def draw(nodes: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """A random sequence of nodes, and the pauses."""
    times = rng.between(*TIMES)
    return {
        "nodes": [rng.choice(nodes) for _ in range(times)],
        "pauses_ms": [rng.between(*PAUSES_MS) for _ in range(times)],
        "over": True,
    }


class Bounce:
    """Bounces nodes (`bounce`); its stop (`stop-bounce`) starts those that did not come back.

    Nodes that are down or paused by then are left as they are.

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"bounce", "stop-bounce"})
    faults: frozenset[FaultKind] = frozenset({"kill"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()
        self._down: dict[NodeId, None] = {}

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Bounce the nodes that the op names, or start those that stayed down; with the lives that they had."""

        async def bounce(effect: Effect) -> None:
            await self._bounce(context, _read(request(op), context.deployment.nodes), effect)

        async def stop(effect: Effect) -> None:
            effect.target = " ".join(self._down) or "nobody: every node came back"
            await self._start_all(context)

        return await carry_out(context, op, bounce if op.f == "bounce" else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Start every node that did not come back.

        Raises:
            NemesisError: one does not start.
        """
        await self._start_all(context)

    async def _bounce(self, context: NemesisContext, bounces: Bounces, effect: Effect) -> None:
        deployment, lives, problems = context.deployment, dict[NodeId, int](), list[str]()
        for node, pause_ms in zip(bounces.nodes, bounces.pauses_ms, strict=False):
            before = await deployment.status(node)
            if before.state == "running":
                await deployment.kill(node)
                self._down[node] = None
                try:
                    after = await deployment.start(node)
                except BackendError as problem:
                    problems.append(f"{node}: {problem}")
                else:
                    del self._down[node]
                    lives[node] = lives.get(node, 0) + after.life - before.life
                    reached("node bounced")
            await context.runtime.clock.sleep_ns(pause_ms * _MS)
        effect.target = " ".join(lives) or "nobody: no node was running"
        effect.evidence["restarts"] = lives
        if problems:
            raise NemesisError(f"{FAULT}: {'; '.join(problems)}.")

    async def _start_all(self, context: NemesisContext) -> None:
        problems: list[str] = []
        for node in [node for node in self._down if not self._ledger.held_by_others(node, FAULT)]:
            try:
                await context.deployment.start(node)
            except BackendError as problem:
                problems.append(f"{node}: {problem}")
            else:
                del self._down[node]
        if problems:
            raise NemesisError(f"{FAULT}: {'; '.join(problems)}.")


def _read(carried: Mapping[str, Any], known: Sequence[NodeId]) -> Bounces:
    try:
        bounces = msgspec.convert({name: carried.get(name) for name in Bounces.__struct_fields__}, Bounces)
    except msgspec.ValidationError as error:
        raise NemesisError(f"a bounce says which nodes it restarts, and when: {error}.") from None
    strangers = [node for node in bounces.nodes if node not in known]
    if strangers or not bounces.nodes:
        raise NemesisError(f"a bounce of {', '.join(strangers) or 'no nodes'}: the nodes are {', '.join(known)}.")
    return bounces
