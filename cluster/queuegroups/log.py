"""How commands stand in the log of a queue's group: each with the time at which its leader took it."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, TypeAlias, get_args

import msgspec

from splitbrain.cluster.errors import InvalidRequestError
from splitbrain.cluster.machine import ClientDown, Timeout
from splitbrain.cluster.machinestore import command_in, decode_stamped
from splitbrain.cluster.queues import QueueCommand, QueueConfig, decode_command
from splitbrain.cluster.queues.commands import (
    Attach,
    Cancel,
    CommandOfClients,
    Credit,
    Dequeue,
    Discard,
    Enqueue,
    Modify,
    Purge,
    RegisterEnqueuer,
    Remove,
    Requeue,
    Return,
    Settle,
)
from splitbrain.cluster.queues.identities import ConsumerId, Process
from splitbrain.cluster.wire import ClientAddress


class Configure(msgspec.Struct, frozen=True, array_like=True, tag="configure"):
    """The first command of a queue: what it was declared with. Further ones change nothing.

    Attributes:
        group: that it is replicated by.
        config: of the machine.
        dead_letter_to: name of the queue that gets dead letters.
    """

    group: str
    config: QueueConfig
    dead_letter_to: str | None


class Retire(msgspec.Struct, frozen=True, array_like=True, tag="retire"):
    """The queue is deleted: it takes no command from here on, and its record is removed (QQ-8)."""


Logged: TypeAlias = QueueCommand | Timeout | ClientDown | Configure | Retire
"""What may stand in the log. `NodeUp` and `NodeDown` of the leader are those of the queue: they have the same form."""

OfClients: TypeAlias = CommandOfClients | Retire
"""Commands that clients may give; the others are the leader's."""

_OF_CLIENTS: Final = frozenset(get_args(OfClients))


_encoder = msgspec.msgpack.Encoder(order="deterministic")
_logged: msgspec.msgpack.Decoder[Logged] = msgspec.msgpack.Decoder(Logged)
_of_clients: msgspec.msgpack.Decoder[OfClients] = msgspec.msgpack.Decoder(OfClients)


def encode(command: Logged) -> bytes:
    """A command without its time."""
    return _encoder.encode(command)


def decode(data: bytes) -> tuple[int, Logged] | str:
    """Time and command that stand in the log, or why they make no sense."""
    return decode_stamped(data, _logged)


def body_of(data: bytes) -> bytes:
    """The body of the message that a command in the log brought."""
    command = decode_command(command_in(data))
    assert isinstance(command, Enqueue | Requeue), f"{type(command).__name__} brings no message"
    return command.body


def problem_of(data: bytes) -> str | None:
    """Why a client may not give this command, None if it may."""
    try:
        command = _of_clients.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return f"this is no command that a client may give a queue: {error}"
    if type(command) not in _OF_CLIENTS:
        return "this is no command that a client may give a queue"
    for process in _named(command):
        try:
            address_of(process)
        except InvalidRequestError as error:
            return str(error)
    return None


def _named(command: OfClients) -> tuple[Process, ...]:
    """The processes that a command names, of which the queue would hear."""
    match command:
        case Enqueue() | RegisterEnqueuer():
            return () if command.publisher is None else (command.publisher,)
        case Attach() | Dequeue() | Cancel() | Remove():
            return (command.consumer.process,)
        case Settle() | Return() | Discard() | Modify() | Requeue() | Credit():
            key = command.consumer
            return (key.process,) if isinstance(key, ConsumerId) else ()
        case Purge() | Retire():
            return ()


# --- processes, which are clients' connections ------------------------------------------------------------------------


def process_of(client: ClientAddress, number: int = 0) -> Process:
    """A process on a client's connection, by its number there: its address, as queues name it."""
    return Process(f"{client.life}.{client.number}.{number}", client.node)


def address_of(process: Process) -> ClientAddress:
    """The connection of a process.

    Raises:
        InvalidRequestError: its name is not one that `process_of` gives.
    """
    life, number = _numbers(process.name)
    return ClientAddress(process.node, life, number)


@lru_cache(maxsize=4_096)
def _numbers(name: str) -> tuple[int, int]:
    parts = name.split(".")
    if len(parts) != _PARTS or not all(part.isascii() and part.isdigit() and len(part) < _DIGITS for part in parts):
        raise InvalidRequestError(f"a process of a queue has a name like 4711.5.0, unlike {name!r}.")
    return int(parts[0]), int(parts[1])


_PARTS: Final = 3
_DIGITS: Final = 19
