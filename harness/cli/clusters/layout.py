"""What `splitbrain cluster up` stores in the folder of a cluster for the other commands: nodes and their processes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click
import msgspec

from splitbrain.results.errors import UsageError
from splitbrain.results.stores import check_path

_STATE: Final = "cluster.json"


class NodeProcess(msgspec.Struct, frozen=True):
    """A node that `cluster up` started. `started` is its start time in clock ticks: it differs if a pid is reused."""

    node: str
    port: int
    pid: int
    started: int


class ClusterState(msgspec.Struct, frozen=True):
    """What `cluster up` stores for the other commands."""

    nodes: list[NodeProcess]


def _check_folder(_: click.Context, __: click.Parameter, value: str) -> str:
    check_path(value, "--dir")
    return value


folder = click.option(
    "--dir",
    "directory",
    default="metadata-cluster",
    show_default=True,
    metavar="DIR",
    callback=_check_folder,
    help="The folder of the nodes' data and logs.",
)


def running_state(home: Path) -> list[NodeProcess]:
    """The nodes of the cluster that is up.

    Raises:
        UsageError: none is.
    """
    nodes = read_state(home)
    if not nodes:
        raise UsageError(f"no cluster is up in {home}: start one with splitbrain cluster up --dir {home}.")
    return nodes


def read_state(home: Path) -> list[NodeProcess]:
    """The nodes that were started and not stopped by `down`; none if no cluster is up.

    Raises:
        UsageError: what is stored is damaged.
    """
    try:
        return msgspec.json.decode((home / _STATE).read_bytes(), type=ClusterState).nodes
    except FileNotFoundError:
        return []
    except msgspec.DecodeError as error:
        raise UsageError(f"{home / _STATE} is damaged: {error}. Stop its nodes, then remove it.") from error


def write_state(home: Path, nodes: list[NodeProcess]) -> None:
    """Store that these nodes are up."""
    aside = home / f".{_STATE}"
    aside.write_bytes(msgspec.json.format(msgspec.json.encode(ClusterState(nodes))))
    aside.rename(home / _STATE)


def remove_state(home: Path) -> None:
    """Store that no cluster is up."""
    (home / _STATE).unlink(missing_ok=True)
