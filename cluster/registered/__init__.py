"""The registered functions that a node knows: those of every node, and those that it is started with.

A function of one's own stands in a module that defines a `Functions`:

    from splitbrain.cluster.tree import Functions

    FUNCTIONS = Functions()

    @FUNCTIONS.register("bind", version=1)
    def bind(tx, data): ...

All nodes are started with it (`--functions module:FUNCTIONS`). A module here is added to `BUILT_IN` below.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, Final

from splitbrain.cluster.errors import ArgumentError, FunctionRefusedError
from splitbrain.cluster.registered import values
from splitbrain.cluster.tree import Functions

BUILT_IN: Final = Functions.of(values.FUNCTIONS)
"""What every node knows. What a name and a version stand for never changes: a changed function is a new version."""


def known(places: Iterable[str]) -> Functions:
    """What a node knows that is started with these places, each as module:attribute.

    Raises:
        ArgumentError: one cannot be imported, is no `Functions`, or defines what there is already.
    """
    found = [BUILT_IN, *map(_at, places)]
    try:
        return BUILT_IN if len(found) == 1 else Functions.of(*found)
    except FunctionRefusedError as error:
        raise ArgumentError(f"--functions: {error}") from error


def _at(place: str) -> Functions:
    module, _, attributes = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
    except Exception as error:  # it is the module's code that runs
        problem = f"{type(error).__name__}: {error}"
        raise ArgumentError(f"--functions {place} cannot be imported ({problem}): give module:attribute.") from error
    if not isinstance(found, Functions):
        raise ArgumentError(
            f"--functions {place} is a {type(found).__name__}, and no splitbrain.cluster.tree.Functions."
        )
    return found
