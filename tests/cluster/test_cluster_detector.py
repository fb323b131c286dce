"""Which nodes a node takes for down (RA-4)."""

from __future__ import annotations

import asyncio
import random

from splitbrain.cluster.detector import FACTOR, SAMPLES, FailureDetector, Signs
from tests.cluster.support import World, eventually, in_cluster

MS = 1_000_000
THREE = ["n1", "n2", "n3"]


def heard_every(interval_ms: int, count: int) -> tuple[FailureDetector, Signs, int]:
    """What n1 thinks when n2 was heard so often at an even interval, and when it was heard last, in ms."""
    detector = FailureDetector(["n2"])
    signs = detector.connected("n2", 0)
    for number in range(1, count + 1):
        signs.heard(number * interval_ms * MS)
    return detector, signs, count * interval_ms


def test_ra4_a_node_is_down_once_its_silence_is_longer_by_half_than_99_of_100_intervals() -> None:
    detector, signs, last = heard_every(400, 2000)
    assert signs.suspicion((last + 599) * MS) == 0
    assert signs.suspicion((last + 600) * MS) == 1
    assert detector.poll((last + 599) * MS) == []
    assert detector.poll((last + 1599) * MS) == ["n2"]
    assert detector.is_down("n2")
    signs.heard((last + 2000) * MS)
    assert detector.is_down("n2"), "until the next poll"
    assert detector.poll((last + 2100) * MS) == ["n2"]
    assert not detector.is_down("n2")


def test_ra4_the_suspicion_is_the_share_of_the_last_1000_intervals_that_are_exceeded() -> None:
    rng = random.Random(4)
    intervals = [rng.randint(200, 2000) for _ in range(1500)]
    signs, now = FailureDetector(["n2"]).connected("n2", 0), 0
    for interval in intervals:
        now += interval
        signs.heard(now * MS)
    for silence in (300, 500, 1000, 1750, 2500, 2980, 3000):
        share = sum(interval * FACTOR <= silence for interval in intervals[-SAMPLES:]) / SAMPLES
        assert signs.suspicion((now + silence) * MS) == share


def test_ra4_messages_that_come_in_crowds_do_not_make_an_ordinary_silence_suspicious() -> None:
    """A loaded node is heard each millisecond. When the load ends it is heard four times a second."""
    _, signs, last = heard_every(1, 60_000)
    assert signs.suspicion((last + 299) * MS) == 0
    assert signs.suspicion((last + 400) * MS) == 1


def test_ra4_a_node_behind_an_uneven_way_is_given_more_time() -> None:
    detector = FailureDetector(["n2"])
    signs, now = detector.connected("n2", 0), 0
    for number in range(1000):
        now += 250 if number % 50 else 2000
        signs.heard(now * MS)
    assert signs.suspicion((now + 2999) * MS) < 0.99
    assert signs.suspicion((now + 3000) * MS) >= 0.99


def test_ra4_an_outage_is_no_interval() -> None:
    detector, signs, last = heard_every(250, 10)
    assert detector.poll((last + 1000) * MS) == ["n2"]
    for second in range(2, 10):
        assert detector.poll((last + 1000 * second) * MS) == []
    signs.heard((last + 9500) * MS)
    assert detector.poll((last + 9600) * MS) == ["n2"]
    assert signs.suspicion((last + 9500 + 400) * MS) == 1


def test_ra4_without_a_connection_a_node_is_down_and_a_new_one_is_a_sign_of_life() -> None:
    detector, signs, last = heard_every(250, 10)
    signs.ended()
    assert detector.poll(last * MS) == ["n2"]
    later = detector.connected("n2", (last + 500) * MS)
    assert detector.poll((last + 600) * MS) == ["n2"]
    detector.connected("n2", (last + 700) * MS)
    later.ended()
    assert detector.poll((last + 750) * MS) == [], "the newer connection stands"


def test_ra4_a_node_that_never_came_is_down_from_the_first_poll_on() -> None:
    detector = FailureDetector(["n2"])
    assert not detector.is_down("n2")
    assert detector.poll(1000 * MS) == ["n2"]
    assert detector.poll(2000 * MS) == []


def test_ra4_who_stood_still_itself_judges_no_one() -> None:
    detector, signs, last = heard_every(250, 40)
    assert detector.poll(last * MS) == []
    assert detector.poll((last + 60_000) * MS) == [], "messages wait that it has not looked at yet"
    signs.heard((last + 60_001) * MS)
    assert detector.poll((last + 60_900) * MS) == ["n2"], "and then it was silent"


def test_ra4_a_standstill_of_the_node_itself_is_no_interval_of_others() -> None:
    """A node that goes on takes what waits for it before it is asked whom it takes for down."""
    detector, signs, now = heard_every(250, 10)
    for _ in range(5):
        assert detector.poll(now * MS) == []
        now += 60_000
        signs.heard(now * MS)
        assert detector.poll((now + 1) * MS) == []
        now += 1
    assert signs.suspicion((now + 400) * MS) == 1


def test_ra4_status_says_which_members_a_node_takes_for_down() -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")

        async def takes(*nodes: str) -> bool | None:
            return (await client.status()).down == nodes or None

        await asyncio.sleep(2)
        assert await takes()
        await world.kill("n3")
        await eventually(lambda: takes("n3"))
        await world.start("n3")
        await eventually(lambda: takes())
        world.cut = {("n2", "n1")}  # n1 still reaches n2, and does not hear it
        await eventually(lambda: takes("n2"))
        assert "n2 is taken for down" in world.logs["n1"]
        world.cut = set()
        await eventually(lambda: takes())
        assert world.logs["n1"].count("n2 is no longer taken for down") == 1

    in_cluster(World(THREE), check)


def test_ra4_a_spare_node_that_is_no_member_is_not_named() -> None:
    async def check(world: World) -> None:
        await world.kill("n9")
        await asyncio.sleep(2)
        assert (await (await world.client("n1")).status()).down == ()

    world = World([*THREE, "n9"])
    world.founders = tuple(THREE)
    in_cluster(world, check)
