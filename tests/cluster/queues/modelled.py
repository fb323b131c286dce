"""The queue beside the naive model, step by step: `python -m tests.cluster.queues.modelled STEPS` for very many."""

# JSON has no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import sys
from collections import Counter
from itertools import pairwise
from typing import Any, ClassVar, Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from splitbrain.cluster.queues import QuorumQueue
from tests.cluster.queues.cases import Runner
from tests.cluster.queues.naive import Naive

STEPS_OF_A_RUN: Final = 60

PIDS: Final = {"c1": "p1@n1", "c2": "p2@n1", "c3": "p3@n2", "c4": "p1@n1"}
PUBLISHERS: Final = ("e1@n1", "e2@n2", None)

TAGS = st.sampled_from(sorted(PIDS))
IDS = st.lists(st.integers(0, 5), min_size=1, max_size=4)
MODES = st.one_of(
    st.fixed_dictionaries({"prefetch": st.integers(1, 4)}),
    st.fixed_dictionaries({"credited": st.sampled_from([0, 2**32 - 2])}),
)
STRATEGIES = st.sampled_from(["disabled", "at_most_once", "at_least_once"])


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """All but whether there is a single active consumer, which a queue keeps."""
    config: dict[str, Any] = {"dead_letter": draw(STRATEGIES)}
    for name, values in (
        ("max_length", st.integers(0, 6)),
        ("max_bytes", st.integers(3, 20)),
        ("delivery_limit", st.integers(-1, 2)),
        ("message_ttl", st.integers(0, 40)),
        ("expires", st.integers(1, 30)),
        ("created", st.integers(0, 30)),
    ):
        if draw(st.integers(0, 2)) == 0:
            config[name] = draw(values)
    if config["dead_letter"] == "at_least_once" or draw(st.booleans()):
        config["overflow"] = "reject_publish"
    return config


def unordered(values: list[Any]) -> Counter[str]:
    """For comparison where the order is free."""
    return Counter(map(repr, values))


class QueueBesideModel(RuleBasedStateMachine):
    """Whatever is done to both, they say the same and are the same, and no message is lost or there twice."""

    taken: ClassVar[int] = 0

    @initialize(config=configs(), single=st.booleans())
    def begin(self, config: dict[str, Any], single: bool) -> None:
        self.single = {"single_active_consumer": True} if single else {}
        self.runner = Runner(config | self.single, PIDS)
        self.model = Naive(config | self.single, PIDS)
        self.index, self.now = 0, 0
        self.came_from: dict[str, tuple[str | None, bool]] = {}
        self.limit_holds = True

    def both(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Carry out a step on both, and compare what they say."""
        self.index += 1
        step = {"op": op, "index": self.index, "ts": self.now, **arguments}
        got = self.runner.step(step)
        said = self.model.step(step, got["deliveries"])
        assert got["reply"] == said["reply"]
        assert unordered(self.without_order(got["sends"])) == unordered(self.without_order(said["sends"]))
        assert sorted(got["cancelled"]) == sorted(said["cancelled"])
        letters = [(each["reason"], each["strategy"], each["count"]) for each in got["dead_letters"]]
        counted: Counter[tuple[str, str]] = Counter()
        for reason, strategy, count in letters:
            counted[reason, strategy] += count
        assert counted == Counter((reason, strategy) for reason, strategy, _, _ in said["dead_letters"])
        published = [
            (each["reason"], letter["msg"], letter["failed"])
            for each in got["dead_letters"]
            for letter in each.get("messages", ())
        ]
        expected = [
            (reason, name, failed)
            for reason, strategy, name, failed in said["dead_letters"]
            if strategy == "at_most_once"
        ]
        for reason in {letter[0] for letter in published + expected}:
            assert [each for each in published if each[0] == reason] == [each for each in expected if each[0] == reason]
        handed = [(each["id"], each["reason"], each["msg"], each["failed"]) for each in got["dlx_deliveries"]]
        assert handed == said["dlx"]
        for messages in got["deliveries"].values():
            self.first_in_first_out([each["msg"] for each in messages if each["acquired"] == 0])
        return got

    def first_in_first_out(self, names: list[str]) -> None:
        """What is delivered for the first time comes in the order of its publisher, for each lane (QQ-2).

        A step may deliver to several consumers, each in order.
        """
        places = list(self.model.taken)
        for one, other in pairwise(names):
            assert self.came_from[one] != self.came_from[other] or places.index(one) < places.index(other)
        waiting = {msg.name for msg in self.model.ready() if msg.acquired == 0}
        for name in names:
            older = places[: places.index(name)]
            assert not [each for each in older if each in waiting and self.came_from[each] == self.came_from[name]]

    @staticmethod
    def without_order(sends: list[dict[str, Any]]) -> list[Any]:
        """Each as sorted pairs."""
        return [
            sorted((key, sorted(v.items()) if isinstance(v, dict) else v) for key, v in each.items()) for each in sends
        ]

    # --- publishing ---------------------------------------------------------------------------------------------------

    @rule(
        pid=st.sampled_from(PUBLISHERS),
        ahead=st.sampled_from([0, 0, 0, 0, 1, -1]),
        size=st.integers(0, 3),
        ttl=st.sampled_from([None, None, None, 0, 5, 30]),
        priority=st.sampled_from([4, 4, 0, 5, 9]),
        failed=st.sampled_from([0, 0, 2]),
    )
    def enqueue(self, pid: str | None, ahead: int, size: int, ttl: int | None, priority: int, failed: int) -> None:
        known = self.model.enqueuers.get(pid or "")
        seq = None if pid is None else max(1, (known.next if known else 1) + ahead)
        name = f"m{self.index}{'x' * size}"
        self.came_from[name] = pid, priority > 4
        more = {"priority": priority, "failed": failed} | ({} if ttl is None else {"ttl": ttl})
        self.both("enqueue", pid=pid, seq=seq, msg=name, **more)

    @rule(pid=st.sampled_from(PUBLISHERS[:2]))
    def register(self, pid: str) -> None:
        self.both("register_enqueuer", pid=pid)

    # --- consuming ----------------------------------------------------------------------------------------------------

    @rule(tag=TAGS, life=st.sampled_from(["auto", "auto", "once"]), mode=MODES, priority=st.integers(-1, 2))
    def attach(self, tag: str, life: str, mode: dict[str, int], priority: int) -> None:
        self.both("attach", consumer=tag, life=life, mode=mode, priority=priority)

    @rule(tag=TAGS, settlement=st.sampled_from(["settled", "unsettled"]))
    def dequeue(self, tag: str, settlement: str) -> None:
        if any(con.tag == tag for con in self.model.waiting) or tag in self.model.consumers:
            return
        self.both("dequeue", consumer=tag, settlement=settlement)
        self.runner.forget(tag)

    @rule(tag=TAGS, op=st.sampled_from(["cancel", "remove"]))
    def leave(self, tag: str, op: str) -> None:
        self.both(op, consumer=tag)

    @rule(tag=TAGS, ids=IDS, op=st.sampled_from(["settle", "settle", "return", "discard"]), by_id=st.booleans())
    def answer(self, tag: str, ids: list[int], op: str, by_id: bool) -> None:
        held = self.model.consumers.get(tag)
        ids = [sorted(held.held)[each % len(held.held)] for each in ids] if held and held.held and ids[0] else ids
        self.both(op, consumer=tag, ids=ids, by_id=by_id)

    @rule(tag=TAGS, ids=IDS, failed=st.booleans(), here=st.booleans(), note=st.sampled_from([{}, {"a": 1}, {"b": "x"}]))
    def modify(self, tag: str, ids: list[int], failed: bool, here: bool, note: dict[str, Any]) -> None:
        flags = {"delivery_failed": failed, "undeliverable_here": here, "annotations": note}
        self.both("modify", consumer=tag, ids=ids, **flags)

    @rule(tag=TAGS, each=st.integers(0, 5))
    def requeue(self, tag: str, each: int) -> None:
        self.limit_holds = False  # what is requeued was not given back
        self.both("requeue", consumer=tag, id=each, by_id=True)

    @rule(tag=TAGS, credit=st.integers(0, 5), behind=st.integers(0, 2), drain=st.booleans())
    def credit(self, tag: str, credit: int, behind: int, drain: bool) -> None:
        con = self.model.consumers.get(tag) or next((c for c in self.model.waiting if c.tag == tag), None)
        if con is None or "credited" not in con.mode:
            return
        count = (con.count - behind) % 2**32
        self.both("credit", consumer=tag, credit=credit, delivery_count=count, drain=drain)

    # --- the world ----------------------------------------------------------------------------------------------------

    @rule(pid=st.sampled_from([*sorted(set(PIDS.values())), *PUBLISHERS[:2]]), suspected=st.booleans())
    def down(self, pid: str, suspected: bool) -> None:
        self.both("down", pid=pid, reason="noconnection" if suspected else "noproc")

    @rule(node=st.sampled_from(["n1", "n2"]))
    def purge_nodes(self, node: str) -> None:
        self.both("purge_nodes", nodes=[node])

    @rule(node=st.sampled_from(["n1", "n2"]))
    def node_up(self, node: str) -> None:
        self.both("nodeup", node=node)

    @rule(ms=st.integers(1, 20))
    def time_passes(self, ms: int) -> None:
        self.now += ms
        asked = self.runner.step({"op": "tick", "ts": self.now})
        assert asked["delete_queue"] == self.model.deletes(self.now)

    @rule()
    def expire(self) -> None:
        self.both("expire")

    @rule(config=configs())
    def update_config(self, config: dict[str, Any]) -> None:
        self.limit_holds = False  # what was given back before may be above a lower limit
        self.both("update_config", config=config | self.single)

    @rule()
    def purge(self) -> None:
        self.both("purge")

    @rule(prefetch=st.integers(1, 3), worker=st.sampled_from(["w1@n1", "w2@n2"]))
    def attach_worker(self, prefetch: int, worker: str) -> None:
        self.both("dlx_attach", pid=worker, prefetch=prefetch)

    @rule(ids=IDS)
    def settle_letters(self, ids: list[int]) -> None:
        self.both("dlx_settle", ids=ids)

    @rule()
    def restart_from_a_dump(self) -> None:
        queue = self.runner.queue
        loaded = QuorumQueue.load(queue.dump())
        assert loaded.state_hash == queue.state_hash
        assert loaded.release(self.index) == queue.release(self.index)
        self.runner.queue = loaded

    # --- always -------------------------------------------------------------------------------------------------------

    def places(self) -> list[str]:
        """Where the queue itself has messages, each as often as it has it."""
        state = self.runner.queue.state
        worker = state.dead_letters.worker
        found = [message.index for message in state.ready]
        found += [message.index for each in state.consumers.values() for message in each.checked_out.values()]
        found += [message.index for _, message in state.dead_letters.dump().waiting]
        found += [] if worker is None else [message.index for _, message in worker.checked_out.values()]
        return [self.runner.bodies[index].decode() for index in found]

    @invariant()
    def each_message_is_at_one_place(self) -> None:
        QueueBesideModel.taken += 1
        there = self.places()
        assert len(there) == len(set(there)), "a message is there twice"
        assert not set(there) & set(self.model.fates), "a message that left is there"
        assert set(there) | set(self.model.fates) == set(self.model.taken), "a message is lost, or came from nowhere"

    @invariant()
    def they_are_the_same(self) -> None:
        got = self.runner.step({"op": "inspect"})["state"]
        model = self.model
        ready = [msg.name for msg in model.ready()]
        assert got["ready"] == ready
        assert got["returned"] == ready[: len(model.returned)]
        assert got["bytes_ready"] == sum(map(len, ready))
        held = [msg for con in model.consumers.values() for msg in con.held.values()]
        assert (got["checked_out"], got["bytes_checked_out"]) == (len(held), sum(msg.size for msg in held))
        assert got["enqueuers"] == {pid: enq.next for pid, enq in model.enqueuers.items()}
        assert got["consumers"].keys() == model.consumers.keys()
        for tag, con in model.consumers.items():
            about = got["consumers"][tag]
            assert (about["status"], about["credit"], about["delivery_count"]) == (con.status, con.credit, con.count)
            assert {int(each): msg["msg"] for each, msg in about["checked_out"].items()} == {
                each: msg.name for each, msg in con.held.items()
            }
        assert got["waiting_consumers"].keys() == {con.tag for con in model.waiting}
        for con in model.waiting:
            about = got["waiting_consumers"][con.tag]
            assert (about["status"], about["credit"], about["checked_out"]) == (con.status, con.credit, {})
        up = [con.tag for con in model.waiting if con.status == "up"]
        assert got["waiting"][: len(up)] == up, "in the order of succession; that of others is free"
        assert (got["dlx"]["waiting"], got["dlx"]["checked_out"]) == (len(model.letters), len(model.with_worker))

    @invariant()
    def what_no_step_may_break(self) -> None:
        state = self.runner.queue.state
        assert all(each.credit >= 0 for each in (*state.consumers.values(), *state.waiting))
        if state.config.single_active_consumer:
            active = [each for each in state.consumers.values() if each.status in ("up", "quiescing")]
            assert len(active) <= 1
        limit, ready = state.config.limit_of_deliveries, list(state.ready)
        if self.limit_holds and limit is not None:
            assert all(message.acquired <= limit for message in ready)
        assert state.ready.bytes == sum(message.size for message in ready)
        held = [message for each in state.consumers.values() for message in each.checked_out.values()]
        live = [message.index for message in (*ready, *held)] + list(state.dead_letters.indexes())
        assert state.lowest_live_index == min(live, default=None)


def run(steps: int, *, same: bool = False) -> None:
    """At least so many steps, in runs of at most `STEPS_OF_A_RUN`; with `same` about so many, each time alike."""
    wanted = settings(
        max_examples=min(500, 1 + steps // STEPS_OF_A_RUN),
        stateful_step_count=STEPS_OF_A_RUN,
        deadline=None,
        database=None,
        derandomize=same,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        phases=(Phase.generate, Phase.shrink),
    )
    end = QueueBesideModel.taken + steps
    while True:
        run_state_machine_as_test(QueueBesideModel, settings=wanted)
        if same or QueueBesideModel.taken >= end:
            return


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.cluster.queues.modelled STEPS")
    run(int(sys.argv[1]))
    print(f"{QueueBesideModel.taken:,} steps: the queue and the model were the same after each.")
