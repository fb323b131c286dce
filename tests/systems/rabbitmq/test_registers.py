"""Registers in the store of metadata: what is asked of the probe, and what its answers mean."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from splitbrain.harness.contract.read_modes import READ, READ_LEADER, READ_LOCAL
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError, NonsenseError
from splitbrain.harness.systems.rabbitmq import Rabbitmq
from splitbrain.harness.systems.rabbitmq.probe import Asked
from splitbrain.harness.systems.rabbitmq.registers import RabbitmqRegisters
from tests.systems.rabbitmq.loopback import probed_at

SEVEN = b"7".hex()
Work = Callable[[RabbitmqRegisters], Coroutine[Any, Any, Any]]


def used(answers: Sequence[bytes], *works: Work, how: str = "consistent") -> tuple[list[Any], list[bytes]]:
    """What works on one session came to, a value or an error, and what a probe was asked that has these answers.

    It ends the connection behind the last one, and accepts no other.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    asked: list[bytes] = []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, listener:
            for answer in answers:
                asked.append(connection.recv(200))
                connection.sendall(answer)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(200):
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    deployment = probed_at(listener.getsockname())

    async def main() -> list[Any]:
        registers = RabbitmqRegisters(Asked(deployment, "n1", once=True), how)
        found: list[Any] = []
        for work in works:
            try:
                found.append((await work(registers)).value)
            except (DefiniteError, IndefiniteError) as error:
                found.append(error)
        registers.close()
        return found

    found = asyncio.run(main())
    thread.join(10)
    return found, asked


@pytest.mark.parametrize("how", ["consistent", "local"])
def test_a_plain_read_is_of_the_mode_of_the_test_and_every_other_one_of_its_own(how: str) -> None:
    found, asked = used(
        [f'["{SEVEN}"]\n'.encode(), b"[]\n", b"[]\n"],
        lambda each: each.read("k"),
        lambda each: each.read_as("k", READ),
        lambda each: each.read_as("k", READ_LOCAL),
        lambda each: each.read_as("k", READ_LEADER),
        how=how,
    )
    assert found[:3] == [7, None, None]
    assert isinstance(found[3], DefiniteError)
    assert asked == [f"register k {how}\n".encode(), b"register k consistent\n", b"register k local\n"]


def test_changes_say_whether_they_found_what_they_asked_for() -> None:
    found, asked = used(
        [b"[]\n", b"[]\n", b'["unchanged"]\n', b'["unchanged"]\n'],
        lambda each: each.write("k", 7),
        lambda each: each.compare_and_set("k", 7, None),
        lambda each: each.compare_and_set("k", 7, 7),
        lambda each: each.create("k", 7),
    )
    assert found == [7, True, False, False]
    null = b"null".hex()
    lines = [f"put k {SEVEN}", f"swap k {SEVEN} {null}", f"swap k {SEVEN} {SEVEN}", f"create k {SEVEN}"]
    assert asked == [f"{line}\n".encode() for line in lines]


def test_a_change_without_an_answer_may_have_happened_and_the_session_is_over() -> None:
    """A node that begins anew may have an older state, so that no other connection continues the session."""
    found, asked = used([b""], lambda each: each.write("k", 7), lambda each: each.read("k"))
    assert isinstance(found[0], IndefiniteError)
    assert isinstance(found[1], DefiniteError)
    assert "has ended" in str(found[1])
    assert len(asked) == 1


def test_a_change_that_the_store_answered_with_an_error_may_have_happened() -> None:
    found, _ = used([b'["unknown","{error,timeout}"]\n'], lambda each: each.write("k", 7))
    assert isinstance(found[0], IndefiniteError)


def test_a_value_that_no_client_wrote_is_nonsense() -> None:
    found, _ = used([b'["xyz"]\n'], lambda each: each.read("k"))
    assert isinstance(found[0], NonsenseError)


def test_the_promises_are_of_the_kinds_of_reads_that_sessions_have() -> None:
    promises = Rabbitmq().capabilities.session_reads
    assert {f: promise.linearizable for f, promise in promises.items()} == {READ: "always", READ_LOCAL: "never"}
