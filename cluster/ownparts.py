"""Parts of a node that a user's own module has, each given as `module:attribute`."""

from __future__ import annotations

import importlib
from typing import Any

from splitbrain.cluster.errors import ArgumentError


def imported(option: str, place: str) -> Any:
    """What stands at a place.

    Args:
        option: that the place was given with, for errors.
        place: `module:attribute`; the attribute may have dots.

    Raises:
        ArgumentError: it cannot be imported.
    """
    module, _, attributes = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
    except Exception as error:  # it is the module's code that runs
        problem = f"{type(error).__name__}: {error}"
        raise ArgumentError(f"{option} {place} cannot be imported ({problem}): give module:attribute.") from error
    return found
