"""`splitbrain cluster ctl get`, `put` and the others that read or change the metadata tree. They print JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from splitbrain.harness.cli import parsing
from splitbrain.harness.cli.clusters.call import Call, with_call
from splitbrain.harness.cli.clusters.printing import as_document
from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    from splitbrain.cluster.client import Client, ReadMode


class _After(click.ParamType[Any, Any]):
    name = "INDEX:TERM"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        index, _, term = str(value).partition(":")
        if not all(each.isascii() and each.isdecimal() and len(each) < 19 for each in (index, term)):
            raise UsageError(f"--after {value}: give index and term of an answer, as in --after 120:3.")
        return int(index), int(term)


_mode = click.option(
    "--mode",
    type=click.Choice(["consistent", "leader", "local"]),
    default="consistent",
    show_default=True,
    help="consistent: sees all that was answered before. leader: what a node says that takes itself for the leader. "
    "local: what the asked node has applied, which may be old.",
)
_after = click.option(
    "--after",
    default=None,
    type=_After(),
    metavar="INDEX:TERM",
    help="Of a local read: the node first applies the change that was answered with this index and term.",
)


def _ask(call: Call, use: Callable[[Client], Awaitable[Any]]) -> None:
    click.echo(as_document(call.ask(use)))


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


@click.command("get", cls=parsing.Command)
@click.argument("path")
@_mode
@_after
@with_call
def get(call: Call, path: str, mode: ReadMode, after: tuple[int, int] | None) -> None:
    """Print the tree node at PATH, with its value and its versions.

    \b
    Examples:
      splitbrain cluster ctl get /queues/orders
      splitbrain cluster ctl get /queues/orders --node n3 --mode local --after 120:3
    """
    _check(mode, after)
    _ask(call, lambda client: client.get(path, mode=mode, after=after, timeout_ms=call.timeout_ms))


@click.command("children", cls=parsing.Command)
@click.argument("path")
@_mode
@_after
@with_call
def children(call: Call, path: str, mode: ReadMode, after: tuple[int, int] | None) -> None:
    """Print the names of the direct children of the tree node at PATH ("/" is the root).

    \b
    Example:
      splitbrain cluster ctl children /queues
    """
    _check(mode, after)
    _ask(call, lambda client: client.children(path, mode=mode, after=after, timeout_ms=call.timeout_ms))


def _check(mode: ReadMode, after: tuple[int, int] | None) -> None:
    if after is not None and mode != "local":
        raise UsageError("--after: it is for --mode local: other reads see every change that was answered before.")


@click.command("put", cls=parsing.Command)
@click.argument("path")
@click.argument("value")
@with_call
def put(call: Call, path: str, value: str) -> None:
    """Set the value at PATH; the tree node and its parents are created if they are missing.

    VALUE is JSON; other text is taken as a string.

    \b
    Examples:
      splitbrain cluster ctl put /queues/orders '{"durable": true}'
      splitbrain cluster ctl put /motd hello
      splitbrain cluster ctl put /depth -- -5
    """
    _ask(call, lambda client: client.put(path, _value(value), timeout_ms=call.timeout_ms))


@click.command("create", cls=parsing.Command)
@click.argument("path")
@click.argument("value")
@with_call
def create(call: Call, path: str, value: str) -> None:
    """Set the value at PATH if there is no such tree node.

    \b
    Example:
      splitbrain cluster ctl create /locks/deploy '"me"'
    """
    _ask(call, lambda client: client.create(path, _value(value), timeout_ms=call.timeout_ms))


@click.command("update", cls=parsing.Command)
@click.argument("path")
@click.argument("value")
@with_call
def update(call: Call, path: str, value: str) -> None:
    """Set the value at PATH if there is such a tree node.

    \b
    Example:
      splitbrain cluster ctl update /queues/orders '{"durable": false}'
    """
    _ask(call, lambda client: client.update(path, _value(value), timeout_ms=call.timeout_ms))


@click.command("cas", cls=parsing.Command)
@click.argument("path")
@click.argument("expected")
@click.argument("value")
@with_call
def cas(call: Call, path: str, expected: str, value: str) -> None:
    """Set the value at PATH if it is EXPECTED now (compare and swap).

    \b
    Example:
      splitbrain cluster ctl cas /counter 1 2
    """
    _ask(
        call,
        lambda client: client.compare_and_swap(path, _value(expected), _value(value), timeout_ms=call.timeout_ms),
    )


@click.command("delete", cls=parsing.Command)
@click.argument("path")
@with_call
def delete(call: Call, path: str) -> None:
    """Remove the tree node at PATH and all below it; prints the term. No error if there is none.

    \b
    Example:
      splitbrain cluster ctl delete /queues/orders
    """
    _ask(call, lambda client: client.delete(path, timeout_ms=call.timeout_ms))


COMMANDS: Final = (get, children, put, create, update, cas, delete)
