"""How a command of `splitbrain cluster ctl` asks a node: which one, and for how long.

The options may stand before the name of the command or behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

from splitbrain.harness.cli import completing, parsing
from splitbrain.harness.cli.clusters.asking import with_client
from splitbrain.harness.cli.clusters.layout import DIRECTORY, ClusterNode, Layout, running
from splitbrain.harness.cli.clusters.processes import alive
from splitbrain.results.errors import UsageError
from splitbrain.results.stores import check_path

if TYPE_CHECKING:
    from splitbrain.cluster.client import Client

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_TIMEOUT_S: Final = 5.0
_GRACE_S: Final = 1.0
"""Beyond the timeout that a node keeps: after so long it does not answer at all."""


def _check_folder(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        check_path(value, "--dir")
    return value


_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option(
        "--node",
        default=None,
        callback=parsing.named,
        metavar="NAME",
        help="The node to ask.  [default: the first that runs]",
    ),
    click.option(
        "--timeout",
        default=None,
        type=float,
        metavar="SECONDS",
        help=f"Timeout of an answer.  [default: {_TIMEOUT_S}]",
    ),
    click.option(
        "--dir",
        "directory",
        default=None,
        metavar="DIR",
        callback=_check_folder,
        help=f"The folder of the nodes' data and logs.  [default: {DIRECTORY}]",
        shell_complete=completing.folder,
    ),
)


def call_options(function: F) -> F:
    """Add the options --node, --timeout and --dir."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclass(frozen=True)
class Call:
    """How a node is asked.

    Attributes:
        home: the folder of the cluster.
        name: of the node that the user wants to have asked, None for any.
        timeout_s: of an answer.
    """

    home: Path
    name: str | None
    timeout_s: float

    @cached_property
    def layout(self) -> Layout:
        """The cluster that is up.

        Raises:
            UsageError: none is.
        """
        return running(self.home)

    @property
    def wanted(self) -> ClusterNode | None:
        """The node that the user wants to have asked, None for any.

        Raises:
            UsageError: there is no node of that name.
        """
        return None if self.name is None else self.layout.find(self.name)

    @property
    def timeout_ms(self) -> int:
        """The same in whole milliseconds, 1 at least."""
        return max(1, int(self.timeout_s * 1000))

    def node(self, *others: str) -> ClusterNode:
        """The node to ask: the one that the user wants, or the first that runs, rather none of `others`."""
        wanted = self.wanted
        if wanted is not None:
            return wanted
        nodes = sorted(self.layout.nodes, key=lambda node: (not alive(node), node.node in others))
        return nodes[0]

    def ask(self, use: Callable[[Client], Awaitable[T]], node: ClusterNode | None = None) -> T:
        """What `use` makes of a connection to that node; ends the command with exit code 1 if that fails."""
        from splitbrain.cluster.client import ClusterError

        asked = self.node() if node is None else node

        async def bounded() -> T:
            async with asyncio.timeout(self.timeout_s + _GRACE_S):
                return await with_client(asked, use)

        try:
            return asyncio.run(bounded())
        except TimeoutError:
            fail(f"{asked.node}: no answer within {self.timeout_s:g} s: the outcome is unknown. Is the node paused?")
        except (ClusterError, OSError) as error:
            fail(f"{asked.node}: {error}")


def fail(problem: str) -> NoReturn:
    """End the command with exit code 1: refused, or of unknown outcome."""
    click.echo(f"splitbrain: {problem}", err=True)
    click.get_current_context().exit(1)


def with_call(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a call to a command, which gets a `Call` in their place, as its first argument."""

    @call_options
    @click.pass_context
    @wraps(function)
    def command(
        ctx: click.Context, /, node: str | None, timeout: float | None, directory: str | None, **rest: Any
    ) -> None:
        from splitbrain.harness.contract.test import TIME_MAX_S, check_number

        before: dict[str, Any] = ctx.obj or {}
        name = _either("--node", before.get("node"), node)
        given: float | None = _either("--timeout", before.get("timeout"), timeout)
        timeout_s = _TIMEOUT_S if given is None else given
        check_number("--timeout", timeout_s, TIME_MAX_S)
        home = Path(_either("--dir", before.get("directory"), directory) or DIRECTORY)
        function(Call(home, name, timeout_s), **rest)

    return command


def _either(option: str, before: Any, behind: Any) -> Any:
    if before is not None and behind is not None:
        raise UsageError(f"{option} is given 2 times: give it once.")
    return behind if before is None else before
