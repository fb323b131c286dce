"""Random sequences of steps in the notation of cases, for a comparison with RabbitMQ's own machine."""

# JSON has no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from splitbrain.cluster.queues.consumers import Consumer
from tests.cluster.queues.cases import Runner
from tests.cluster.queues.observing import pid

PIDS: Final = {"c1": "p1@n1", "c2": "p2@n1", "c3": "p3@n2", "c4": "p1@n1"}
PUBLISHERS: Final = ("e1@n1", "e2@n2")
STEPS: Final = 60


def config(rng: random.Random, single: bool) -> dict[str, Any]:
    """A configuration."""
    made: dict[str, Any] = {"dead_letter": rng.choice(("disabled", "at_most_once", "at_least_once"))}
    limits = {
        "max_length": rng.randrange(7),
        "max_bytes": rng.randrange(3, 21),
        "delivery_limit": rng.randrange(-1, 3),
        "message_ttl": rng.randrange(40),
        "expires": rng.randrange(1, 30),
        "created": rng.randrange(30),
    }
    made |= {name: value for name, value in limits.items() if rng.random() < 0.25}
    if made["dead_letter"] == "at_least_once" or rng.random() < 0.5:
        made["overflow"] = "reject_publish"
    return made | ({"single_active_consumer": True} if single else {})


class Maker:
    """Makes the steps of one sequence, and looks at what our queue comes to, to make some that matter.

    Args:
        rng: decides.
        single: whether the queue has a single active consumer.
        runner: carries them out.
    """

    def __init__(self, rng: random.Random, single: bool, runner: Runner) -> None:
        self._rng = rng
        self._single = single
        self._runner = runner

    def step(self, op: str, index: int) -> dict[str, Any]:
        """The arguments of a step."""
        made: Mapping[str, Callable[[], dict[str, Any]]] = {
            "enqueue": lambda: self._enqueue(index),
            "register_enqueuer": lambda: {"pid": self._rng.choice(PUBLISHERS)},
            "attach": self._attach,
            "dequeue": lambda: self._tag() | {"settlement": self._rng.choice(("settled", "unsettled"))},
            "cancel": self._tag,
            "remove": self._tag,
            "settle": self._ids,
            "return": self._ids,
            "discard": self._ids,
            "modify": self._modify,
            "requeue": self._requeue,
            "credit": self._credit,
            "purge_nodes": lambda: {"nodes": [self._node()]},
            "update_config": lambda: {"config": config(self._rng, self._single)},
            "down": self._down,
            "nodeup": lambda: {"node": self._node()},
            "dlx_attach": lambda: {"pid": self._rng.choice(("w1@n1", "w2@n2")), "prefetch": self._rng.randrange(1, 4)},
            "dlx_settle": lambda: {"ids": [self._rng.randrange(4)]},
        }
        return made[op]() if op in made else {}

    def _node(self) -> str:
        return self._rng.choice(("n1", "n2"))

    def _tag(self) -> dict[str, Any]:
        return {"consumer": self._rng.choice(sorted(PIDS))}

    def _consumer(self, tag: str) -> Consumer | None:
        state = self._runner.queue.state
        return next((each for each in (*state.consumers.values(), *state.waiting) if each.id.tag == tag), None)

    def _enqueue(self, index: int) -> dict[str, Any]:
        rng = self._rng
        publisher = rng.choice((*PUBLISHERS, None))
        known = {pid(process): each.next_seq for process, each in self._runner.queue.state.enqueuers.items()}
        seq = None if publisher is None else max(1, known.get(publisher, 1) + rng.choice((0, 0, 0, 0, 0, 1, -1)))
        made: dict[str, Any] = {"pid": publisher, "seq": seq, "msg": f"m{index}{'x' * rng.randrange(3)}"}
        others = ("ttl", 0.3, rng.choice((0, 5, 30))), ("priority", 0.4, rng.choice((0, 5, 9))), ("failed", 0.1, 2)
        return made | {name: value for name, share, value in others if rng.random() < share}

    def _attach(self) -> dict[str, Any]:
        rng = self._rng
        mode = rng.choice(
            ({"prefetch": rng.randrange(1, 4)}, {"prefetch": 1}, {"credited": 0}, {"credited": 2**32 - 2})
        )
        life = rng.choice(("auto", "auto", "auto", "once"))
        return self._tag() | {"life": life, "mode": mode, "priority": rng.choice((0, 0, 0, 1, 2, -1))}

    def _ids(self) -> dict[str, Any]:
        rng, named = self._rng, self._tag()
        consumer = self._consumer(named["consumer"])
        held = sorted(consumer.checked_out) if consumer is not None else []
        ids = [rng.randrange(6)]
        if held and rng.random() < 0.9:
            ids = rng.sample(held, min(len(held), rng.randrange(1, 3)))
        return named | {"ids": ids} | ({"by_id": True} if rng.random() < 0.5 else {})

    def _modify(self) -> dict[str, Any]:
        flags = {"delivery_failed": self._rng.random() < 0.5, "undeliverable_here": self._rng.random() < 0.5}
        return self._ids() | flags | {"annotations": self._rng.choice(({}, {"a": 1}, {"b": "x"}))}

    def _requeue(self) -> dict[str, Any]:
        made = self._ids()
        return {"consumer": made["consumer"], "id": made["ids"][0], "by_id": True}

    def _credit(self) -> dict[str, Any]:
        rng, named = self._rng, self._tag()
        consumer = self._consumer(named["consumer"])
        count = (0 if consumer is None else consumer.delivery_count) - rng.choice((0, 0, 0, 1))
        granted = {"credit": rng.randrange(5), "delivery_count": count % 2**32, "drain": rng.random() < 0.3}
        return named | granted

    def _down(self) -> dict[str, Any]:
        process = self._rng.choice((*sorted(set(PIDS.values())), *PUBLISHERS))
        return {"pid": process, "reason": self._rng.choice(("noconnection", "noproc"))}


_WEIGHTS: Final = {
    "enqueue": 14, "register_enqueuer": 1, "attach": 7, "dequeue": 2, "cancel": 2, "remove": 1,
    "settle": 6, "return": 5, "discard": 2, "modify": 3, "requeue": 2, "credit": 5,
    "purge": 0.4, "purge_nodes": 0.3, "update_config": 0.7, "expire": 1,
    "down": 2.5, "nodeup": 2, "dlx_attach": 1, "dlx_settle": 1, "tick": 1,
}  # fmt: skip


def sequence(seed: int) -> dict[str, Any]:
    """A sequence as a case without expectations."""
    rng = random.Random(seed)
    single = rng.random() < 0.5
    begun = config(rng, single)
    runner = Runner(begun, PIDS)
    maker = Maker(rng, single, runner)
    steps, index, now = list[dict[str, Any]](), 0, 0
    for _ in range(STEPS):
        op = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        now += rng.choice((0, 0, 0, 1, 5))
        step: dict[str, Any] = {"op": op, "ts": now}
        if op != "tick":
            index += 1
            step["index"] = index
        step |= maker.step(op, index)
        runner.step(step)
        steps.append(step)
    return {"id": f"seed {seed}", "config": begun, "consumers": PIDS, "steps": steps}
