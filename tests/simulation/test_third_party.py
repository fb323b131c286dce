"""A client or a system that reaches for the real world inside a simulation fails the run, and is told where it did."""

from __future__ import annotations

import asyncio
import dataclasses
import queue
import re
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from splitbrain.harness.campaigns.compose import compose
from splitbrain.harness.contract.nodes import NodeCommand
from splitbrain.harness.contract.test import Test
from splitbrain.harness.running.simulate import Simulated, simulate
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.results.errors import ProtocolError, SimulationError, UsageError
from splitbrain.results.history import Op
from splitbrain.workloads.register import RegisterClient
from tests.simulation.fingerprint import options

HERE = Path(__file__).name


def a_test() -> Test:
    return compose(options(1, "register", "none", seconds=2.0))


def with_client(call: Callable[[], Awaitable[object]]) -> Simulated:
    """A run whose clients do something of their own before each op."""

    class Client(RegisterClient):
        async def invoke(self, test: Test, op: Op) -> Op:
            await call()
            return await super().invoke(test, op)

    test = a_test()
    return simulate(dataclasses.replace(test, workload=dataclasses.replace(test.workload, client=Client())))


async def opens_a_socket() -> None:
    socket.socket()


async def opens_a_stream() -> None:
    await asyncio.open_connection("127.0.0.1", 1)


async def fetches_a_page() -> None:
    urllib.request.urlopen("http://127.0.0.1:1/")


async def reads_a_file() -> None:
    Path(__file__).read_text()


async def looks_at_the_clock() -> None:
    time.monotonic()


async def draws_from_numpy() -> None:
    np.random.rand()


async def waits_for_a_queue() -> None:
    queue.Queue[int]().get(timeout=0.01)


async def sleeps_for_real() -> None:
    time.sleep(0.01)


async def starts_a_thread() -> None:
    threading.Thread(target=print).start()


async def works_in_a_thread() -> None:
    await asyncio.to_thread(print)


async def runs_in_an_executor() -> None:
    await asyncio.get_running_loop().run_in_executor(None, print)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("call", "named"),
    [
        (opens_a_socket, "socket"),
        (opens_a_stream, "create_connection|getaddrinfo|open_connection"),
        (fetches_a_page, "socket"),
        (reads_a_file, "open"),
        (draws_from_numpy, "numpy.random.rand"),
        (waits_for_a_queue, "queue.Queue.get"),
        (looks_at_the_clock, "time.monotonic"),
        (sleeps_for_real, "time.sleep"),
        (starts_a_thread, "thread"),
        (works_in_a_thread, "to_thread"),
        (runs_in_an_executor, "run_in_executor"),
    ],
)
def test_a_client_that_does_real_io_fails_the_run_and_the_error_names_the_call_and_the_line(
    call: Callable[[], Awaitable[object]], named: str
) -> None:
    left = with_client(call)
    assert isinstance(left.failure, SimulationError)
    line = call.__code__.co_firstlineno + 1  # type: ignore[attr-defined]
    assert re.search(named, str(left.failure)), left.failure
    assert f"{HERE}:{line}" in str(left.failure)


def test_a_client_that_asks_the_process_to_exit_fails_the_run_and_nothing_else() -> None:
    async def exits() -> None:
        sys.exit(3)

    left = with_client(exits)
    assert isinstance(left.failure, ProtocolError)
    assert re.search(r"client \S+: invoke of '\w+' \(op \d+\) asked this process to exit \(3\)", str(left.failure))


def test_a_node_that_looks_at_the_real_clock_fails_the_run_too() -> None:
    class Impatient(Metadata):
        async def embed(self, command: NodeCommand, world: Any) -> None:
            world.log(str(time.time()))
            await super().embed(command, world)

    left = simulate(dataclasses.replace(a_test(), system=Impatient()))
    assert isinstance(left.failure, SimulationError)
    assert "time.time" in str(left.failure)
    assert HERE in str(left.failure)


def test_a_system_that_cannot_be_embedded_is_refused_before_anything_runs() -> None:
    processes = Metadata()
    processes.name = "processes"
    processes.capabilities = dataclasses.replace(processes.capabilities, simulation=None)
    with pytest.raises(UsageError, match="system 'processes' cannot be simulated: its nodes run as processes only"):
        simulate(dataclasses.replace(a_test(), system=processes))
