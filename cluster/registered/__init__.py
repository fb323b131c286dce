"""The registered functions that a node knows: those of every node, and those that it is started with.

A function of one's own stands in a module that defines a `Functions`:

    from splitbrain.cluster.tree import Functions

    FUNCTIONS = Functions()

    @FUNCTIONS.register("bind", version=1)
    def bind(tx, data): ...

All nodes are started with it (`--functions module:FUNCTIONS`). A module here is added to `BUILT_IN` below.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.entities.functions import functions_of
from splitbrain.cluster.errors import ArgumentError, FunctionRefusedError
from splitbrain.cluster.ownparts import imported
from splitbrain.cluster.registered import mops, objects, queues, runs, steps, values
from splitbrain.cluster.tree import Functions

_WITHOUT_BUGS: Final = (
    values.FUNCTIONS,
    steps.FUNCTIONS,
    runs.FUNCTIONS,
    objects.functions(),
    queues.FUNCTIONS,
)

BUILT_IN: Final = Functions.of(*_WITHOUT_BUGS, mops.functions(), functions_of())
"""What every node knows. What a name and a version stand for never changes: a changed function is a new version."""


def known(places: Iterable[str], bugs: Bugs = NO_BUGS) -> Functions:
    """What a node knows that is started with these places, each as module:attribute, and with these bugs.

    Raises:
        ArgumentError: one cannot be imported, is no `Functions`, or defines what there is already.
    """
    found = [*map(_at, places)]
    try:
        if not bugs.ids:
            return Functions.of(BUILT_IN, *found) if found else BUILT_IN
        return Functions.of(*_WITHOUT_BUGS, mops.functions(bugs), functions_of(bugs), *found, bugs=bugs)
    except FunctionRefusedError as error:
        raise ArgumentError(f"--functions: {error}") from error


def _at(place: str) -> Functions:
    found = imported("--functions", place)
    if not isinstance(found, Functions):
        raise ArgumentError(
            f"--functions {place} is a {type(found).__name__}, and no splitbrain.cluster.tree.Functions."
        )
    return found
