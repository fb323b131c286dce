"""What an event loop offers and a simulation has not: each method says so, and what to use instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from splitbrain.harness.simulation.guard import offence
from splitbrain.harness.simulation.places import caller

_NETWORK: Final = "Use the connections of the runtime's network: there are no sockets in a simulation."
_THREADS: Final = "Do the work in place, or make it an event of the runtime's clock: a simulation has one thread."
_PROCESSES: Final = "Processes, pipes and signals belong to a backend: there are none in a simulation."
_RUN: Final = "Use SimLoop.run."

_INSTEAD: Final = {
    "run_forever": _RUN,
    "stop": _RUN,
    "run_in_executor": _THREADS,
    "set_default_executor": _THREADS,
    "getaddrinfo": _NETWORK,
    "getnameinfo": _NETWORK,
    "create_connection": _NETWORK,
    "create_server": _NETWORK,
    "start_tls": _NETWORK,
    "create_unix_connection": _NETWORK,
    "create_unix_server": _NETWORK,
    "connect_accepted_socket": _NETWORK,
    "create_datagram_endpoint": _NETWORK,
    "sendfile": _NETWORK,
    "add_reader": _NETWORK,
    "remove_reader": _NETWORK,
    "add_writer": _NETWORK,
    "remove_writer": _NETWORK,
    "sock_recv": _NETWORK,
    "sock_recv_into": _NETWORK,
    "sock_recvfrom": _NETWORK,
    "sock_recvfrom_into": _NETWORK,
    "sock_sendto": _NETWORK,
    "sock_sendall": _NETWORK,
    "sock_connect": _NETWORK,
    "sock_accept": _NETWORK,
    "sock_sendfile": _NETWORK,
    "connect_read_pipe": _PROCESSES,
    "connect_write_pipe": _PROCESSES,
    "subprocess_shell": _PROCESSES,
    "subprocess_exec": _PROCESSES,
    "add_signal_handler": _PROCESSES,
    "remove_signal_handler": _PROCESSES,
}


class Unreal(asyncio.AbstractEventLoop):
    """An event loop whose methods that need the real world raise SimulationError."""


def _refusal(name: str, instead: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise offence(f"{name} was called inside a simulation, at {caller(2)}. {instead}")

    refuse.__name__ = name
    refuse.__qualname__ = f"Unreal.{name}"
    return refuse


for _name, _text in _INSTEAD.items():
    setattr(Unreal, _name, _refusal(_name, _text))
