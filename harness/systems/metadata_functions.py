"""Registered functions of other packages, which nodes of the metadata cluster are started with.

Their modules are laid beside the data of each node, so that it finds them wherever it lives: on this machine, in a
container, on a host. They may import the cluster and what comes with Python, and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path  # noqa: TID251 - reads the modules once, before anything starts
from typing import Final

from splitbrain.cluster.embedded import ArgumentError, known_functions
from splitbrain.harness.contract.nodes import NodePlace
from splitbrain.results.errors import UsageError

_FOLDER: Final = "functions"
"""In the data directory of a node."""


class MetadataFunctions:
    """Functions as nodes get them.

    Args:
        places: of their `splitbrain.cluster.tree.Functions`, each as module:attribute.

    Attributes:
        arguments: of each node's command line.
        files: for the data directory of each node.

    Raises:
        UsageError: one cannot be imported, is no `Functions`, or defines what there is already.
    """

    def __init__(self, places: Sequence[str] = ()) -> None:
        try:
            known_functions(places)
        except ArgumentError as error:
            raise UsageError(str(error)) from error
        self.arguments: list[str] = ["--functions", ",".join(places)] if places else []
        self.files: Mapping[str, bytes] = {
            f"{_FOLDER}/{name}": content
            for top in dict.fromkeys(place.partition(":")[0].partition(".")[0] for place in places)
            for name, content in _sources(top).items()
        }

    def import_path(self, place: NodePlace) -> list[str]:
        """Where a node finds those modules, beside its own."""
        return [f"{place.data_dir}/{_FOLDER}"] if self.files else []


def _sources(top: str) -> dict[str, bytes]:
    """The files of a package, or of a module that stands alone, by their names below a folder of modules."""
    module = sys.modules[top]
    if not hasattr(module, "__path__"):
        assert module.__file__ is not None, "it was imported from a file"
        file = Path(module.__file__)
        return {file.name: file.read_bytes()}
    folders = [Path(folder) for folder in module.__path__]
    found = sorted((file, folder) for folder in folders for file in folder.rglob("*.py"))
    return {f"{top}/{file.relative_to(folder).as_posix()}": file.read_bytes() for file, folder in found}
