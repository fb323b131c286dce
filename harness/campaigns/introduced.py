"""What a part of another package is and where it is from, in one line."""

from __future__ import annotations

import inspect

from splitbrain.results import plugins
from splitbrain.results.errors import UsageError


def line(kind: plugins.Kind, name: str) -> str:
    """What an installed part says of itself, and its package; if it cannot be imported, the error.

    Args:
        kind: of the part.
        name: that of its entry point.
    """
    entry = plugins.installed(kind)[name]
    origin = plugins.origin(entry)
    try:
        about = _about(kind, name)
    except UsageError as error:
        about = str(error).rstrip(".")
    return f"{about} ({origin})" if about else f"({origin})"


def _about(kind: plugins.Kind, name: str) -> str:
    """The line of a kind of fault, else the first line of the docstring."""
    if kind == "nemesis":
        from splitbrain.nemesis.catalogue import entry

        return entry(name).line
    found = plugins.find(kind, name, ())
    return first_line(found if isinstance(found, type) or inspect.isroutine(found) else type(found))


def first_line(described: object) -> str:
    """The first line of a docstring, without the full stop."""
    return (inspect.getdoc(described) or "").strip().partition("\n")[0].rstrip(".")
