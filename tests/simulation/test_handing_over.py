"""A process that hands a function over to a connection, which calls it for each message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import pytest

from splitbrain.harness.simulation.connections import End
from tests.simulation.test_network import Town, play, send_all

CALLER: ContextVar[str] = ContextVar("CALLER", default="no one")


class Taker:
    """A server on n2 that notes what it takes, and what ends that."""

    def __init__(self, town: Town, first: Callable[[End, int], object] = lambda _, __: None) -> None:
        self.town = town
        self.first = first
        self.taken: list[int] = []
        self.callers: list[str] = []
        self.over: list[Exception] = []

    async def connected(self) -> End:
        await self.town.networks["n2"].listen(("n2", 1), self._accept)
        connection = await self.town.connect()
        await self.town.wait(0.1)
        return connection

    async def _accept(self, connection: End) -> None:
        CALLER.set("acceptor")

        def take(message: bytes) -> None:
            self.taken.append(int(message))
            self.callers.append(CALLER.get())
            self.first(connection, int(message))

        try:
            await connection.hand_over(take)
        except (ConnectionError, ValueError) as error:
            self.over.append(error)


def played(script: Callable[[Town], Awaitable[None]]) -> None:
    async def whole(town: Town) -> None:
        await script(town)

    play(whole)


def test_each_message_is_taken_in_order_in_the_callers_context_and_the_end_comes_behind_them() -> None:
    async def script(town: Town) -> None:
        taker = Taker(town)
        connection = await taker.connected()
        send_all(connection, 5)
        await town.wait(0.1)
        assert taker.taken == [0, 1, 2, 3, 4]
        send_all(connection, 5, first=5)
        connection.close()
        await town.wait(0.1)
        assert taker.taken == list(range(10))
        assert set(taker.callers) == {"acceptor"}
        assert [str(error) for error in taker.over] == ["the other side closed the connection"]

    played(script)


def test_what_was_there_before_is_taken_too() -> None:
    async def script(town: Town) -> None:
        ends: list[End] = []

        async def accept(connection: End) -> None:
            ends.append(connection)

        await town.networks["n2"].listen(("n2", 1), accept)
        connection = await town.connect()
        send_all(connection, 3)
        await town.wait(0.1)
        taken: list[bytes] = []
        town.processes["n2"].spawn(ends[0].hand_over(taken.append), "takes")
        await town.wait(0)
        assert taken == [b"0", b"1", b"2"]

    played(script)


def test_an_error_ends_it_and_nothing_more_is_taken() -> None:
    def first(_: End, number: int) -> None:
        if number == 1:
            raise ValueError("one")

    async def script(town: Town) -> None:
        taker = Taker(town, first)
        connection = await taker.connected()
        send_all(connection, 5)
        await town.wait(0.1)
        assert taker.taken == [0, 1]
        assert [str(error) for error in taker.over] == ["one"]

    played(script)


@pytest.mark.parametrize("how", ["end", "pause"])
def test_a_process_that_is_ended_or_paused_by_a_message_takes_no_more(how: str) -> None:
    async def script(town: Town) -> None:
        process = town.processes["n2"]

        def first(_: End, number: int) -> None:
            if number == 1:
                process.end() if how == "end" else process.pause()

        taker = Taker(town, first)
        connection = await taker.connected()
        process.pause()
        send_all(connection, 5)  # they wait, and are taken one right after the other
        await town.wait(0.1)
        assert taker.taken == []
        process.resume()
        await town.wait(0.1)
        assert taker.taken == [0, 1]
        process.resume()
        await town.wait(0.1)
        assert taker.taken == ([0, 1] if how == "end" else [0, 1, 2, 3, 4])

    played(script)


def test_a_message_that_closes_the_connection_is_followed_by_those_that_came_before_it() -> None:
    async def script(town: Town) -> None:
        taker = Taker(town, lambda connection, number: number or connection.close())
        connection = await taker.connected()
        # Let go all at once: the later ones are here when the first one is taken.
        town.processes["n2"].pause()
        send_all(connection, 3)
        await town.wait(0.1)
        town.processes["n2"].resume()
        await town.wait(0.1)
        assert taker.taken == [0, 1, 2]
        assert [str(error) for error in taker.over] == ["the connection was closed on this side"]

    played(script)


def test_what_a_process_sends_in_the_rest_of_a_step_in_which_it_is_paused_leaves_when_it_is_resumed() -> None:
    async def script(town: Town) -> None:
        taker = Taker(town)
        connection = await taker.connected()
        process = town.processes["n1"]

        def step() -> None:
            send_all(connection, 1)
            process.pause()
            send_all(connection, 2, first=1)
            connection.close()

        process.post(step)
        await town.wait(0.1)
        assert (taker.taken, taker.over) == ([0], [])
        process.resume()
        await town.wait(0.1)
        assert taker.taken == [0, 1, 2]
        assert [str(error) for error in taker.over] == ["the other side closed the connection"]

    played(script)
