"""Changes of feature flags whose messages are lost, late and repeated, whose members die, are cut off, and join.

At every moment: where a flag is enabled on one member, it is disabled on none. Once all is well: each flag is the same
on all members, no change is under way, and what was answered is so.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from splitbrain.cluster.flags.machine import TAKEOVER_MS, TICK_MS
from splitbrain.cluster.flags.registry import probe_name
from tests.cluster.flags.support import PROBES, World

FLAGS = [probe_name(number) for number in range(1, PROBES + 1)]
INDEX = st.integers(0, 2**16)
LATE = st.lists(st.sampled_from(["deliver", "deliver", "deliver", "repeat", "lose"]), min_size=1, max_size=12)


class Interleaved(RuleBasedStateMachine):
    @initialize(founders=st.integers(1, 5), seed=st.integers(0, 100))
    def begin(self, founders: int, seed: int) -> None:
        self.world = World(founders, seed)
        self.asked: dict[int, str] = {}

    def pick(self, index: int) -> str:
        return list(self.world.members)[index % len(self.world.members)]

    @rule(index=INDEX, flag=st.sampled_from(FLAGS[:3]), timeout_ms=st.sampled_from([400, 3_000, 10_000]))
    def enable(self, index: int, flag: str, timeout_ms: int) -> None:
        if self.world.members[self.pick(index)].flags is not None:
            self.asked[self.world.enable(self.pick(index), flag, timeout_ms)] = flag

    @rule(what=LATE, data=st.data())
    def network(self, what: list[str], data: Any) -> None:
        world = self.world
        for each in what:
            if not world.network:
                return
            index = data.draw(st.integers(0, len(world.network) - 1))
            if each == "lose":
                world.network.pop(index)
            else:
                world.deliver(index, keep=each == "repeat")
            self.agree()

    @rule(rounds=st.integers(1, 6))
    def in_order(self, rounds: int) -> None:
        for _ in range(rounds):
            for _ in range(len(self.world.network)):
                self.world.deliver(0)
                self.agree()

    @rule(index=INDEX)
    def call_back(self, index: int) -> None:
        if self.world.callbacks:
            self.world.call_back(index % len(self.world.callbacks))

    @rule()
    def call_all_back(self) -> None:
        while self.world.callbacks:
            self.world.call_back(0)

    @rule(index=INDEX, ms=st.sampled_from([TICK_MS, TICK_MS, 1_000, 2 * TAKEOVER_MS]))
    def time_passes(self, index: int, ms: int) -> None:
        self.world.now_ms += ms
        for name in [*self.world.members] if index % 2 else [self.pick(index)]:
            self.world.tick(name)

    @rule(index=INDEX)
    def kill(self, index: int) -> None:
        self.world.kill(self.pick(index))

    @rule(index=INDEX)
    def start(self, index: int) -> None:
        self.world.start(self.pick(index))

    @rule(index=INDEX)
    def cut(self, index: int) -> None:
        self.world.cut ^= {self.pick(index)}

    @rule()
    def join(self) -> None:
        if len(self.world.members) < 6:
            self.world.add(f"n{len(self.world.members) + 1}")

    @invariant()
    def agree(self) -> None:
        for flag in FLAGS:
            states = self.world.states(flag)
            assert not {"enabled", "disabled"} <= set(states.values()), f"{flag}: {states}"
        for member in self.world.members.values():
            if member.record is not None:
                assert set(member.record.enabled) - {"feature_flags"} <= set(member.done), member

    def teardown(self) -> None:
        world = self.world
        world.cut.clear()
        for name in world.members:
            world.start(name)
        world.run(40_000)
        self.agree()
        for flag in FLAGS:
            assert set(world.states(flag).values()) in ({"enabled"}, {"disabled"}), f"{flag}: {world.states(flag)}"
        for request, flag in self.asked.items():
            answer = world.answers.get(request)
            if answer is not None and answer.failed is None:
                assert set(world.states(flag).values()) == {"enabled"}, f"{flag} was acknowledged"
        last = probe_name(PROBES)
        request = world.enable(next(iter(world.members)), last)
        world.run(3_000)
        assert world.answers[request].failed is None, world.answers[request]
        assert set(world.states(last).values()) == {"enabled"}, "flags can be enabled again once all is well"


SETTINGS = settings(
    max_examples=80,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)


def test_a_flag_is_enabled_on_all_members_or_on_none() -> None:
    run_state_machine_as_test(Interleaved, settings=SETTINGS)
