"""Names and paths of tree nodes, and paths as text.

A name is a string in the syntax of a path's text (KH-2): `foo` is the name foo, and `:foo` is the symbol foo, which
Khepri's users write as an atom. They are different names. What would mean something else there is written in percent
encoding: `%2F` is a slash within a name. So names are plain strings everywhere, and compare and sort as such.

A path is a tuple of names from the root down. What may match several nodes is a pattern
(`splitbrain.cluster.tree.patterns`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias
from urllib.parse import quote, unquote

from splitbrain.cluster.errors import InvalidPathError

Path: TypeAlias = tuple[str, ...]
"""Names from the root down; the root itself is the empty tuple."""

ROOT: Final = "/"
THIS: Final = "."
PARENT: Final = ".."
SPECIALS: Final = (ROOT, THIS, PARENT)
"""Components of patterns that are no names: the root, the node itself, and its parent."""

MAX_DEPTH: Final = 64
"""Names of a path."""

MAX_NAME_LENGTH: Final = 255

MAX_SHOWN: Final = 200
"""Characters of a text that is no path, in the message that says so."""

_KEPT: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in "/%*^")


def text_name(text: str) -> str:
    """The name that stands for a text; `name_text` is the inverse."""
    encoded = _encoded(text)
    if encoded.startswith((":", ".")) and (encoded[0] == ":" or encoded in (THIS, PARENT)):
        encoded = f"%{ord(encoded[0]):02X}{encoded[1:]}"
    return encoded


def symbol(text: str) -> str:
    """The name that stands for a symbol."""
    return ":" + _encoded(text)


def is_symbol(name: str) -> bool:
    """Whether a name stands for a symbol; else it stands for a text."""
    return name.startswith(":")


def name_text(name: str) -> str:
    """The text, or the symbol, that a name stands for."""
    bare = name[1:] if is_symbol(name) else name
    return unquote(bare, errors="strict") if "%" in bare else bare


def _encoded(text: str) -> str:
    if text.isalnum():
        return text
    return "".join(char if char in _KEPT or ord(char) > 0x7E else quote(char, safe="") for char in text)


def parse_path(text: str) -> Path:
    """The path that `text` ("/a/b/c", "/" for the root) stands for.

    Raises:
        InvalidPathError: it does not begin with a slash, or a name in it is empty.
    """
    if text == "/":
        return ()
    names = tuple(text.split("/"))
    if names[0] or len(names) < 2 or not all(names[1:]):
        raise InvalidPathError(
            f"{text[:MAX_SHOWN]!r} is not a path: write names separated by single slashes, as in '/a/b/c'."
        )
    return names[1:]


def format_path(path: Sequence[str]) -> str:
    """`path` as text; the inverse of `parse_path`."""
    return "/" + "/".join(path)


def is_pattern(path: Path) -> bool:
    """Whether a path may match many nodes: `*` in a name stands for any text (KH-2)."""
    for name in path:  # noqa: SIM110 - on a hot path: a generator takes several times as long
        if "*" in name:
            return True
    return False
