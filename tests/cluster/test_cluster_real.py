"""The runtime of a node on the operating system: what it must give back, whatever the network does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Generator
from pathlib import Path

import pytest

from splitbrain.cluster import real
from splitbrain.cluster.bugs import NO_BUGS
from splitbrain.cluster.peers import PeerLink
from splitbrain.cluster.real import InWorker, RealDisk, RealWorld
from splitbrain.cluster.runtime import Address


@pytest.fixture
def deaf() -> Generator[Address]:
    """An address that answers no attempt to connect, as behind a cut link: a listener whose backlog is full."""
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            caller = sockets.enter_context(socket.socket())
            caller.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                caller.connect(listener.getsockname())
        yield listener.getsockname()


def ignore(_: BaseException) -> None:
    pass


@pytest.mark.slow
def test_a_link_that_stays_cut_does_not_gather_sockets(
    deaf: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dials about twice a second, and the kernel would hold on to each attempt for two minutes."""
    monkeypatch.setattr(real, "CONNECT_TIMEOUT_S", 0.3)

    async def check() -> None:
        world = RealWorld(tmp_path, "n1", ignore)
        link = PeerLink(world.runtime, "n1", "n2", deaf, lambda: None, NO_BUGS)
        before = len(os.listdir("/proc/self/fd"))
        world.runtime.spawn(link.run(), "link")
        await asyncio.sleep(2.5)
        during = len(os.listdir("/proc/self/fd"))
        await world.close()
        assert during - before <= 1

    asyncio.run(check())


def test_only_an_attempt_that_no_process_answered_is_refused(tmp_path: Path, deaf: Address) -> None:
    async def check() -> None:
        world = RealWorld(tmp_path, "n1", ignore)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            unserved: Address = taken.getsockname()[:2]
            with pytest.raises(ConnectionRefusedError, match=r"127\.0\.0\.1:\d+: "):
                await world.runtime.network.connect(unserved)
        await world.close()

    asyncio.run(check())


def test_an_attempt_to_connect_ends_with_a_reason(
    deaf: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real, "CONNECT_TIMEOUT_S", 0.1)

    async def check() -> None:
        world = RealWorld(tmp_path, "n1", ignore)
        with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:\d+: no answer within 0\.1 s"):
            await world.runtime.network.connect(deaf)
        await world.close()

    asyncio.run(check())


def test_what_a_node_tells_after_its_end_goes_into_no_other_file(tmp_path: Path) -> None:
    """A timer of a node that was closed found its file closed; the number could have been another file's by then."""

    async def scenario() -> None:
        world = RealWorld(tmp_path / "n1", "n1", lambda error: None)
        world.runtime.telemetry(b"before")
        await world.close()
        await world.close()
        other = os.open(tmp_path / "other", os.O_WRONLY | os.O_CREAT)
        try:
            world.runtime.telemetry(b"after")
        finally:
            os.close(other)

    asyncio.run(scenario())
    assert (tmp_path / "n1" / "telemetry.jsonl").read_bytes() == b"before\n"
    assert (tmp_path / "other").read_bytes() == b""


def test_a_timer_that_fails_stops_the_node_as_a_task_does(tmp_path: Path) -> None:
    """The event loop alone would log it, and the node would go on with whatever was left half done."""

    async def check() -> None:
        failures = list[BaseException]()
        world = RealWorld(tmp_path, "n1", failures.append)
        error, rung = KeyError("lost"), list[str]()

        def fails() -> None:
            raise error

        world.runtime.clock.call_later(0, fails)
        world.runtime.clock.call_later(0, fails).cancel()
        world.runtime.clock.call_later(0, lambda: rung.append("rings"))
        await asyncio.sleep(0.05)
        await world.close()
        assert failures == [error]
        assert rung == ["rings"]

    asyncio.run(check())


def test_no_task_goes_on_while_another_one_ends(tmp_path: Path) -> None:
    """What a node does after its "stop" would contradict it: n1 wrote of a commit there, on a busy machine."""

    async def check() -> None:
        world = RealWorld(tmp_path, "n1", ignore)
        steps: list[str] = []

        async def ends_slowly() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                for _ in range(10):
                    await asyncio.sleep(0)
                steps.append("ended")

        async def works() -> None:
            while True:
                await asyncio.sleep(0)
                steps.append("worked")

        world.runtime.spawn(ends_slowly(), "ends slowly")
        world.runtime.spawn(works(), "works")
        await asyncio.sleep(0)
        before = len(steps)
        await world.close()
        assert steps[before:] == ["ended"]

    asyncio.run(check())


def test_a_new_data_directory_is_durable_with_those_above_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    loop = asyncio.new_event_loop()
    try:
        for expected in ([tmp_path, tmp_path / "nodes"], []):
            synced.clear()
            RealDisk(tmp_path / "nodes" / "n1", InWorker(loop))
            assert synced == list(map(str, expected))
    finally:
        loop.close()


def test_whether_there_is_a_file_is_asked_by_its_name_and_a_disk_that_fails_says_nothing(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    try:
        disk = RealDisk(tmp_path / "n1", InWorker(loop))
        assert not disk.has("log")
        disk.open("log").close()
        assert disk.has("log")
        (tmp_path / "n1" / "round").symlink_to("round")
        with pytest.raises(OSError, match="symbolic links"):
            disk.has("round")
    finally:
        loop.close()
