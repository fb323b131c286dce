"""`splitbrain cluster log` and `state`: what is in the files of a node. Nothing is changed on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from splitbrain.harness.cli import options, parsing
from splitbrain.harness.cli.clusters.call import fail
from splitbrain.harness.cli.clusters.printing import as_document
from splitbrain.results.errors import UsageError
from splitbrain.results.stores import check_path
from splitbrain.results.text import visible

if TYPE_CHECKING:
    from splitbrain.cluster.inspection import GroupFiles, NodeFiles, Placed, State, StateFile
    from splitbrain.harness.cli.answers.clusters import LogAnswer, StateAnswer


def _check_folder(_: click.Context, __: click.Parameter, value: str) -> str:
    check_path(value, "FOLDER")
    return value


_INDEX: Final = click.IntRange(1, 2**63 - 1)
_folder = click.argument("folder", metavar="DIR/NODE", callback=_check_folder)


@click.command("log", cls=parsing.Command)
@_folder
@click.option("--from", "first", type=_INDEX, default=None, metavar="INDEX", help="First entry to print.")
@click.option("--to", "last", type=_INDEX, default=None, metavar="INDEX", help="Last entry to print.")
@options.as_json
@click.pass_context
def log(ctx: click.Context, folder: str, first: int | None, last: int | None, as_json: bool) -> None:
    """Print what the files of a node say: term and vote, snapshots, segments, the log, and any damage.

    The node may run or not. Nothing is changed on disk: what a start would repair is reported only. Exit code 1 if
    something is damaged.

    \b
    Examples:
      splitbrain cluster log metadata-cluster/n1
      splitbrain cluster log metadata-cluster/n1 --from 1200 --to 1300
      splitbrain cluster log metadata-cluster/n1 --json
    """
    if first is not None and last is not None and first > last:
        raise UsageError(f"--from {first} is behind --to {last}.")
    found = _read(folder)
    if as_json:
        click.echo(as_document(_document(found, first, last)))
    else:
        for line in _lines(found, first, last):
            click.echo(_shown(line))
    ctx.exit(1 if found.damage else 0)


@click.command("state", cls=parsing.Command)
@_folder
@click.option(
    "--path", "prefix", default="/", show_default=True, callback=parsing.named, help="Print this part of the tree only."
)
@click.option(
    "--index",
    type=_INDEX,
    default=None,
    metavar="INDEX",
    help="The snapshot or checkpoint of this entry.  [default: the newest that is valid]",
)
@options.as_json
def state(folder: str, prefix: str, index: int | None, as_json: bool) -> None:
    """Print the state that a node has written down: what its newest snapshot or checkpoint holds.

    It prints the members, the index up to which the log is applied, hashes, and the tree. Nothing is changed on
    disk. Exit code 1 if there is none, or it is damaged.

    \b
    Examples:
      splitbrain cluster state metadata-cluster/n1
      splitbrain cluster state metadata-cluster/n1 --path /queues --json
    """
    from splitbrain.cluster.client import InvalidPathError
    from splitbrain.cluster.inspection import Folder, StorageError, load_state, names_of_path

    try:
        path = names_of_path(prefix)
    except InvalidPathError as error:
        raise UsageError(f"--path: {error}") from error
    file = _chosen(folder, _read(folder), index)
    try:
        found = load_state(Folder(Path(folder)), file)
    except (StorageError, OSError) as error:
        fail(f"{folder}: {_shown(str(error))}")
    within = [(names, about) for names, about in found.tree if names[: len(path)] == path]
    if as_json:
        click.echo(as_document(_state_document(file, found, within)))
    else:
        for line in _state_lines(file, found, within):
            click.echo(_shown(line))


def _shown(line: str) -> str:
    """A line in which no character from a file can do anything but be seen."""
    return visible(line).replace("\n", "\\n").replace("\t", "\\t")


def _read(folder: str) -> NodeFiles:
    from splitbrain.cluster.inspection import Folder, NoNodeError, read_node

    path = Path(folder)
    if not path.is_dir():
        raise UsageError(f"{folder}: there is no such folder. Give that of a node, as in metadata-cluster/n1.")
    try:
        return read_node(Folder(path))
    except NoNodeError as error:
        raise UsageError(f"{folder}: {error} Give the folder of a node, as in metadata-cluster/n1.") from error
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error.strerror}.") from error


def _chosen(folder: str, found: NodeFiles, index: int | None) -> StateFile:
    """The snapshot or checkpoint that is meant; ends the command with exit code 1 if there is none that is valid."""
    from splitbrain.cluster.inspection import has_tree

    files = [each for group in found.groups if has_tree(group.name) for each in group.states]
    if index is not None:
        files = [each for each in files if each.index == index]
    valid = [each for each in files if each.problem is None]
    if valid:
        return valid[-1]
    problem = "there is no snapshot and no checkpoint" + ("" if index is None else f" of entry {index}")
    if files:
        problem = f"{files[-1].file}, {files[-1].problem}"
    return fail(f"{folder}: {_shown(problem)}.")


# --- the log ----------------------------------------------------------------------------------------------------------


def _within(group: GroupFiles, first: int | None, last: int | None) -> Iterator[Placed]:
    for placed in group.entries:
        if (first or 1) <= placed.entry.index and (last is None or placed.entry.index <= last):
            yield placed


def _lines(found: NodeFiles, first: int | None, last: int | None) -> Iterator[str]:
    from splitbrain.cluster.client import incarnation_of, node_of

    member = found.member
    if member is not None and found.names_a_member:
        yield f"node {node_of(member)}, incarnation {incarnation_of(member)}"
    else:
        yield "node unknown" if member is None else f"node {member!r}, which is no id of a member"
    for group in found.groups:
        yield from _group_lines(group, first, last)
    wal = found.wal
    if wal is not None:
        rest = wal.bytes - wal.ends
        yield f"write-ahead log {wal.file}: {wal.bytes:,} bytes, {wal.durable:,} of them durable by the marks"
        if rest and not found.damage:
            yield f"  the last {rest:,} bytes are an unfinished write, or one that is under way"
    for damage in found.damage:
        yield f"damage: {damage.file}, byte {damage.byte}: {damage.what}"
    if not found.damage:
        yield "no damage"


def _group_lines(group: GroupFiles, first: int | None, last: int | None) -> Iterator[str]:
    from splitbrain.cluster.inspection import in_words

    yield f"group {group.name or 'unknown'}, uid {group.uid}"
    if group.vote is not None:
        yield f"  term {group.vote.term}, vote {group.vote.voted_for or 'none'}"
    for state in group.states:
        valid = "valid" if state.problem is None else f"not valid: {state.problem}"
        yield f"  {state.sort} of entry {state.index}, term {state.term}, {state.bytes:,} bytes, {valid}"
    for segment in group.segments:
        whole = "" if segment.problem is None else f", damaged: {segment.problem}"
        yield f"  segment of entries {segment.first} to {segment.last}, {segment.bytes:,} bytes{whole}"
    for placed in _within(group, first, last):
        entry = placed.entry
        mark = "" if placed.durable else "  (not durable by the marks)"
        about = f"{entry.index:>8} term {entry.term:<4} {entry.kind:8} {len(entry.data):>6} bytes"
        yield f"  {about}  {in_words(entry, group.name)}{mark}"
    durable = max((each.entry.index for each in group.entries if each.durable), default=0)
    yield f"  the log ends at entry {group.last}" + (f", durable up to {durable}" if group.entries else "")


def _document(found: NodeFiles, first: int | None, last: int | None) -> LogAnswer:
    from splitbrain.cluster.client import incarnation_of, node_of
    from splitbrain.cluster.inspection import in_words

    member = found.member if found.names_a_member else None
    return {
        "member": found.member,
        "node": None if member is None else node_of(member),
        "incarnation": None if member is None else incarnation_of(member),
        "wal": found.wal,
        "groups": [
            {
                "name": group.name,
                "uid": group.uid,
                "vote": None if group.vote is None else {"term": group.vote.term, "voted_for": group.vote.voted_for},
                "states": group.states,
                "segments": group.segments,
                "last": group.last,
                "entries": [
                    {
                        "index": placed.entry.index,
                        "term": placed.entry.term,
                        "kind": placed.entry.kind,
                        "bytes": len(placed.entry.data),
                        "what": in_words(placed.entry, group.name),
                        "file": placed.file,
                        "durable": placed.durable,
                    }
                    for placed in _within(group, first, last)
                ],
            }
            for group in found.groups
        ],
        "damage": found.damage,
    }


# --- a state ----------------------------------------------------------------------------------------------------------


def _state_lines(file: StateFile, found: State, within: list[Any]) -> Iterator[str]:
    from splitbrain.cluster.inspection import configuration_in_words, text_of_path, value_in_words

    yield f"{file.sort} of entry {file.index}, term {file.term}, {file.bytes:,} bytes"
    yield f"applied up to entry {found.applied_index}"
    yield f"chain hash {found.chain_hash}"
    yield f"state hash {found.state_hash}"
    for index, configuration in found.configurations:
        yield f"members since entry {index}: {configuration_in_words(configuration)}"
    if not found.configurations:
        yield "members: the founders"
    for names, about in within:
        yield (
            f"  {text_of_path(names)} {value_in_words(about.payload)}  "
            f"(payload version {about.payload_version}, {about.child_list_length} children)"
        )
    yield f"{len(within):,} of {len(found.tree):,} tree nodes"


def _state_document(file: StateFile, found: State, within: list[Any]) -> StateAnswer:
    from splitbrain.cluster.inspection import text_of_path, value_in_words

    return {
        "file": file,
        "applied_index": found.applied_index,
        "chain_hash": found.chain_hash,
        "state_hash": found.state_hash,
        "configurations": [
            {"index": index, "voters": list(configuration.voters), "learners": dict(configuration.learners)}
            for index, configuration in found.configurations
        ],
        "tree": [
            {
                "path": text_of_path(names),
                "has_payload": about.payload is not None,
                "value": value_in_words(about.payload, most=1 << 30),
                "payload_version": about.payload_version,
                "child_list_version": about.child_list_version,
                "child_list_length": about.child_list_length,
            }
            for names, about in within
        ],
    }


COMMANDS: Final = (log, state)
