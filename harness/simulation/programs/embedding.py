"""For systems whose nodes are a program in plain asyncio: `Capabilities(simulation=Program(main))`.

Each start of a node runs `main` in its own module: the program's package is imported again, so that globals end with
their process.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from splitbrain.harness.contract.embedding import NodeWorld
from splitbrain.harness.contract.nodes import NodeCommand
from splitbrain.harness.simulation.host import ProcessWorld
from splitbrain.harness.simulation.loop import SimLoop
from splitbrain.harness.simulation.process import resolve
from splitbrain.harness.simulation.programs.loop import ProgramLoop
from splitbrain.results.errors import UsageError

SERVES_WITHIN_NS: Final = 2_000_000_000
"""How long the start of a node waits for the program to serve an address; the node runs on if it does so later."""

_MODULE: Final = "-m"


class Program:
    """A program as the nodes of a simulation.

    Args:
        main: its `async def main(arguments)`, a function of a module that can be imported. `arguments` are those that
            follow `-m MODULE` in the command of a node; the program must run until it is killed.

    Raises:
        UsageError: `main` is no such function.
    """

    def __init__(self, main: Callable[[Sequence[str]], Coroutine[Any, Any, object]]) -> None:
        self._module, self._name = main.__module__, main.__qualname__
        if self._module == "__main__" or "." in self._name:
            raise UsageError(
                f"{self._module}.{self._name} cannot be simulated: each node imports its program again. "
                "Let main be a function of a module that can be imported."
            )

    async def embed(self, command: NodeCommand, world: NodeWorld) -> None:
        """Start the node of `command` inside this process, on `world` (see
        `splitbrain.harness.contract.embedding.Embeddable`).

        Returns when it serves an address, or has run for two seconds.

        Raises:
            UsageError: the command runs no module, or lays files into the data directory.
        """
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop), "nodes are embedded in a simulation"
        assert isinstance(world, ProcessWorld), "a simulation hands in worlds of its own"
        arguments = _arguments(command)
        program = ProgramLoop(loop, world)
        program.begin(lambda: self._fresh_main()(arguments))
        timer = loop.after(SERVES_WITHIN_NS, lambda: resolve(program.serving, None))
        await program.serving
        timer.cancel()

    def _fresh_main(self) -> Callable[[Sequence[str]], Coroutine[Any, Any, object]]:
        with _forgotten(self._module.partition(".")[0]):
            return getattr(importlib.import_module(self._module), self._name)


def _arguments(command: NodeCommand) -> list[str]:
    if _MODULE not in command.argv:
        raise UsageError(
            f"{' '.join(command.argv)!r} cannot be simulated: let the command run the program as python -m MODULE."
        )
    if command.files:
        raise UsageError("a simulated program finds no files of its command: pass them as arguments.")
    return list(command.argv[command.argv.index(_MODULE) + 2 :])


@contextmanager
def _forgotten(package: str) -> Generator[None]:
    """Let imports of a package load it again, without a change for other importers of the loaded modules."""
    known = {name: module for name, module in sys.modules.items() if name == package or name.startswith(f"{package}.")}
    for name in known:
        del sys.modules[name]
    try:
        yield
    finally:
        anew = [name for name in sys.modules if name == package or name.startswith(f"{package}.")]
        for name in anew:
            del sys.modules[name]
        sys.modules.update(known)
