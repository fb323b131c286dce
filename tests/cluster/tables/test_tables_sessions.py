"""Sessions between two nodes: each message once and in order, or the node is down; detection by ticks (MN-2)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.cluster.tables.messages import AskToJoin, Frame
from splitbrain.cluster.tables.sessions import Happened, Session

TICK_MS = 1000
STEP_MS = 5


class Pair:
    """Two sessions on links that lose, repeat and reorder frames."""

    def __init__(self, seed: int = 0, loss: float = 0.0, disorder: int = 0) -> None:
        self.rng = random.Random(seed)
        self.loss, self.disorder = loss, disorder
        self.now = 0
        self.cut: set[str] = set()
        self.flying: list[tuple[int, int, str, Frame]] = []
        self.order = 0
        self.events: dict[str, list[tuple[int, Happened]]] = {"a": [], "b": []}
        self.lives = {"a": 1, "b": 2}
        self.sessions = {name: self.fresh(name) for name in ("a", "b")}

    def fresh(self, name: str) -> Session:
        other = "b" if name == "a" else "a"
        return Session(self.lives[name], TICK_MS, lambda frame: self.send(other, frame), self.now)

    def send(self, to: str, frame: Frame) -> None:
        for _ in range(2 if self.disorder and self.rng.random() < 0.1 else 1):
            if to not in self.cut and self.rng.random() >= self.loss:
                self.order += 1
                self.flying.append((self.now + 1 + self.rng.randint(0, self.disorder), self.order, to, frame))

    def run(self, for_ms: int) -> None:
        for _ in range(0, for_ms, STEP_MS):
            self.now += STEP_MS
            due = sorted((each for each in self.flying if each[0] <= self.now), key=lambda each: each[:2])
            self.flying = [each for each in self.flying if each[0] > self.now]
            for _, _, to, frame in due:
                self.note(to, self.sessions[to].received(frame, self.now))
            if self.now % 20 == 0:
                for name, session in self.sessions.items():
                    self.note(name, session.poll(self.now))

    def note(self, name: str, happened: list[Happened]) -> None:
        for event in happened:
            self.events[name].append((self.now, event))

    def messages(self, name: str) -> list[int]:
        return [event.run for _, event in self.events[name] if isinstance(event, AskToJoin)]

    def changes(self, name: str) -> list[Happened]:
        return [event for _, event in self.events[name] if event in ("up", "down")]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 0.2), st.integers(0, 60))
def test_every_message_arrives_once_and_in_order_over_links_that_lose_repeat_and_reorder(
    seed: int, loss: float, disorder: int
) -> None:
    pair = Pair(seed, loss, disorder)
    pair.run(3000)
    assert pair.sessions["a"].is_up
    assert pair.sessions["b"].is_up
    already = len(pair.changes("b"))
    for number in range(100):
        pair.sessions["a"].send(AskToJoin(number), pair.now)
        pair.run(pair.rng.randint(0, 10))
    pair.loss = 0.0
    pair.run(3000)
    if len(pair.changes("b")) == already:
        assert pair.messages("b") == list(range(100))


def test_mn_2_a_silent_node_is_declared_down_between_t_and_a_quarter_more() -> None:
    for offset in range(0, 500, 170):
        pair = Pair(seed=offset)
        pair.run(1500 + offset)
        assert pair.changes("a") == ["up"]
        pair.cut = {"a"}
        cut_at = pair.now
        pair.run(2000)
        (down_at,) = [at for at, event in pair.events["a"] if event == "down"]
        # The last sign of life came at most a quarter of the tick time before the cut.
        assert TICK_MS * 0.75 <= down_at - cut_at <= TICK_MS * 1.25 + 20 + STEP_MS


def test_mn_2_an_outage_of_half_the_tick_time_loses_nothing_and_is_no_partition() -> None:
    pair = Pair()
    pair.run(1500)
    pair.cut = {"a", "b"}
    pair.sessions["a"].send(AskToJoin(1), pair.now)
    pair.run(TICK_MS // 2)
    assert pair.messages("b") == []
    pair.cut = set()
    pair.run(1000)
    assert pair.messages("b") == [1]
    assert pair.changes("a") == pair.changes("b") == ["up"]


def test_mn_2_both_sides_end_a_session_that_one_of_them_has_ended() -> None:
    pair = Pair()
    pair.run(1500)
    pair.cut = {"a"}  # a hears nothing of b, b hears a
    pair.run(1400)
    assert pair.changes("a") == ["up", "down"]
    assert pair.changes("b") == ["up", "down"], "as one hears that a connection was closed"
    pair.cut = set()
    pair.run(2500)
    assert pair.changes("a") == ["up", "down", "up"]
    assert pair.changes("b") == ["up", "down", "up"]


def test_what_was_sent_in_a_session_that_ended_never_arrives() -> None:
    pair = Pair()
    pair.run(1500)
    pair.cut = {"a", "b"}
    pair.sessions["a"].send(AskToJoin(1), pair.now)
    pair.run(2000)
    pair.cut = set()
    pair.run(2500)
    pair.sessions["a"].send(AskToJoin(2), pair.now)
    pair.run(500)
    assert pair.messages("b") == [2]


@pytest.mark.parametrize("stale", [False, True])
def test_a_process_that_starts_again_ends_the_session_and_frames_of_its_former_life_do_nothing(stale: bool) -> None:
    pair = Pair()
    pair.run(1500)
    pair.sessions["b"].send(AskToJoin(1), pair.now)
    late = [each[3] for each in pair.flying if each[2] == "a"]
    pair.flying.clear()
    pair.lives["b"] = 3
    pair.sessions["b"] = pair.fresh("b")
    pair.run(500)
    assert pair.changes("a") == ["up", "down", "up"]
    if stale:
        for frame in late:
            pair.note("a", pair.sessions["a"].received(frame, pair.now))
    pair.sessions["b"].send(AskToJoin(2), pair.now)
    pair.run(500)
    assert pair.messages("a") == [2]
    assert pair.changes("a") == ["up", "down", "up"]


def test_a_node_whose_process_is_gone_is_down_at_once() -> None:
    pair = Pair()
    pair.run(1500)
    assert pair.sessions["a"].refused(pair.now) == ["down"]
    assert pair.sessions["a"].refused(pair.now) == []


def test_mn_8_a_disconnected_node_stays_away_for_a_second() -> None:
    pair = Pair()
    pair.run(1500)
    begun = pair.now
    pair.note("a", pair.sessions["a"].disconnect(pair.now))
    pair.run(3000)
    ups = [at for at, event in pair.events["a"] if event == "up" and at > begun]
    assert len(ups) == 1
    assert ups[0] - begun >= 1000
