"""An agent's wire where its controller is on another machine: standard input and output, a JSON object per line."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

LINE_BYTES = 16 << 20
"""The longest request: it may carry a node's files."""
_READ_BYTES = 1 << 16


class Lines:
    """Standard input and output, taken over.

    What else this process prints goes to standard error from now on, and no child of it holds either pipe.
    """

    def __init__(self) -> None:
        self._input = os.dup(0)
        self._output = os.dup(1)
        os.dup2(2, 1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)

    def attach(self, take: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        """Hand every line to `take` from now on, and call `ended` once when no more can come."""
        loop = asyncio.get_running_loop()
        begun = bytearray()

        def receive() -> None:
            try:
                data = os.read(self._input, _READ_BYTES)
            except OSError:
                data = b""
            begun.extend(data)
            if not data or len(begun) > LINE_BYTES:
                loop.remove_reader(self._input)
                ended()
                return
            if b"\n" in data:
                *lines, rest = bytes(begun).split(b"\n")
                begun[:] = rest
                for line in lines:
                    take(line)

        loop.add_reader(self._input, receive)

    def send(self, line: bytes) -> None:
        """Send a line. The controller reads all the time, so that the pipe does not stay full.

        Raises:
            OSError: the other side is gone.
        """
        rest = memoryview(line + b"\n")
        while rest:
            rest = rest[os.write(self._output, rest) :]
