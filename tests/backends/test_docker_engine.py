"""The engine is asked in threads, and who asks may be cancelled meanwhile: what was asked then still comes first."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Generator
from typing import cast

import docker
import pytest

from splitbrain.harness.backends.docker import engine as module
from splitbrain.harness.backends.docker.engine import Engine


class Client:
    """As much of a client as an engine touches in these tests."""

    def close(self) -> None:
        pass


@pytest.fixture
def engine() -> Generator[Engine]:
    found = Engine(cast(docker.DockerClient, Client()))
    yield found
    found.close()


def test_a_cancelled_call_ends_before_its_caller_goes_on(engine: Engine) -> None:
    """Else a pause that took too long would come after the end of all faults, and stay."""
    began, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def pause() -> None:
        began.set()
        assert go_on.wait(60)
        done.append("pause")

    async def scenario() -> None:
        changing = asyncio.Lock()

        async def change(what: str) -> None:
            async with changing:
                await engine.run(pause if what == "pause" else lambda: done.append(what))

        pausing = asyncio.create_task(change("pause"))
        await asyncio.to_thread(began.wait, 10)
        pausing.cancel()
        healing = asyncio.create_task(change("unpause"))
        await asyncio.sleep(0.1)
        go_on.set()
        await healing
        with contextlib.suppress(asyncio.CancelledError):
            await pausing
        assert pausing.cancelled()

    asyncio.run(scenario())
    assert done == ["pause", "unpause"]


def test_a_call_that_was_cancelled_before_it_began_never_begins(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    done: list[int] = []

    async def scenario() -> None:
        running = [asyncio.create_task(engine.run(lambda: go_on.wait(60))) for _ in range(module.THREADS)]
        waiting = asyncio.create_task(engine.run(lambda: done.append(1)))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        go_on.set()
        assert await asyncio.gather(*running) == [True] * module.THREADS

    asyncio.run(scenario())
    assert done == []


def test_a_cancelled_call_that_fails_is_not_complained_about(engine: Engine) -> None:
    began, go_on = threading.Event(), threading.Event()
    complaints: list[object] = []

    def fail() -> None:
        began.set()
        assert go_on.wait(60)
        raise OSError("gone")

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        failing = asyncio.create_task(engine.run(fail))
        await asyncio.to_thread(began.wait, 10)
        failing.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await failing

    asyncio.run(scenario())
    assert complaints == []
