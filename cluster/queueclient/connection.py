"""How a client's connection speaks with queues: by name, to the group of the moment, and with what comes by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

import msgspec

from splitbrain.cluster.asking import DEFAULT_TIMEOUT_MS, error_of
from splitbrain.cluster.channel import Channel
from splitbrain.cluster.commands import decode_value, encode_value
from splitbrain.cluster.drained import drained_nodes
from splitbrain.cluster.errors import (
    ClientError,
    InvalidRequestError,
    NodeNotFoundError,
    OutcomeUnknownError,
    QueueNotFoundError,
    UnavailableError,
)
from splitbrain.cluster.groupnames import METADATA
from splitbrain.cluster.queueclient.settling import Settling
from splitbrain.cluster.queuegroups import log, notes
from splitbrain.cluster.queuegroups.notes import STATUS, Answered, Event, QueueReport, Unready
from splitbrain.cluster.queuegroups.records import PATH, QueueRecord, name_problem, record_of
from splitbrain.cluster.queues import Process
from splitbrain.cluster.queues.effects import Confirm, EndOfLife, LeaderChange, QueueStatus
from splitbrain.cluster.queues.replies import QueueRefused
from splitbrain.cluster.tree import AskMachine, Get, Transact, Value
from splitbrain.cluster.tree_node import tree_node
from splitbrain.cluster.wire import (
    Answer,
    ClientAddress,
    Failure,
    MemberList,
    MembersQuery,
    QueueOp,
    Request,
)

PAUSE_MS: Final = 50
"""Before a request that certainly failed is made again, while its time lasts."""

T = TypeVar("T")


class Said(msgspec.Struct, frozen=True):
    """What a queue answered, and the term of the entry."""

    what: Answered
    term: int


class Listener(Protocol):
    """Hears what a queue has for a process of this connection."""

    def heard(self, event: Event) -> None:
        """The queue says something."""
        ...

    def broken(self) -> None:
        """The connection is gone, and there is no more to hear."""
        ...


class NotServedError(UnavailableError):
    """The node has no member of the queue's group, or the queue takes no commands."""


class Ends:
    """When something is given up."""

    def __init__(self, timeout_ms: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time() + timeout_ms / 1000

    @property
    def left_ms(self) -> int:
        """How much time is left, 1 at least: a request needs some."""
        return max(1, round((self._at - self._loop.time()) * 1000))

    @property
    def are_over(self) -> bool:
        """Whether there is none left."""
        return self._loop.time() >= self._at


async def pause() -> None:
    """Wait a moment before a request is made again."""
    await asyncio.sleep(PAUSE_MS / 1000)  # noqa: TID251 - of a client, which has no runtime: its loop's time


class QueueConnection:
    """One connection. Made inside a running event loop.

    Args:
        channel: the connection; messages of machines on it are all taken for those of queues.
        address: of the connection.
    """

    def __init__(self, channel: Channel, address: ClientAddress) -> None:
        self._channel = channel
        self._address = address
        self._records: dict[str, QueueRecord] = {}
        self._last_number = 0
        self._listeners: dict[Process, Listener] = {}
        self._is_broken = False
        self._hearing = asyncio.get_running_loop().create_task(self._hear())

    # --- processes ------------------------------------------------------------------------------------------------

    @property
    def node(self) -> str:
        """The node that is asked."""
        return self._address.node

    def new_process(self) -> Process:
        """A process on this connection that nothing else on it is."""
        self._last_number += 1
        return log.process_of(self._address, self._last_number)

    def listen(self, process: Process, listener: Listener) -> None:
        """Pass on what a process hears of its queue."""
        self._listeners[process] = listener
        if self._is_broken:
            listener.broken()

    def ignore(self, process: Process) -> None:
        """Pass nothing on any more."""
        self._listeners.pop(process, None)

    async def _hear(self) -> None:
        try:
            while True:
                event = notes.decode_note(await self._channel.next_message()).event
                to = event.to if isinstance(event, _TO_PROCESSES) else event.consumer.process
                listener = self._listeners.get(to)
                if listener is not None:
                    listener.heard(event)
        except (UnavailableError, msgspec.DecodeError):
            self._is_broken = True
            for listener in list(self._listeners.values()):
                listener.broken()

    # --- the metadata ---------------------------------------------------------------------------------------------

    async def record(self, name: str, timeout_ms: int, *, anew: bool = False) -> QueueRecord:
        """What the metadata say of a queue; as this connection knows it, unless it is asked for anew.

        Raises:
            QueueNotFoundError: there is no queue of that name.
        """
        found = None if anew else self._records.get(name)
        if found is not None:
            return found
        problem = name_problem(name)
        if problem is not None:
            raise InvalidRequestError(f"{problem}.")
        answer = await self._channel.ask(Request(0, timeout_ms, Get((*PATH, name)), group=METADATA))
        try:
            found = record_of(tree_node(answer).value)
        except NodeNotFoundError as error:
            self.forget(name)
            raise QueueNotFoundError(f"there is no queue {name}.", error.term) from error
        self.remember(name, found)
        return found

    def remember(self, name: str, record: QueueRecord) -> None:
        """Know a record from now on."""
        self._records[name] = record

    def forget(self, name: str) -> None:
        """Ask for the record anew, the next time."""
        self._records.pop(name, None)

    async def transact(self, function: tuple[str, int], data: Any, timeout_ms: int) -> tuple[Any, int]:
        """Carry out a function on the metadata; what it gave, and the term."""
        body = Transact(*function, encode_value(data))
        answer = await self._channel.ask(Request(0, timeout_ms, body, group=METADATA))
        return decode_value(_value(answer)), answer.term

    async def members(self) -> tuple[str, ...]:
        """Ids of the members of the metadata store."""
        answer = await self._channel.ask(Request(0, DEFAULT_TIMEOUT_MS, MembersQuery(), group=METADATA))
        if not isinstance(answer.outcome, MemberList):
            raise error_of(answer.outcome, answer.term)
        return answer.outcome.members

    async def draining(self, timeout_ms: int) -> frozenset[str]:
        """Names of the nodes that are being drained."""
        return await drained_nodes(self._channel, timeout_ms)

    # --- queues ---------------------------------------------------------------------------------------------------

    async def command(self, name: str, command: log.OfClients, *, timeout_ms: int) -> Said:
        """Have a queue carry out a command.

        Raises:
            QueueNotFoundError: there is no queue of that name.
            InvalidRequestError: the queue refused the command.
            UnavailableError: this node has no member of its group, or the queue takes no commands yet, or any more.
        """
        return await self.with_record(name, lambda record, ms: self.carry_out(record, command, ms), timeout_ms)

    async def with_record(self, name: str, ask: Callable[[QueueRecord, int], Awaitable[T]], timeout_ms: int) -> T:
        """Ask the queue that is known by a name; if that is not served, the one that has the name by now."""
        ends = Ends(timeout_ms)
        record = await self.record(name, ends.left_ms)
        try:
            return await ask(record, ends.left_ms)
        except NotServedError as error:
            found = await self.record(name, ends.left_ms, anew=True)
            if found.group == record.group:
                there = f"queue {name}, which is on {', '.join(record.members)}"
                raise UnavailableError(f"{there}: {error}", error.term) from error
        return await ask(found, ends.left_ms)

    async def carry_out(self, record: QueueRecord, command: log.OfClients, timeout_ms: int) -> Said:
        """Have one queue carry out a command.

        Raises:
            NotServedError: it does not; nothing was done.
            InvalidRequestError: the queue refused the command.
        """
        body = QueueOp(log.encode(command))
        answer = await self._channel.ask(Request(0, timeout_ms, body, group=record.group))
        said = notes.decode_answered(_value(answer))
        if isinstance(said, Unready):
            why = "it is being deleted" if said.is_deleted else "it is not configured yet"
            raise NotServedError(f"{why}: try again later.", answer.term)
        if isinstance(said, QueueRefused):
            raise InvalidRequestError(f"{said.reason}: {said.detail or 'the queue refused it'}.", answer.term)
        return Said(said, answer.term)

    def settle(self, name: str, command: log.OfClients) -> None:
        """Send a command about messages that this connection has, again and again until it is carried out.

        Raises:
            QueueNotFoundError: this connection knows no queue of that name.
            UnavailableError: the connection is broken.
        """
        record = self._records.get(name)
        if record is None:
            raise QueueNotFoundError(f"there is no queue {name} any more.")
        body = QueueOp(log.encode(command))
        Settling(self._channel, Request(0, DEFAULT_TIMEOUT_MS, body, group=record.group)).begin()

    async def report(self, record: QueueRecord, timeout_ms: int) -> QueueReport:
        """How a queue is.

        Raises:
            NotServedError: this node has no member of its group.
        """
        answer = await self._channel.ask(Request(0, timeout_ms, AskMachine(STATUS), group=record.group))
        return notes.decode_report(_value(answer))


_TO_PROCESSES: Final = (Confirm, QueueStatus, LeaderChange, EndOfLife)


def _value(answer: Answer) -> bytes:
    match answer.outcome:
        case Value(data):
            return data
        case Failure("no_group", True, detail):
            raise NotServedError(f"{detail}.", answer.term)
        case outcome:
            raise error_of(outcome, answer.term)


def unexpected(name: str, said: Said) -> ClientError:
    """What is raised for an answer that does not fit the command."""
    kind = type(said.what).__name__
    return OutcomeUnknownError(f"the answer of queue {name} does not fit the command: {kind}.", said.term)
