"""What reads of `splitbrain cluster ctl` promise: the options --mode and --after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from splitbrain.results.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


class _After(click.ParamType[Any, Any]):
    name = "INDEX:TERM"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        index, _, term = str(value).partition(":")
        if not all(each.isascii() and each.isdecimal() and len(each) < 19 for each in (index, term)):
            raise UsageError(f"--after {value}: give index and term of an answer, as in --after 120:3.")
        return int(index), int(term)


mode = click.option(
    "--mode",
    type=click.Choice(["consistent", "fenced", "leader", "local"]),
    default="consistent",
    show_default=True,
    help="consistent: sees all that was answered before. leader: what a node says that takes itself for the leader. "
    "fenced: what the asked node says, once it has what such a leader has. local: what the asked node has applied, "
    "which may be old.",
)
after = click.option(
    "--after",
    default=None,
    type=_After(),
    metavar="INDEX:TERM",
    help="Of a local read: the node first applies the change that was answered with this index and term.",
)


def check_after(mode: str, after: tuple[int, int] | None) -> None:
    """Refuse --after where it makes no sense.

    Raises:
        UsageError: the read is not local.
    """
    if after is not None and mode != "local":
        raise UsageError("--after: it is for --mode local: other reads see every change that was answered before.")
