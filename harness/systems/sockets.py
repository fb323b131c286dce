"""The TCP sockets of clients of real systems: what a deployment dials, and whether an idle one is still good."""

from __future__ import annotations

import socket  # noqa: TID251 - for the type of a dialled connection; nothing here opens one

from splitbrain.harness.contract.sessions import DefiniteError


def tcp(found: object, node: str, system: str) -> socket.socket:
    """What a deployment dialled, as the TCP socket that the client of a real system needs.

    Raises:
        DefiniteError: it is a simulated connection.
    """
    if not isinstance(found, socket.socket):
        raise DefiniteError(f"{node} is simulated, and {system} is not: it needs a TCP connection.")
    return found


def is_closed(connection: socket.socket) -> bool:
    """Whether the peer has closed or reset an idle connection; unexpected bytes count as well."""
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
