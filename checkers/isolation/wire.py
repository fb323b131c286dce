"""Messages between two processes over pipes: a length, then a pickle.

The standard library's connections do the same, but importing them takes as long as the check of a small history.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import struct
from collections.abc import Callable
from typing import Any, Final

_LENGTH: Final = struct.Struct("<Q")
_PIECE_BYTES: Final = 1 << 20
_TICK_S: Final = 0.5


class Wire:
    """One end: what is read, and what is written.

    Attributes:
        descriptors: both files.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self.descriptors = (reading, writing)
        self._poll = select.poll()
        self._poll.register(reading, select.POLLIN)
        self._open = True

    def send(self, message: Any) -> None:
        """Send a message.

        Raises:
            OSError: the other end is closed.
        """
        self.send_pickle(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))

    def send_pickle(self, content: bytes) -> None:
        """Send a message that is a pickle already; raises what `send` raises."""
        view = memoryview(_LENGTH.pack(len(content)) + content)
        while view:
            view = view[os.write(self.descriptors[1], view) :]

    def receive(self, idle: Callable[[], None] | None = None) -> Any:
        """The next message.

        Args:
            idle: called twice a second as long as nothing comes, also within a message; it may raise.

        Raises:
            EOFError: the other end is gone, perhaps within a message.
        """
        return pickle.loads(self._exactly(_LENGTH.unpack(self._exactly(_LENGTH.size, idle))[0], idle))

    def _exactly(self, count: int, idle: Callable[[], None] | None) -> bytearray:
        content = bytearray()
        while len(content) < count:
            while idle is not None and not self.waits(_TICK_S):
                idle()
            piece = os.read(self.descriptors[0], min(count - len(content), _PIECE_BYTES))
            if not piece:
                raise EOFError
            content += piece
        return content

    def waits(self, seconds: float) -> bool:
        """Whether there is something to read, the end included; waits so long for it."""
        return bool(self._poll.poll(seconds * 1000))

    def close(self) -> None:
        """Close this end; again does nothing."""
        if self._open:
            self._open = False
            for descriptor in self.descriptors:
                with contextlib.suppress(OSError):
                    os.close(descriptor)


def pair() -> tuple[Wire, Wire]:
    """Both ends."""
    (to_read, to_write), (read, write) = os.pipe(), os.pipe()
    return Wire(read, to_write), Wire(to_read, write)
