"""A naive index, and random ones beside it: what was done, and what a restart may leave of it (CQ-1 to CQ-3, CQ-8).

`python -m tests.cluster.classic.naive RUNS` for very many.
"""

from __future__ import annotations

import random
import sys
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from splitbrain.cluster.classic import Index
from tests.cluster.classic.disk import Image, MemoryDisk, done
from tests.cluster.classic.support import content, message, opened, publish_v1

FIRST = 16_375

Naive = dict[int, list[Any]]
"""By sequence id: number of the message, body, persistent, delivered, redeliveries."""


def as_said(naive: Naive) -> list[Any]:
    return [
        (seq, b"%016d" % number, None, 1000 + number, body, persistent, delivered, count)
        for seq, (number, body, persistent, delivered, count) in sorted(naive.items())
    ]


class IndexBesideModel(RuleBasedStateMachine):
    """The index holds what the model holds; after a restart what that held at some moment since the last sync."""

    def __init__(self) -> None:
        super().__init__()
        # Of RabbitMQ, and so near to the end of its segment that others follow.
        self.disk = MemoryDisk({"0.idx": publish_v1(FIRST, 0)})
        self.disk.watch = self.crash
        self.crashes: list[Image] = []
        self.changes = 0
        self.limit = 9
        self.index: Index = opened(self.disk, max_journal_entries=self.limit)
        self.model: Naive = {FIRST: [0, b"", True, False, 0]}
        self.moments: list[list[Any]] = [as_said(self.model)]
        self.next = 1
        self.given = FIRST + 1
        self.window = self.moments
        self.recent: list[Image] = []
        self.recently: list[list[Any]] = []

    def crash(self, disk: MemoryDisk) -> None:
        """Keep what a crash could leave, at some changes of the disk within a step."""
        self.changes += 1
        rng = random.Random(self.changes)
        if rng.random() < 0.2:
            self.crashes.append(rng.choice(list(disk.images(rng))))

    def changed(self) -> None:
        self.moments.append(as_said(self.model))

    def pick(self, at: int, *, delivered: bool | None = None) -> int | None:
        fit = [seq for seq in sorted(self.model) if delivered is None or self.model[seq][3] == delivered]
        return fit[at % len(fit)] if fit else None

    @rule(body=st.binary(max_size=3), persistent=st.booleans(), count=st.sampled_from([0, 0, 0, 0, 2]))
    def publish(self, body: bytes, persistent: bool, count: int) -> None:
        number, self.next = self.next, self.next + 1
        record = message(number, body=body, redeliveries=count)
        self.model[self.given] = [number, body, persistent, False, count]
        self.changed()
        assert done(self.index.publish(record, persistent=persistent)) == self.given
        self.given += 1

    @rule(at=st.integers(0, 50))
    def deliver(self, at: int) -> None:
        seq = self.pick(at, delivered=False)
        if seq is not None:
            self.model[seq][3] = True
            self.changed()
            done(self.index.deliver([seq]))

    @rule(at=st.integers(0, 50))
    def ack(self, at: int) -> None:
        seq = self.pick(at)
        if seq is not None:
            self.model[seq][3] = True
            self.changed()
            del self.model[seq]
            self.changed()
            done(self.index.ack([seq]))

    @rule(at=st.integers(0, 50), count=st.integers(0, 5))
    def recount(self, at: int, count: int) -> None:
        seq = self.pick(at)
        if seq is not None:
            number, body, _, _, before = self.model[seq]
            self.model[seq][4] = max(before, count)
            self.changed()
            done(self.index.recount(seq, message(number, body=body, redeliveries=count)))

    @rule()
    def sync(self) -> None:
        done(self.index.sync())
        self.moments = self.moments[-1:]

    @rule()
    def flush(self) -> None:
        done(self.index.flush())
        self.moments = self.moments[-1:]

    @rule()
    def convert(self) -> None:
        done(self.index.convert())
        assert {version for name, version in self.index.versions.items() if name != "journal.jif"} <= {2}
        self.moments = self.moments[-1:]

    @rule(seed=st.integers(0, 2**20), limit=st.integers(1, 30), how=st.sampled_from(["kill", "power", "within"]))
    def restart(self, seed: int, limit: int, how: str) -> None:
        """A kill or a loss of power, behind the last step or within it."""
        self.index.close()
        rng = random.Random(seed)
        left = rng.choice(list(self.disk.lost(rng))) if how == "power" else self.disk.killed()
        before = self.moments
        if how == "within" and self.recent:
            left, before = rng.choice(self.recent), self.recently
        self.disk = MemoryDisk(left)
        self.disk.watch = self.crash
        self.index = opened(self.disk, version=rng.choice([1, 2]), max_journal_entries=limit)
        found = content(self.index)
        assert found in before, f"it was never {found} since {before[0]}"
        self.model = {
            seq: [int(name), body, persistent, delivered, count]
            for seq, name, _, _, body, persistent, delivered, count in found
        }
        self.given = self.index.bounds[1]
        assert self.given > max(self.model, default=-1)
        self.moments = self.window = [found]

    @invariant()
    def same(self) -> None:
        assert content(self.index) == as_said(self.model)
        assert len(self.index) == len(self.model)
        crashes, self.crashes = self.crashes, []
        for left in crashes:
            found = content(opened(left))
            assert found in self.window + self.moments, f"it was never {found} since {self.window[0]}"
        if crashes:
            self.recent, self.recently = crashes, self.window + self.moments
        self.window = list(self.moments)


def run(examples: int, *, same: bool = False) -> None:
    run_state_machine_as_test(
        IndexBesideModel,
        settings=settings(
            max_examples=examples,
            stateful_step_count=60,
            deadline=None,
            derandomize=same,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


if __name__ == "__main__":
    run(int(sys.argv[1]))
