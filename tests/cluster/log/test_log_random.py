"""What a node's log promised survives any sequence of writes, roll-overs, snapshots, kills and losses of power.

RA-33 to RA-40. Each group is compared with a model: what is found after a crash is what the log was at some moment, not
before the last moment that was reported as durable.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, TypeAlias

import pytest

from splitbrain.cluster.log.nodelog import NodeLog, open_node_log
from splitbrain.cluster.log.snapshot import Meta
from splitbrain.cluster.log.vote import Vote
from splitbrain.cluster.marks import counted
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.raft.events import Written
from tests.cluster.support import Draws, FakeDisk

GROUPS = ("tree", "queue")

EXPECTED = (
    "recovered with a log",
    "write-ahead log rolled over",
    "former write-ahead file removed",
    "segment written",
    "checkpoint written",
    "checkpoint promoted",
    "checkpoint skipped",
    "recovered from a checkpoint",
    "former snapshot removed",
    "log replaced by a snapshot",
    "torn tail cut off",
)
"""Marks that these runs must reach."""

ROLL_OVER_BYTES = 400


class Model:
    """What one group's log was, moment by moment.

    Attributes:
        moments: the log after each change.
        durable: the number of the last moment that was reported as durable.
        committed: entries that never change.
        covered: the last entry of the newest snapshot or checkpoint that must be there.
    """

    def __init__(self, entries: Sequence[Entry] = (), snapshot: int = 0, vote: Vote | None = None) -> None:
        self.moments: list[tuple[Entry, ...]] = [tuple(entries)]
        self.durable = 0
        self.committed = snapshot
        self.snapshot = snapshot
        self.checkpoints: list[int] = []
        self.vote = vote or Vote()

    @property
    def log(self) -> tuple[Entry, ...]:
        return self.moments[-1]

    def append(self, entries: Sequence[Entry]) -> int:
        for entry in entries:
            self.moments.append((*self.log, entry))
        return len(self.moments) - 1

    def truncate(self, from_index: int) -> None:
        self.moments.append(self.log[: from_index - 1])


def state_of(entries: Sequence[Entry]) -> bytes:
    """A state machine that knows all that was applied."""
    return repr([(entry.index, entry.term, entry.data) for entry in entries]).encode()


class World:
    """A node's log and the models of its groups."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.disk = FakeDisk()
        self.models = {name: Model() for name in GROUPS}
        self.log: NodeLog
        self.syncing: asyncio.Task[None]
        self.term = 1

    async def open(self) -> None:
        self.log = await open_node_log(self.disk, "n1", Draws(1), lambda _: None)
        for name in GROUPS:
            if name not in self.log.groups:
                await self.log.create(name)
        self.syncing = asyncio.get_running_loop().create_task(self.log.sync(self._written, ROLL_OVER_BYTES))

    def _written(self, name: str, done: Written) -> None:
        model = self.models[name]
        model.durable = max(model.durable, done.generation)

    async def stop(self) -> None:
        self.syncing.cancel()
        [problem] = await asyncio.gather(self.syncing, return_exceptions=True)
        assert isinstance(problem, asyncio.CancelledError), problem

    def append(self, name: str, count: int, size: int) -> None:
        model, group = self.models[name], self.log.groups[name]
        first = len(model.log) + 1
        entries = [
            Entry(first + i, self.term, "command", self.rng.randbytes(self.rng.randint(0, size))) for i in range(count)
        ]
        moment = model.append(entries)
        # The generation carries the moment: nothing here looks at it.
        group.append(entries, Written(entries[-1].index, self.term, moment))

    def truncate(self, name: str, back: int) -> None:
        model, group = self.models[name], self.log.groups[name]
        from_index = max(model.committed + 1, len(model.log) + 1 - back)
        if from_index <= len(model.log):
            self.term += 1
            group.truncate(from_index)
            model.truncate(from_index)

    def commit(self, name: str, back: int) -> None:
        model = self.models[name]
        model.committed = max(model.committed, len(model.log) - back)
        self.log.groups[name].committed = model.committed

    def durable_and_committed(self, name: str) -> int:
        model = self.models[name]
        # What was cut off since is not durable any more (RA-16).
        return min([model.committed, *map(len, model.moments[model.durable :])])

    def meta(self, name: str, index: int) -> tuple[Meta, bytes]:
        entries = self.models[name].log[:index]
        return Meta(uid=self.log.groups[name].uid, index=index, term=entries[-1].term), state_of(entries)

    def checkpoint(self, name: str) -> None:
        model, index = self.models[name], self.durable_and_committed(name)
        if index > max([model.snapshot, *model.checkpoints]):
            self.log.groups[name].write_checkpoint(*self.meta(name, index))
            model.checkpoints.append(index)

    async def promote(self, name: str) -> None:
        model = self.models[name]
        if await self.log.groups[name].promote(model.committed):
            snapshot = self.log.groups[name].snapshot
            assert snapshot is not None
            model.snapshot = snapshot.index

    async def snapshot(self, name: str) -> None:
        model, index = self.models[name], self.durable_and_committed(name)
        if index > model.snapshot:
            await self.log.groups[name].write_snapshot(*self.meta(name, index))
            model.snapshot = index

    async def install(self, name: str) -> None:
        """A snapshot that is beyond what is committed here; of a log that differs from this one behind that."""
        model, group = self.models[name], self.log.groups[name]
        self.term += 1
        index = model.committed + self.rng.randint(1, 6)
        entries = [*model.log[: model.committed]]
        entries += [Entry(i, self.term, "command", b"theirs") for i in range(len(entries) + 1, index + 1)]
        # From here on the log may be either, until it is durably this one.
        model.moments.append(tuple(entries))
        await group.install(Meta(uid=group.uid, index=index, term=self.term), state_of(entries))
        # It replaces all that there was.
        model.durable = len(model.moments) - 1
        model.committed = model.snapshot = group.committed = index

    async def vote(self, name: str) -> None:
        vote = Vote(self.term, self.rng.choice([None, "n1", "n2"]))
        await self.log.groups[name].save_vote(vote)
        self.models[name].vote = vote

    async def interrupt(self, operation: str, name: str, turns: int, power: bool) -> None:
        """Crash the node while it makes a snapshot, promotes a checkpoint, or takes over a snapshot."""
        begun = asyncio.get_running_loop().create_task(getattr(self, operation)(name))
        for _ in range(turns):
            await asyncio.sleep(0)
        begun.cancel()
        await asyncio.gather(begun, return_exceptions=True)
        await self.crash(power=power)

    async def crash(self, *, power: bool) -> None:
        await self.stop()
        if power:
            self.disk = self.disk.crash(self.rng)
        await self.open()
        for name, model in self.models.items():
            self.models[name] = self.compare(name, model)

    def compare(self, name: str, model: Model) -> Model:
        """What was found is a moment of the model; the model from here on."""
        found = self.log.found[name]
        begin = 0 if found.meta is None else found.meta.index
        assert begin >= model.snapshot
        assert found.vote == model.vote
        for moment in model.moments[model.durable :]:
            state = state_of(moment[:begin]) if begin else b""
            if len(moment) >= begin and list(moment[begin:]) == list(found.entries) and found.state == state:
                group = self.log.groups[name]
                assert group.last_index == len(moment)
                assert group.read(group.first_index, group.last_index) == list(moment[group.first_index - 1 :])
                assert group.first_index <= begin + 1
                snapshot = 0 if group.snapshot is None else group.snapshot.index
                model = Model(moment, snapshot, model.vote)
                model.committed = group.committed
                model.checkpoints = [begin]
                return model
        raise AssertionError(f"{name} found {found}, which it never was since {model.moments[model.durable]}")


Step: TypeAlias = tuple[Any, ...]


def steps_of(seed: int) -> list[Step]:
    """Random steps; crashes are rare enough for much to happen between them."""
    rng = random.Random(seed)
    steps: list[Step] = []
    for _ in range(rng.randint(5, 60)):
        group = rng.choice(GROUPS)
        steps.append(
            rng.choices(
                [
                    ("append", group, rng.randint(1, 8), rng.choice([0, 10, 600])),
                    ("truncate", group, rng.randint(1, 5)),
                    ("commit", group, rng.randint(0, 4)),
                    (rng.choice(["checkpoint", "checkpoint", "promote", "snapshot", "install", "vote"]), group),
                    ("wait", rng.choice([1, 3, 20])),
                    ("crash", rng.random() < 0.6),
                    (
                        "interrupt",
                        rng.choice(["promote", "promote", "snapshot", "install"]),
                        group,
                        rng.randint(1, 5),
                        rng.random() < 0.6,
                    ),
                ],
                [35, 7, 16, 20, 15, 5, 4],
            )[0]
        )
    return steps


async def follow(steps: Sequence[Step], seed: int) -> None:
    world = World(seed)
    await world.open()
    await follow_in(world, steps)
    await world.crash(power=True)
    await world.stop()


async def follow_in(world: World, steps: Sequence[Step]) -> None:
    """Take the steps; the world must be open, and is afterwards."""
    for step in steps:
        match step:
            case ("wait", turns):
                for _ in range(turns):
                    await asyncio.sleep(0)
            case ("crash", power):
                await world.crash(power=power)
            case (str(name), *arguments):
                result = getattr(world, name)(*arguments)
                if result is not None:
                    await result
            case _:
                raise AssertionError(f"no such step: {step}")


@pytest.mark.parametrize(
    "seeds", [range(300), pytest.param(range(300, 3_000), marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_after_any_crash_each_log_is_what_it_was_at_some_moment_that_no_report_forbids(seeds: range) -> None:
    with counted() as reached:
        for seed in seeds:
            try:
                asyncio.run(follow(steps_of(seed), seed))
            except Exception as error:
                raise AssertionError(f"seed {seed}") from error
    assert [mark for mark in EXPECTED if not reached[mark]] == [], "what no run reached, none has tested"
