"""The journal of a node: what was made durable is there after a loss of power, and nothing that never was."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.cluster.errors import CorruptStorageError, WrongNodeError
from splitbrain.cluster.tables import journal
from splitbrain.cluster.tables.journal import (
    Active,
    Committed,
    Journal,
    Record,
    Whole,
    decode_records,
    decode_whole,
    encode_record,
    encode_whole,
    open_journal,
    recover,
)
from splitbrain.cluster.tables.records import Delete, Insert, Item, Put, Tables
from tests.cluster.support import FakeDisk

ITEM = Item("t", "k")
RECORDS: list[Record] = [Committed((Put(ITEM, [1, "a"]), Insert(Item("b", "x"), 2))), Active(("n1", "n2"))]


def run(whole: Coroutine[Any, Any, None]) -> None:
    asyncio.run(whole)


def test_records_are_read_as_they_were_written() -> None:
    assert decode_records(b"".join(map(encode_record, RECORDS))) == RECORDS


@given(st.integers(0, 200), st.integers(0, 255))
def test_what_is_behind_a_damaged_record_does_not_count(at: int, byte: int) -> None:
    data = bytearray(b"".join(map(encode_record, RECORDS)))
    at %= len(data)
    whole = data[at] == byte
    data[at] = byte
    found = decode_records(bytes(data))
    first = len(encode_record(RECORDS[0]))
    assert found == (RECORDS if whole else RECORDS[: 0 if at < first else 1])


def test_a_record_that_was_cut_short_does_not_count() -> None:
    data = b"".join(map(encode_record, RECORDS))
    first = len(encode_record(RECORDS[0]))
    for size in range(len(data)):
        assert decode_records(data[:size]) == RECORDS[: 1 if size >= first else 0]


def test_damage_of_the_tables_is_noticed() -> None:
    data = encode_whole(Whole("n1", 3, {"t": {"k": [1]}}, ("n1",)))
    assert decode_whole(data).contents == {"t": {"k": [1]}}
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        with pytest.raises(CorruptStorageError):
            decode_whole(bytes(damaged))


def test_changes_are_applied_in_order_and_a_key_may_have_several_values() -> None:
    tables = Tables()
    tables.apply([Put(ITEM, 1), Insert(ITEM, 2), Insert(ITEM, 1)])
    assert tables.read(ITEM) == (1, 2)
    tables.apply([Put(ITEM, 3)])
    assert tables.read(ITEM) == (3,)
    tables.apply([Delete(ITEM), Delete(Item("no", "such"))])
    assert tables.read(ITEM) == ()
    one, other = Tables({"t": {"k": [1, 2]}}), Tables({"t": {"k": [2, 1]}})
    assert one.encoded() == other.encoded()


async def _until(condition: list[int], count: int) -> None:
    for _ in range(1000):
        if len(condition) >= count:
            return
        await asyncio.sleep(0)
    raise AssertionError("nothing became durable")


def test_what_was_said_to_be_durable_survives_a_loss_of_power() -> None:
    async def check() -> None:
        disk = FakeDisk()
        _, opened = await open_journal(disk, "n1")
        syncing = asyncio.create_task(opened.sync())
        done: list[int] = []
        opened.append(Active(("n1", "n2")))
        opened.append(Committed((Put(ITEM, 1),)))
        opened.when_durable(lambda: done.append(1))
        await _until(done, 1)
        opened.append(Committed((Put(ITEM, 2),)))  # not acknowledged
        syncing.cancel()
        disk = disk.crash(random.Random(1))
        recovered, _ = recover(disk, "n1")
        assert recovered.contents["t"]["k"] in ([1], [2])
        assert recovered.active == ("n1", "n2")

    run(check())


def test_a_copy_of_other_tables_replaces_all_at_once_or_not_at_all() -> None:
    async def check() -> None:
        for acknowledged in (False, True):
            disk = FakeDisk()
            _, opened = await open_journal(disk, "n1")
            syncing = asyncio.create_task(opened.sync())
            done: list[int] = []
            opened.append(Committed((Put(ITEM, "old"),)))
            opened.when_durable(lambda done=done: done.append(1))
            await _until(done, 1)
            opened.replace({"t": {"other": ["new"]}}, ("n1", "n3"))
            opened.append(Committed((Put(Item("t", "later"), "new"),)))
            if acknowledged:
                opened.when_durable(lambda done=done: done.append(2))
                await _until(done, 2)
            syncing.cancel()
            disk = disk.crash(random.Random(2))
            recovered, _ = recover(disk, "n1")
            new = {"t": {"other": ["new"], "later": ["new"]}}
            assert recovered.contents == (new if acknowledged else {"t": {"k": ["old"]}})

    run(check())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_after_any_loss_of_power_there_is_a_state_no_older_than_the_last_that_was_durable(seed: int) -> None:
    async def check() -> None:
        rng = random.Random(seed)
        disk = FakeDisk()
        number = 0
        for _ in range(3):
            recovered, opened = await open_journal(disk, "n1")
            found = recovered.contents.get("t", {}).get("k", [0])[0]
            syncing = asyncio.create_task(opened.sync())
            durable = [found]
            for _ in range(rng.randint(0, 12)):
                number += 1
                if rng.random() < 0.2:
                    opened.replace({"t": {"k": [number]}}, ("n1",))
                else:
                    opened.append(Committed((Put(ITEM, number),)))
                if rng.random() < 0.5:
                    opened.when_durable(lambda number=number, durable=durable: durable.append(number))
                for _ in range(rng.choice([0, 1, 3, 10])):
                    await asyncio.sleep(0)
            syncing.cancel()
            disk = disk.crash(rng)
            left, _ = recover(disk, "n1")
            assert max(durable) <= left.contents.get("t", {}).get("k", [0])[0] <= number

    run(check())


def test_a_long_journal_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_BYTES", 200)

    async def check() -> None:
        disk = FakeDisk()
        _, opened = await open_journal(disk, "n1")
        syncing = asyncio.create_task(opened.sync())
        done: list[int] = []
        for number in range(50):
            opened.append(Committed((Put(ITEM, number),)))
            opened.when_durable(lambda: done.append(1))
            await _until(done, number + 1)
        syncing.cancel()
        assert sum(len(disk.read(name) or b"") for name in disk.names()) < 1000
        assert recover(disk, "n1")[0].contents == {"t": {"k": [49]}}

    run(check())


def test_the_data_of_another_node_are_refused() -> None:
    async def check() -> None:
        disk = FakeDisk()
        await open_journal(disk, "n1")
        with pytest.raises(WrongNodeError, match="n1"):
            await open_journal(disk, "n2")

    run(check())


def test_a_disk_that_fails_ends_the_node() -> None:
    async def check() -> None:
        disk = FakeDisk()
        _, opened = await open_journal(disk, "n1")
        disk.broken = True
        opened.append(Committed((Put(ITEM, 1),)))
        opened.when_durable(lambda: pytest.fail("it is not durable"))
        with pytest.raises(OSError, match="Input/output"):
            await Journal.sync(opened)

    run(check())
