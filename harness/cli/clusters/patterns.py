"""`splitbrain cluster ctl` for several tree nodes at once: patterns, conditions, lists. They print JSON, or a tree."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import click

from splitbrain.harness.cli import options, parsing
from splitbrain.harness.cli.clusters import reads
from splitbrain.harness.cli.clusters.call import Call, with_call
from splitbrain.harness.cli.clusters.printing import as_document, as_tree, value_of
from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    from splitbrain.cluster.client import Client, ReadMode, SeenNodes
    from splitbrain.cluster.patterns import Condition

when = click.option(
    "--when",
    default=None,
    metavar="JSON",
    help="A condition on what PATTERN's last part matches, its name with its arguments: "
    '["if_node_exists", false], ["if_payload_version", ["ge", 3]], ["if_data_matches", {"durable": true}].',
)
many = click.option("--many", is_flag=True, help="PATTERN may match several tree nodes.")
_keep_while = click.option(
    "--keep-while",
    "keep_while",
    multiple=True,
    metavar="PATTERN=JSON",
    help="Keep the tree nodes while the condition holds of what PATTERN matches, as in "
    '/vhosts/main=["if_node_exists", true]. May be given several times.',
)


def condition(text: str | None, option: str = "--when") -> Condition | None:
    """The condition of an option.

    Raises:
        UsageError: it is none.
    """
    from splitbrain.cluster.client import InvalidRequestError
    from splitbrain.cluster.patterns import condition_of

    try:
        return None if text is None else condition_of(text)
    except InvalidRequestError as error:
        raise UsageError(f"{option}: {error}") from error


def _kept(given: Sequence[str]) -> dict[str, Condition] | None:
    kept: dict[str, Condition] = {}
    for each in given:
        pattern, _, text = each.partition("=")
        found = condition(text or None, "--keep-while")
        if found is None:
            raise UsageError(f"--keep-while {each}: give PATTERN=JSON.")
        kept[pattern] = found
    return kept or None


@click.command("list", cls=parsing.Command)
@click.argument("pattern", default="/**")
@when
@reads.mode
@reads.after
@options.as_json
@with_call
def listing(
    call: Call, pattern: str, when: str | None, mode: ReadMode, after: tuple[int, int] | None, as_json: bool
) -> None:
    """Print the tree nodes that PATTERN matches, as a tree, with their values and versions; all of them by default.

    In a pattern `*` is any node one level down, `**` any node below, and `foo*` any name that begins with foo.

    \b
    Examples:
      splitbrain cluster ctl list
      splitbrain cluster ctl list '/queues/*' --when '["if_data_matches", {"durable": true}]' --json
    """
    from splitbrain.cluster.pattern_client import EVERYTHING

    reads.check_after(mode, after)
    asked = condition(when)
    found = call.ask(
        lambda client: client.get_nodes(
            pattern, when=asked, returns=EVERYTHING, mode=mode, after=after, timeout_ms=call.timeout_ms
        )
    )
    click.echo(as_document(found) if as_json else as_tree(found.nodes))


@click.command("count", cls=parsing.Command)
@click.argument("pattern", default="/**")
@when
@reads.mode
@with_call
def count(call: Call, pattern: str, when: str | None, mode: ReadMode) -> None:
    """Print how many tree nodes PATTERN matches.

    \b
    Example:
      splitbrain cluster ctl count '/queues/*'
    """
    asked = condition(when)
    click.echo(call.ask(lambda client: client.count(pattern, when=asked, mode=mode, timeout_ms=call.timeout_ms)))


@click.command("exists", cls=parsing.Command)
@click.argument("path")
@reads.mode
@with_call
def exists(call: Call, path: str, mode: ReadMode) -> None:
    """Print whether there is a tree node at PATH: true or false.

    \b
    Example:
      splitbrain cluster ctl exists /queues/orders
    """
    found = call.ask(lambda client: client.exists(path, mode=mode, timeout_ms=call.timeout_ms))
    click.echo(as_document(found))


@click.command("put-if", cls=parsing.Command)
@click.argument("pattern")
@click.argument("value")
@when
@many
@_keep_while
@with_call
def put_if(call: Call, pattern: str, value: str, when: str | None, many: bool, keep_while: Sequence[str]) -> None:
    """Set the value of the tree node that PATTERN names, or with --many of all that it matches.

    A node that is named is created with its parents if it is missing and --when allows that. Prints the nodes that were
    changed, with their values before, and those that were removed since nothing kept them any more.

    \b
    Examples:
      splitbrain cluster ctl put-if /queues/orders 1 --when '["if_node_exists", false]'
      splitbrain cluster ctl put-if /queues/orders 1 --keep-while '/vhosts/main=["if_node_exists", true]'
      splitbrain cluster ctl put-if '/queues/*' '{}' --many
    """
    from splitbrain.cluster.pattern_client import EVERYTHING

    asked, kept, given = condition(when), _kept(keep_while), value_of(value)
    _print(
        call,
        lambda client: client.put_nodes(
            pattern, given, when=asked, many=many, keep_while=kept, returns=EVERYTHING, timeout_ms=call.timeout_ms
        ),
    )


@click.command("clear", cls=parsing.Command)
@click.argument("pattern")
@when
@many
@with_call
def clear(call: Call, pattern: str, when: str | None, many: bool) -> None:
    """Remove the value of the tree node that PATTERN names, or with --many of all that it matches; no error if none is.

    \b
    Example:
      splitbrain cluster ctl clear /queues/orders
    """
    from splitbrain.cluster.pattern_client import EVERYTHING

    asked = condition(when)
    _print(
        call,
        lambda client: client.clear_nodes(
            pattern, when=asked, many=many, returns=EVERYTHING, timeout_ms=call.timeout_ms
        ),
    )


@click.command("delete-if", cls=parsing.Command)
@click.argument("pattern")
@when
@many
@with_call
def delete_if(call: Call, pattern: str, when: str | None, many: bool) -> None:
    """Remove the tree node that PATTERN names, or with --many all that it matches, with all below; no error if none is.

    Prints what was removed, and why.

    \b
    Examples:
      splitbrain cluster ctl delete-if /queues/orders --when '["if_payload_version", 3]'
      splitbrain cluster ctl delete-if '/queues/tmp*' --many
    """
    from splitbrain.cluster.pattern_client import EVERYTHING

    asked = condition(when)
    _print(
        call,
        lambda client: client.delete_nodes(
            pattern, when=asked, many=many, returns=EVERYTHING, timeout_ms=call.timeout_ms
        ),
    )


def _print(call: Call, use: Callable[[Client], Awaitable[SeenNodes]]) -> None:
    click.echo(as_document(call.ask(use)))


COMMANDS: Final = (listing, count, exists, put_if, clear, delete_if)
