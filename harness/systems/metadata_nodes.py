"""With which interpreter a node of the metadata cluster is run, and where that finds the cluster."""

from __future__ import annotations

import os
import sys
from pathlib import Path  # noqa: TID251 - says where files of a node are; touches none
from typing import Final

import msgspec

from splitbrain import cluster
from splitbrain.harness.contract.nodes import NodePlace

RUN_NODE: Final = ("-P", "-m", "splitbrain.cluster")
"""Options of the interpreter, before the node's own arguments."""

_IN_IMAGE: Final = "/opt/splitbrain"
"""The folder of image "node" that holds splitbrain/cluster."""


def address_of(address: tuple[str, int]) -> str:
    """An address as the command line has it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def interpreter(place: NodePlace) -> tuple[str, str]:
    """The interpreter that runs the node that lives at `place`, and where that finds the cluster."""
    if place.home == "image":
        return "python3", _IN_IMAGE
    if place.home == "host":
        return "python3", place.home_dir
    return sys.executable, _import_path()


def _import_path() -> str:
    """Where the node's interpreter finds the cluster and what it imports, however this process found them."""
    found = (Path(cluster.__path__[0]).parent, Path(msgspec.__path__[0]))
    return os.pathsep.join(dict.fromkeys(str(package.absolute().parent) for package in found))
