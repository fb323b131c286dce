"""What an event loop offers and a simulation has not: each method says so, and what to use instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from splitbrain.harness.simulation.answers import advised
from splitbrain.harness.simulation.guard import offence
from splitbrain.harness.simulation.places import caller

NETWORK: Final = "Use the connections of the runtime's network: there are no sockets in a simulation."
THREADS: Final = "Do the work in place, or make it an event of the runtime's clock: a simulation has one thread."
PROCESSES: Final = "Processes, pipes and signals belong to a backend: there are none in a simulation."
_RUN: Final = "Use SimLoop.run."

_INSTEAD: Final = {
    "run_forever": _RUN,
    "stop": _RUN,
    "run_in_executor": THREADS,
    "set_default_executor": THREADS,
    "getaddrinfo": NETWORK,
    "getnameinfo": NETWORK,
    "create_connection": NETWORK,
    "create_server": NETWORK,
    "start_tls": NETWORK,
    "create_unix_connection": NETWORK,
    "create_unix_server": NETWORK,
    "connect_accepted_socket": NETWORK,
    "create_datagram_endpoint": NETWORK,
    "sendfile": NETWORK,
    "add_reader": NETWORK,
    "remove_reader": NETWORK,
    "add_writer": NETWORK,
    "remove_writer": NETWORK,
    "sock_recv": NETWORK,
    "sock_recv_into": NETWORK,
    "sock_recvfrom": NETWORK,
    "sock_recvfrom_into": NETWORK,
    "sock_sendto": NETWORK,
    "sock_sendall": NETWORK,
    "sock_connect": NETWORK,
    "sock_accept": NETWORK,
    "sock_sendfile": NETWORK,
    "connect_read_pipe": PROCESSES,
    "connect_write_pipe": PROCESSES,
    "subprocess_shell": PROCESSES,
    "subprocess_exec": PROCESSES,
    "add_signal_handler": PROCESSES,
    "remove_signal_handler": PROCESSES,
}


class Unreal(asyncio.AbstractEventLoop):
    """An event loop whose methods that need the real world raise SimulationError."""


def _refusal(name: str, instead: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise offence(f"{name} was called inside a simulation, at {caller(2)}. {advised(instead)}")

    refuse.__name__ = name
    refuse.__qualname__ = f"Unreal.{name}"
    return refuse


for _name, _text in _INSTEAD.items():
    setattr(Unreal, _name, _refusal(_name, _text))
