"""Votes of many groups: those that are saved at the same time share a file and its sync, and none is forgotten."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

import msgspec
import pytest

from splitbrain.cluster.errors import CorruptStorageError, StorageError
from splitbrain.cluster.log.nodelog import NODE, NodeFile, NodeLog, decode_node, open_node_log
from splitbrain.cluster.log.reading import read_files
from splitbrain.cluster.log.vote import Vote, name_of
from splitbrain.cluster.log.votes import VOTES
from splitbrain.cluster.log.whole import Form
from tests.cluster.support import Draws, FakeDisk

GROUPS = tuple(f"g{number}" for number in range(9))


async def node_log(disk: FakeDisk, *, makes: bool = False) -> NodeLog:
    log = await open_node_log(disk, "n1", Draws(0), lambda _: None)
    for name in GROUPS if makes else ():
        await log.create(name)
    disk.calls.clear()
    return log


def replaced(disk: FakeDisk) -> list[str]:
    found = [call.removeprefix("replace ") for call in disk.calls if call.startswith("replace ")]
    disk.calls.clear()
    return found


async def save(log: NodeLog, term: int, names: tuple[str, ...] = GROUPS) -> list[str]:
    """Have groups vote at once; the names of those for which that is durable."""
    saving = (log.groups[name].save_vote(Vote(term, f"n{term}")) for name in names)
    ended = await asyncio.gather(*saving, return_exceptions=True)
    return [name for name, result in zip(names, ended, strict=True) if result is None]


def votes(log: NodeLog) -> Mapping[str, Vote]:
    return {name: found.vote for name, found in log.found.items()}


def test_groups_that_vote_at_once_share_a_file() -> None:
    async def check() -> None:
        disk = FakeDisk()
        log = await node_log(disk, makes=True)
        assert await save(log, 1) == list(GROUPS)
        assert replaced(disk) == [name_of(1), VOTES, NODE]
        await save(log, 2)
        assert replaced(disk) == [name_of(1), VOTES]
        await save(log, 3, ("g4",))
        assert replaced(disk) == [name_of(5)]
        expected = {name: Vote(2, "n2") for name in GROUPS} | {"g4": Vote(3, "n3")}
        assert votes(await node_log(disk)) == expected

    asyncio.run(check())


def test_what_came_while_the_others_were_written_goes_into_the_next_file() -> None:
    async def check() -> None:
        disk = FakeDisk()
        log = await node_log(disk, makes=True)
        disk.gate = asyncio.Event()
        saving = [asyncio.ensure_future(log.groups[name].save_vote(Vote(1))) for name in GROUPS[:4]]
        await asyncio.sleep(0)
        assert not any(each.done() for each in saving)
        disk.gate.set()
        await saving[0]
        disk.gate.clear()
        later = [asyncio.ensure_future(log.groups[name].save_vote(Vote(1))) for name in GROUPS[4:]]
        await asyncio.sleep(0)
        assert not saving[1].done()
        disk.gate.set()
        await asyncio.gather(*saving, *later)
        assert [name for name in replaced(disk) if name != NODE] == [name_of(1), VOTES, VOTES]
        assert votes(await node_log(disk)) == dict.fromkeys(GROUPS, Vote(1))

    asyncio.run(check())


class Dying(FakeDisk):
    """A disk that fails at a replacement, before or after that took effect."""

    left = 99
    takes_effect = False

    async def replace(self, name: str, data: bytes) -> None:
        self.left -= 1
        if self.left >= 0 or (self.left == -1 and self.takes_effect):
            await super().replace(name, data)
        if self.left < 0:
            raise OSError("the power is gone")


@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("left", range(7))
def test_a_loss_of_power_at_any_write_loses_no_vote_that_was_saved(left: int, takes_effect: bool) -> None:
    async def check() -> None:
        disk = Dying()
        log = await node_log(disk, makes=True)
        disk.left, disk.takes_effect = left, takes_effect
        saved = dict.fromkeys(GROUPS, 0)
        for term in (1, 2, 3):
            begun = dict.fromkeys(GROUPS, term)
            saved |= dict.fromkeys(await save(log, term), term)
            if disk.left < 0:
                break
        found = votes(await node_log(disk.crash(random.Random(left))))
        for name in GROUPS:
            assert found[name].term in (saved[name], begun[name]), name
            assert found[name] == (Vote(found[name].term, f"n{found[name].term}") if found[name].term else Vote())

    asyncio.run(check())


def test_a_snapshot_that_was_taken_over_is_remembered_in_either_file() -> None:
    async def check() -> None:
        disk = FakeDisk()
        log = await node_log(disk, makes=True)
        await asyncio.gather(*(log.votes.save(uid, Vote(4), installed=uid) for uid in (1, 2, 3)))
        with pytest.raises(CorruptStorageError, match="snapshot that was taken over from another member is gone"):
            await node_log(disk)
        noted = [damage.file for damage in read_files(disk).damage]
        assert noted == [f"snapshot-{uid:08x}-{uid:016x}" for uid in (1, 2, 3)]

    asyncio.run(check())


def test_a_node_that_shared_a_file_refuses_to_start_without_it() -> None:
    async def check(content: bytes | None) -> None:
        disk = FakeDisk()
        await save(await node_log(disk, makes=True), 1)
        disk.remove(VOTES)
        if content is not None:
            disk.put(VOTES, content)
        with pytest.raises(CorruptStorageError, match="votes"):
            await node_log(disk)
        assert [damage.file for damage in read_files(disk).damage] == [VOTES]

    asyncio.run(check(None))
    asyncio.run(check(b"SBVS" + bytes(12)))


def test_an_earlier_program_refuses_what_it_would_not_read() -> None:
    async def check() -> None:
        disk = FakeDisk()
        log = await node_log(disk, makes=True)
        before = disk.read(NODE) or b""
        assert not decode_node(before).shares_votes
        await save(log, 1)
        after = disk.read(NODE) or b""
        assert decode_node(after).shares_votes
        with pytest.raises(StorageError, match="version"):
            Form(b"SBND", 1).decode(after, NODE, NodeFile)

    asyncio.run(check())


class Earlier(Vote, frozen=True):
    """What earlier programs saved."""

    uid: int = 0
    installed: int = 0


def test_data_of_an_earlier_program_are_read() -> None:
    async def check() -> None:
        disk = FakeDisk()
        log = await node_log(disk, makes=True)
        log.close()
        for uid in range(1, 1 + len(GROUPS)):
            disk.put(name_of(uid), Form(b"SBVT", 1).encode(Earlier(7, "n3", uid)))
        again = await node_log(disk)
        assert votes(again) == dict.fromkeys(GROUPS, Vote(7, "n3"))
        await save(again, 8, GROUPS[:3])
        assert list(votes(await node_log(disk)).values()) == [Vote(8, "n8")] * 3 + [Vote(7, "n3")] * 6

    asyncio.run(check())


def test_a_group_that_was_deleted_leaves_nothing() -> None:
    async def check() -> None:
        disk = FakeDisk()
        log = await node_log(disk, makes=True)
        await save(log, 1)
        await log.delete("g3")
        await log.create("g3", incarnation=1)
        await save(log, 2, GROUPS[:3])
        assert votes(await node_log(disk))["g3"] == Vote()
        assert 4 not in msgspec.msgpack.decode((disk.read(VOTES) or b"")[12:])["groups"]

    asyncio.run(check())
