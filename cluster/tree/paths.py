"""Names and paths of tree nodes, and paths as text."""

from __future__ import annotations

from typing import TypeAlias

from splitbrain.cluster.errors import InvalidPathError

Path: TypeAlias = tuple[str, ...]
"""Names from the root down; the root itself is the empty tuple."""


def parse_path(text: str) -> Path:
    """The path that `text` ("/a/b/c", "/" for the root) stands for.

    Raises:
        InvalidPathError: it does not begin with a slash, or a name in it is empty.
    """
    if text == "/":
        return ()
    names = tuple(text.split("/"))
    if names[0] or len(names) < 2 or not all(names[1:]):
        raise InvalidPathError(f"{text!r} is not a path: write names separated by single slashes, as in '/a/b/c'.")
    return names[1:]


def format_path(path: Path) -> str:
    """`path` as text; the inverse of `parse_path`."""
    return "/" + "/".join(path)


def is_pattern(path: Path) -> bool:
    """Whether a path may match many nodes: `*` in a name stands for any text (KH-2)."""
    for name in path:  # noqa: SIM110 - on a hot path: a generator takes several times as long
        if "*" in name:
            return True
    return False
