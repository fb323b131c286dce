"""What `splitbrain cluster` stores in the folder of a cluster: its nodes, their addresses, and their processes.

A node knows the addresses of others from its start only, so that room for nodes that may join later is made then
(spares). What left is remembered, because its data must not be used again (`splitbrain.cluster.members`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import click
import msgspec

from splitbrain.harness.cli import completing
from splitbrain.results.errors import UsageError
from splitbrain.results.stores import check_path
from splitbrain.results.values import NOT_JSON

_STATE: Final = "cluster.json"
DIRECTORY: Final = "metadata-cluster"


class ClusterNode(msgspec.Struct, frozen=True):
    """A node of the cluster.

    Attributes:
        node: its name.
        port: on 127.0.0.1.
        pid: of its process, 0 if it was stopped or never started.
        started: when that process started, in clock ticks: it differs if a pid is reused.
        incarnation: how often it has lost its data before.
        part: "member" for one that `up` starts, "spare" for one that never was started, "removed" for one that left.
    """

    node: str
    port: int
    pid: int = 0
    started: int = 0
    incarnation: int = 0
    part: Literal["member", "spare", "removed"] = "member"


class ClusterState(msgspec.Struct, frozen=True):
    """What is stored.

    Attributes:
        nodes: all of them.
        founders: names of the nodes with which the cluster began.
        bug: bugs with which its nodes run, as in the option.
        functions: registered functions that its nodes know beside their own, as in the option.
        store: where entities are at first, as in the option.
        strategy: what nodes do about partitions of the tables, as in the option; "" for the default.
        preferred: nodes that the strategy is about, as in the option.
        discovery: arguments with which the first nodes find each other; none if each is started with its founders.
    """

    nodes: list[ClusterNode]
    founders: list[str] = []
    bug: str = ""
    functions: str = ""
    discovery: list[str] = []
    store: str = "tree"
    strategy: str = ""
    preferred: str = ""


@dataclass(frozen=True)
class Layout:
    """A cluster in a folder.

    Attributes:
        home: the folder.
        state: what is stored there.
    """

    home: Path
    state: ClusterState

    @property
    def nodes(self) -> list[ClusterNode]:
        """The nodes that were started and not stopped since."""
        return [each for each in self.state.nodes if each.pid]

    @property
    def names(self) -> list[str]:
        """Names of all nodes."""
        return [each.node for each in self.state.nodes]

    def find(self, name: str) -> ClusterNode:
        """The node of this name.

        Raises:
            UsageError: there is none.
        """
        for each in self.state.nodes:
            if each.node == name:
                return each
        raise UsageError(f"there is no node {name!r} in this cluster: {', '.join(self.names)}.")

    def with_nodes(self, *changed: ClusterNode) -> Layout:
        """The same with these nodes in place of those of their names; stored."""
        by_name = {each.node: each for each in changed}
        nodes = [by_name.get(each.node, each) for each in self.state.nodes]
        return store(self.home, msgspec.structs.replace(self.state, nodes=nodes))


def _check_folder(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        check_path(value, "--dir")
    return value


folder = click.option(
    "--dir",
    "directory",
    default=DIRECTORY,
    show_default=True,
    metavar="DIR",
    callback=_check_folder,
    help="The folder of the nodes' data and logs.",
    shell_complete=completing.folder,
)


def running(home: Path) -> Layout:
    """The cluster that is up in this folder.

    Raises:
        UsageError: none is, or what is stored is damaged.
    """
    found = stored(home)
    if found is None or not found.nodes:
        raise UsageError(f"no cluster is up in {home}: start one with splitbrain cluster up --dir {home}.")
    return found


def stored(home: Path) -> Layout | None:
    """The cluster of this folder, up or not; None if there never was one.

    Raises:
        UsageError: what is stored is damaged.
    """
    try:
        found = msgspec.json.decode((home / _STATE).read_bytes(), type=ClusterState)
    except FileNotFoundError:
        return None
    except NOT_JSON as error:
        raise UsageError(f"{home / _STATE} is damaged: {error}. Stop its nodes, then remove it.") from error
    if not found.founders:
        found = msgspec.structs.replace(found, founders=[each.node for each in found.nodes])
    return Layout(home, found)


def store(home: Path, state: ClusterState) -> Layout:
    """Store what a cluster is now."""
    aside = home / f".{_STATE}"
    aside.write_bytes(msgspec.json.format(msgspec.json.encode(state)))
    aside.rename(home / _STATE)
    return Layout(home, state)


def forget(home: Path) -> None:
    """Store that there never was a cluster."""
    (home / _STATE).unlink(missing_ok=True)
