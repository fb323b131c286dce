"""The files of a node, read from outside while it is stopped, or runs: nothing is changed, and damage is reported.

    folder = Folder(Path("metadata-cluster/n1"))
    found = read_node(folder)
    for placed in found.groups[0].entries: print(placed.entry.index, in_words(placed.entry))
    state = load_state(folder, found.groups[0].states[-1])

What is read is not trusted: bytes that make no sense give a `Damage` or a sentence, never another error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from splitbrain.cluster.dedup import DropRefs, LogCommand, Protected, decode_command
from splitbrain.cluster.errors import CorruptStorageError, StorageError
from splitbrain.cluster.groupnames import METADATA, has_own_machine, is_queue_group
from splitbrain.cluster.log.reading import (
    NONSENSE,
    Damage,
    Files,
    GroupFiles,
    NodeFiles,
    NoNodeError,
    Placed,
    SegmentFile,
    StateFile,
    WalFile,
    read_files,
    read_state,
)
from splitbrain.cluster.queuegroups import log as queue_log
from splitbrain.cluster.raft.invariant import InvariantError
from splitbrain.cluster.raft.membership import Configuration, decode_configuration, decode_configurations
from splitbrain.cluster.raft.messages import Entry
from splitbrain.cluster.raft.versions import version_of
from splitbrain.cluster.real import Folder
from splitbrain.cluster.store import Store
from splitbrain.cluster.streams import commands as of_streams
from splitbrain.cluster.tree import (
    ClearNodes,
    CompareAndSwap,
    Create,
    Delete,
    DeleteNodes,
    Increment,
    InvalidCommand,
    Payload,
    Procedure,
    Properties,
    Put,
    PutNodes,
    RegisterProjection,
    RegisterTrigger,
    RunTriggered,
    Transact,
    TransactStored,
    TreeCommand,
    UnregisterProjections,
    UnregisterTriggers,
    Update,
    format_pattern,
)
from splitbrain.cluster.tree import (
    Path as TreePath,
)
from splitbrain.cluster.tree import (
    format_path as text_of_path,
)
from splitbrain.cluster.tree import (
    parse_path as names_of_path,
)

__all__ = [
    "Configuration",
    "CorruptStorageError",
    "Damage",
    "Files",
    "Folder",
    "GroupFiles",
    "NoNodeError",
    "NodeFiles",
    "Placed",
    "SegmentFile",
    "State",
    "StateFile",
    "StorageError",
    "WalFile",
    "configuration_in_words",
    "in_words",
    "load_state",
    "names_of_path",
    "read_node",
    "text_of_path",
    "value_in_words",
]

_SHOWN: Final = 200
"""Characters of a value in a sentence."""


def read_node(files: Files) -> NodeFiles:
    """What the files of a node say.

    Raises:
        NoNodeError: there are none.
        OSError: they cannot be read.
    """
    return read_files(files)


@dataclass(frozen=True)
class State:
    """What a snapshot or checkpoint holds.

    Attributes:
        applied_index: index of the last entry that was applied.
        chain_hash: hash over all applied entries in their order.
        state_hash: hash of the tree and of the results that are kept.
        configurations: those in the log up to there, with the indexes of their entries; none stands for the founders'.
        tree: every tree node with its path, parents first.
    """

    applied_index: int
    chain_hash: str
    state_hash: str
    configurations: list[tuple[int, Configuration]]
    tree: list[tuple[TreePath, Properties]]


def load_state(files: Files, file: StateFile) -> State:
    """What a snapshot or checkpoint holds.

    Raises:
        CorruptStorageError: it is damaged, or gone.
        StorageError: it is of another version.
        OSError: it cannot be read.
    """
    meta, data = read_state(files, file)
    try:
        store = Store.load(data)
        configurations = decode_configurations(meta.configurations) if meta.configurations else []
    except (*NONSENSE, InvariantError, LookupError) as error:
        what = f"its checksum is right, but it makes no sense: {error}"
        raise CorruptStorageError(f"{file.file}: {what}", file.file, 0, what) from error
    return State(store.applied_index, store.chain_hash, store.state_hash, configurations, list(store.tree.contents()))


# --- in words ---------------------------------------------------------------------------------------------------------


def has_tree(group: str) -> bool:
    """Whether the state machine of a group of this name is a tree, and not a queue, or the coordinator of streams."""
    return not has_own_machine(group)


def in_words(entry: Entry, group: str = METADATA) -> str:
    """What an entry of the log of a group does, as a phrase."""
    if entry.kind == "noop":
        return _noop_in_words(entry)
    if entry.kind == "config":
        try:
            return configuration_in_words(decode_configuration(entry))
        except (InvariantError, *NONSENSE) as error:
            return f"no configuration: {error}"
    if not has_tree(group):
        return _timed_in_words(queue_log.decode(entry.data) if is_queue_group(group) else of_streams.decode(entry.data))
    return _command_in_words(decode_command(entry.data))


def _timed_in_words(found: tuple[int, queue_log.Logged | of_streams.Logged] | str) -> str:
    if isinstance(found, str):
        return f"no command: {found}"
    now, command = found
    body = getattr(command, "body", None)
    about = f" of {len(body)} bytes" if isinstance(body, bytes) else ""
    return f"{command.__struct_config__.tag}{about} at {now} ms since 1970"


def _noop_in_words(entry: Entry) -> str:
    if not entry.data:
        return "no-op of a new leader"
    try:
        return f"no-op, version {version_of(entry)} of the state machine"
    except InvariantError as error:
        return f"no version: {error}"


def configuration_in_words(configuration: Configuration) -> str:
    """The members of a configuration."""
    voters = f"voters {', '.join(configuration.voters)}"
    learners = [
        member if target is None else f"{member} (a voter once it has entry {target})"
        for member, target in configuration.learners.items()
    ]
    return f"{voters}; learners {', '.join(learners)}" if learners else voters


def _command_in_words(command: LogCommand | InvalidCommand) -> str:
    match command:
        case Put(path, payload):
            return f"put {text_of_path(path)} {value_in_words(payload)}"
        case Create(path, payload):
            return f"create {text_of_path(path)} {value_in_words(payload)}"
        case Update(path, payload):
            return f"update {text_of_path(path)} {value_in_words(payload)}"
        case CompareAndSwap(path, expected, payload):
            return f"cas {text_of_path(path)} {value_in_words(expected)} {value_in_words(payload)}"
        case Delete(path):
            return f"delete {text_of_path(path)}"
        case Increment(path, by):
            return f"increment {text_of_path(path)} by {by}"
        case Protected(ref, inner):
            return f"{_command_in_words(inner)} (once, as {ref.client} {ref.number})"
        case RunTriggered(number):
            return f"run what triggers asked for, up to event {number}"
        case DropRefs(records):
            return f"forget the results of {', '.join(client for client, _ in records) or 'no client'}"
        case InvalidCommand(problem):
            return f"no command: {problem}"
        case _:
            return _tree_command_in_words(command)


def _tree_command_in_words(command: TreeCommand) -> str:
    match command:
        case PutNodes(path, payload, many):
            return f"put {'all ' if many else ''}{format_pattern(path)} {_payload_in_words(payload)}"
        case ClearNodes(path, many):
            return f"clear {'all ' if many else ''}{format_pattern(path)}"
        case DeleteNodes(path, many):
            return f"delete {'all ' if many else ''}{format_pattern(path)}"
        case Transact(name, version, data):
            return f"transact {name} {version} {value_in_words(data)}"
        case TransactStored(path, data):
            return f"transact what is stored at {format_pattern(path)} {value_in_words(data)}"
        case RegisterTrigger(name, path, procedure):
            return f"run {format_pattern(procedure)} after changes of {format_pattern(path)}, as trigger {name}"
        case UnregisterTriggers(ids):
            return f"forget the triggers {', '.join(ids)}"
        case RegisterProjection(name, path, kind):
            return f"project {format_pattern(path)} as {name} ({kind})"
        case UnregisterProjections(names):
            return "forget all projections" if names is None else f"forget the projections {', '.join(names)}"


def _payload_in_words(payload: Payload) -> str:
    if isinstance(payload, Procedure):
        return f"(procedure {payload.name} {payload.version} {value_in_words(payload.data)})"
    return value_in_words(payload)


def value_in_words(payload: bytes | None, most: int = _SHOWN) -> str:
    """A value as JSON, at most so many characters; bytes that are no value as hexadecimal digits."""
    if payload is None:
        return "(no value)"
    try:
        value: Any = msgspec.msgpack.decode(payload)
        text = msgspec.json.encode(value).decode()
    except NONSENSE:
        text = f"0x{payload[:most].hex()}"
    return text if len(text) <= most else f"{text[:most]}... ({len(payload):,} bytes)"
