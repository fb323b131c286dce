"""The table of transformations, and what permits a conversion (CQ-7)."""

from __future__ import annotations

import pytest

from splitbrain.cluster.classic import Alarms, Load, Thresholds, Transformations, open_index, open_transformations
from splitbrain.cluster.classic.transformations import KNOWN, MESSAGE_PROPERTIES, enable
from splitbrain.cluster.errors import ConversionRefusedError, CorruptStorageError
from tests.cluster.classic.disk import MemoryDisk, done
from tests.cluster.classic.support import CONTENT_OF_RABBITMQ, content, files_of_rabbitmq, message


def table(disk: MemoryDisk | None = None, thresholds: Thresholds | None = None) -> Transformations:
    return done(open_transformations(disk or MemoryDisk(), Alarms(), thresholds))


def test_cq_7_what_was_begun_is_there_after_a_restart() -> None:
    disk = MemoryDisk()
    begun = table(disk)
    assert begun.versions == {}
    done(begun.record(MESSAGE_PROPERTIES))
    assert begun.versions == table(MemoryDisk(disk.killed())).versions == KNOWN == {"message_properties": 2}
    damaged = bytearray(disk.killed()["transformations"])
    damaged[-1] ^= 1
    with pytest.raises(CorruptStorageError):
        table(MemoryDisk({"transformations": bytes(damaged)}))


def test_cq_7_thresholds_and_alarms_say_whether_a_step_is_permitted() -> None:
    found = table(thresholds=Thresholds(messages=100, queues=2))
    assert found.is_permitted(MESSAGE_PROPERTIES)
    assert found.is_permitted(MESSAGE_PROPERTIES, Load(100, 2))
    assert not found.is_permitted(MESSAGE_PROPERTIES, Load(101, 1))
    assert not found.is_permitted(MESSAGE_PROPERTIES, Load(1, 3))
    assert not found.is_permitted("something")
    found.alarms.set("memory")
    found.alarms.set("disk")
    found.alarms.clear("memory")
    assert not found.is_permitted(MESSAGE_PROPERTIES)
    with pytest.raises(ConversionRefusedError, match=r"refused while there is an alarm \(disk\): clear it") as refused:
        found.require(MESSAGE_PROPERTIES)
    assert refused.value.reason == "alarm"
    found.alarms.clear("disk")
    assert found.is_permitted(MESSAGE_PROPERTIES)
    with pytest.raises(ConversionRefusedError, match="101 messages to convert, and at most 100 ") as refused:
        found.require(MESSAGE_PROPERTIES, Load(101))
    assert refused.value.reason == "threshold"


def test_cq_7_all_participants_begin_or_none_does() -> None:
    tables = [table() for _ in range(3)]
    tables[1].alarms.set("memory")
    with pytest.raises(ConversionRefusedError):
        done(enable(MESSAGE_PROPERTIES, [(each, Load(5)) for each in tables]))
    assert [each.versions for each in tables] == [{}, {}, {}]
    tables[1].alarms.clear("memory")
    done(enable(MESSAGE_PROPERTIES, [(each, Load(5)) for each in tables]))
    assert [each.versions for each in tables] == [KNOWN, KNOWN, KNOWN]


def test_cq_7_a_conversion_asks_each_time_and_an_alarm_refuses_it() -> None:
    found = table()
    disk = MemoryDisk(files_of_rabbitmq())
    index = done(open_index(disk, found.index_options(1_000)))
    with pytest.raises(ConversionRefusedError, match="was not begun on this node") as refused:
        done(index.convert())
    assert refused.value.reason == "not_enabled"
    done(found.record(MESSAGE_PROPERTIES))
    found.alarms.set("disk")
    with pytest.raises(ConversionRefusedError, match="alarm"):
        done(index.convert())
    with pytest.raises(ConversionRefusedError, match="alarm"):
        done(index.recount(0, message(10, redeliveries=1)))
    assert (set(index.versions.values()), content(index)) == ({1}, CONTENT_OF_RABBITMQ)
    found.alarms.clear("disk")
    done(index.recount(0, message(10, redeliveries=1)))
    done(index.convert())
    assert set(index.versions.values()) == {2}


def test_cq_7_new_files_are_of_version_2_once_it_was_begun_and_files_of_version_1_are_read_on() -> None:
    found = table()
    done(found.record(MESSAGE_PROPERTIES))
    disk = MemoryDisk(files_of_rabbitmq())
    index = done(open_index(disk, found.index_options(1_000)))
    assert content(index) == CONTENT_OF_RABBITMQ
    assert index.versions == {"journal.jif": 2, "0.idx": 1, "1.idx": 1}
    assert disk.killed()["0.idx"] == files_of_rabbitmq()["0.idx"]
