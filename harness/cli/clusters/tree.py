"""`splitbrain cluster ctl get`, `put` and the others that read or change the metadata tree. They print JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import click

from splitbrain.harness.cli import parsing
from splitbrain.harness.cli.clusters import reads
from splitbrain.harness.cli.clusters.call import Call, with_call
from splitbrain.harness.cli.clusters.printing import as_document, value_of

if TYPE_CHECKING:
    from splitbrain.cluster.client import Client, ReadMode


def _ask(call: Call, use: Callable[[Client], Awaitable[Any]]) -> None:
    click.echo(as_document(call.ask(use)))


@click.command("get", cls=parsing.Command)
@click.argument("path")
@reads.mode
@reads.after
@with_call
def get(call: Call, path: str, mode: ReadMode, after: tuple[int, int] | None) -> None:
    """Print the tree node at PATH, with its value and its versions.

    \b
    Examples:
      splitbrain cluster ctl get /queues/orders
      splitbrain cluster ctl get /queues/orders --node n3 --mode local --after 120:3
    """
    reads.check_after(mode, after)
    _ask(call, lambda client: client.get(path, mode=mode, after=after, timeout_ms=call.timeout_ms))


@click.command("children", cls=parsing.Command)
@click.argument("path")
@reads.mode
@reads.after
@with_call
def children(call: Call, path: str, mode: ReadMode, after: tuple[int, int] | None) -> None:
    """Print the names of the direct children of the tree node at PATH ("/" is the root).

    \b
    Example:
      splitbrain cluster ctl children /queues
    """
    reads.check_after(mode, after)
    _ask(call, lambda client: client.children(path, mode=mode, after=after, timeout_ms=call.timeout_ms))


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
    given = value_of(value)
    _ask(call, lambda client: client.put(path, given, timeout_ms=call.timeout_ms))


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
    given = value_of(value)
    _ask(call, lambda client: client.create(path, given, timeout_ms=call.timeout_ms))


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
    given = value_of(value)
    _ask(call, lambda client: client.update(path, given, timeout_ms=call.timeout_ms))


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
    before, given = value_of(expected), value_of(value)
    _ask(
        call,
        lambda client: client.compare_and_swap(path, before, given, timeout_ms=call.timeout_ms),
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
