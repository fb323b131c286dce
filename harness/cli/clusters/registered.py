"""`splitbrain cluster ctl` for transactions, procedures, triggers, projections, export and import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from splitbrain.harness.cli import parsing
from splitbrain.harness.cli.clusters import reads
from splitbrain.harness.cli.clusters.call import Call, with_call
from splitbrain.harness.cli.clusters.printing import as_document, value_of
from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    from splitbrain.cluster.client import ReadMode, TransactionMode


PRIORITY_MAX: Final = 1 << 31


class _Function(click.ParamType[Any, Any]):
    name = "NAME:VERSION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        name, _, version = str(value).rpartition(":")
        if not name or not (version.isascii() and version.isdecimal() and len(version) < 10):
            raise UsageError(f"{value}: give name and version of a registered function, as in move:1.")
        return name, int(version)


_FUNCTION: Final = _Function()


@click.command("transact", cls=parsing.Command)
@click.argument("function", type=_FUNCTION, metavar="NAME:VERSION")
@click.argument("data", default="null")
@click.option(
    "--writes",
    type=click.Choice(["auto", "write", "read"]),
    default="auto",
    show_default=True,
    help="auto: the node finds out whether the function writes.",
)
@reads.mode
@with_call
def transact(call: Call, function: tuple[str, int], data: str, writes: TransactionMode, mode: ReadMode) -> None:
    """Carry out a registered function as a transaction, with DATA (JSON); prints what it gives.

    --mode is for one that only reads.

    \b
    Examples:
      splitbrain cluster ctl transact move:1 '{"from": "/a", "to": "/b"}'
      splitbrain cluster ctl transact values:1 '["/a", "/b"]' --writes read --mode local
    """
    if mode != "consistent" and writes != "read":
        raise UsageError("--mode: it is for --writes read.")
    given = value_of(data)
    click.echo(
        as_document(
            call.ask(
                lambda client: client.transaction(*function, given, writes, read_mode=mode, timeout_ms=call.timeout_ms)
            )
        )
    )


@click.command("put-procedure", cls=parsing.Command)
@click.argument("path")
@click.argument("function", type=_FUNCTION, metavar="NAME:VERSION")
@click.argument("data", default="null")
@with_call
def put_procedure(call: Call, path: str, function: tuple[str, int], data: str) -> None:
    """Store a registered function as the procedure at PATH; it is given DATA (JSON) first.

    \b
    Example:
      splitbrain cluster ctl put-procedure /procedures/steps steps:1
    """
    from splitbrain.cluster.client import StoredProcedure

    stored = StoredProcedure(*function, value_of(data))
    click.echo(as_document(call.ask(lambda client: client.put_nodes(path, stored, timeout_ms=call.timeout_ms))))


@click.command("run-procedure", cls=parsing.Command)
@click.argument("path")
@click.argument("arguments", default="null")
@click.option("--write", is_flag=True, help="It may write.")
@with_call
def run_procedure(call: Call, path: str, arguments: str, write: bool) -> None:
    """Run the procedure at PATH with ARGUMENTS (JSON); prints what it gives.

    \b
    Example:
      splitbrain cluster ctl run-procedure /procedures/count '{"by": 2}' --write
    """
    given = value_of(arguments)
    click.echo(
        as_document(
            call.ask(lambda client: client.run_procedure(path, given, writes=write, timeout_ms=call.timeout_ms))
        )
    )


@click.command("register-trigger", cls=parsing.Command)
@click.argument("id")
@click.argument("pattern")
@click.argument("procedure")
@click.option("--on", "on", default="create,update,delete", show_default=True, help="After which changes.")
@click.option(
    "--priority",
    default=0,
    show_default=True,
    type=click.IntRange(-PRIORITY_MAX, PRIORITY_MAX),
    help="Those with a higher one run first.",
)
@with_call
def register_trigger(call: Call, id: str, pattern: str, procedure: str, on: str, priority: int) -> None:
    """Have the procedure stored at PROCEDURE run after changes of tree nodes that PATTERN matches.

    \b
    Example:
      splitbrain cluster ctl register-trigger counted '/queues/*' /procedures/count --on create
    """
    actions: list[Any] = [each.strip() for each in on.split(",")]
    unknown = [each for each in actions if each not in ("create", "update", "delete")]
    if unknown:
        raise UsageError(f"--on {on}: changes are create, update and delete.")
    call.ask(
        lambda client: client.register_trigger(
            id, pattern, procedure, on_actions=actions, priority=priority, timeout_ms=call.timeout_ms
        )
    )
    click.echo(f"registered {id}")


@click.command("unregister-trigger", cls=parsing.Command)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@with_call
def unregister_trigger(call: Call, ids: Sequence[str]) -> None:
    """Forget triggers, and what they are still to run; no error if there are none of these ids.

    \b
    Example:
      splitbrain cluster ctl unregister-trigger counted
    """
    call.ask(lambda client: client.unregister_triggers(*ids, timeout_ms=call.timeout_ms))
    click.echo(f"unregistered {', '.join(ids)}")


@click.command("triggers", cls=parsing.Command)
@reads.mode
@with_call
def triggers(call: Call, mode: ReadMode) -> None:
    """Print the triggers that are registered.

    \b
    Example:
      splitbrain cluster ctl triggers
    """
    click.echo(as_document(call.ask(lambda client: client.triggers(mode=mode, timeout_ms=call.timeout_ms))))


@click.command("register-projection", cls=parsing.Command)
@click.argument("name")
@click.argument("pattern")
@click.option(
    "--kind",
    type=click.Choice(["copy", "simple", "extended"]),
    default="copy",
    show_default=True,
    help="copy: a tree node's value is the record, a list that begins with its key. simple: a function makes the "
    "record. extended: a function changes the tables.",
)
@click.option("--function", type=_FUNCTION, default=None, metavar="NAME:VERSION", help="Of a simple or extended one.")
@click.option("--table", "tables", multiple=True, metavar="NAME[:KIND]", help="A table: set, ordered_set or bag.")
@with_call
def register_projection(
    call: Call, name: str, pattern: str, kind: Any, function: tuple[str, int] | None, tables: Sequence[str]
) -> None:
    """Have every member keep a table of the tree nodes that PATTERN matches. NAME should end in a version.

    \b
    Examples:
      splitbrain cluster ctl register-projection users_v1 '/users/*'
      splitbrain cluster ctl register-projection routes_v2 '/bindings/**' --kind extended --function routes:2 \\
        --table routes_v2:bag
    """
    made: dict[str, Any] = {}
    for table in tables:
        table_name, _, table_kind = table.partition(":")
        if table_kind not in ("", "set", "ordered_set", "bag"):
            raise UsageError(f"--table {table}: kinds of tables are set, ordered_set and bag.")
        made[table_name] = table_kind or "set"
    call.ask(
        lambda client: client.register_projection(
            name, pattern, kind, function, made or None, timeout_ms=call.timeout_ms
        )
    )
    click.echo(f"registered {name}")


@click.command("unregister-projection", cls=parsing.Command)
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--all", "everything", is_flag=True, help="All projections.")
@with_call
def unregister_projection(call: Call, names: Sequence[str], everything: bool) -> None:
    """Drop projections, with their tables; prints those that there were, with their patterns.

    \b
    Example:
      splitbrain cluster ctl unregister-projection users_v1
    """
    if bool(names) == everything:
        raise UsageError("unregister-projection: name projections, or give --all.")
    gone = call.ask(
        lambda client: client.unregister_projections(None if everything else names, timeout_ms=call.timeout_ms)
    )
    click.echo(as_document(gone))


@click.command("projections", cls=parsing.Command)
@reads.mode
@with_call
def projections(call: Call, mode: ReadMode) -> None:
    """Print the projections that are registered, with their patterns.

    \b
    Example:
      splitbrain cluster ctl projections --node n2 --mode local
    """
    click.echo(as_document(call.ask(lambda client: client.projections(mode=mode, timeout_ms=call.timeout_ms))))


@click.command("look-up", cls=parsing.Command)
@click.argument("table")
@click.argument("key", default=None, required=False)
@with_call
def look_up(call: Call, table: str, key: str | None) -> None:
    """Print the records of KEY (JSON) in a table of a projection, or all records, as the asked node has them.

    \b
    Examples:
      splitbrain cluster ctl look-up users_v1 '"alice"' --node n3
      splitbrain cluster ctl look-up users_v1
    """
    if key is None:
        found = call.ask(lambda client: client.all_records(table))
    else:
        given = value_of(key)
        found = call.ask(lambda client: client.look_up(table, given))
    click.echo(as_document(found))


@click.command("export", cls=parsing.Command)
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--pattern", default=None, metavar="PATTERN", help="Only what it matches, with all below.")
@reads.mode
@with_call
def export(call: Call, file: str, pattern: str | None, mode: ReadMode) -> None:
    """Write tree nodes to FILE, with what keeps them, as of one moment; `import` puts them again.

    \b
    Examples:
      splitbrain cluster ctl export tree.export
      splitbrain cluster ctl export queues.export --pattern /queues
    """
    path = Path(file)
    if path.exists():
        raise UsageError(f"{file} exists: remove it, or choose another name.")
    data = call.ask(lambda client: client.export(pattern, mode=mode, timeout_ms=call.timeout_ms))
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.") from error
    click.echo(f"{len(data)} bytes in {file}")


@click.command("import", cls=parsing.Command)
@click.argument("file", type=click.Path())
@with_call
def import_(call: Call, file: str) -> None:
    """Put the tree nodes that FILE has, an export; others stay. It is read to its end before the first is put.

    \b
    Example:
      splitbrain cluster ctl import tree.export
    """
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from error
    done = call.ask(lambda client: client.import_(data, timeout_ms=call.timeout_ms))
    click.echo(f"{done.nodes} nodes put")


COMMANDS: Final = (
    transact,
    put_procedure,
    run_procedure,
    register_trigger,
    unregister_trigger,
    triggers,
    register_projection,
    unregister_projection,
    projections,
    look_up,
    export,
    import_,
)
