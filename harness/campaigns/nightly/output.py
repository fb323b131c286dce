"""The files of a night that is over: its document, and what CI services and people read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from splitbrain.results import junit, nightmarkdown, nightpage
from splitbrain.results.atomic import replace_file
from splitbrain.results.errors import UsageError
from splitbrain.results.nights import FILE, Night, Ran

JUNIT: Final = "junit.xml"
SUMMARY: Final = "summary.md"
PAGE: Final = "night.html"


def write(night: Night, runs: Sequence[Ran], folder: Path) -> None:
    """Write all of them into a folder.

    Raises:
        UsageError: it cannot be written.
    """
    document = msgspec.json.format(msgspec.json.encode(night), indent=2) + b"\n"
    made: dict[str, Callable[[], bytes]] = {
        JUNIT: lambda: junit.document(night, runs),
        SUMMARY: lambda: nightmarkdown.document(night).encode(),
        PAGE: lambda: nightpage.document(night, folder).encode("utf-8", "backslashreplace"),
        FILE: lambda: document,  # the last: with it the night is over
    }
    for name, make in made.items():
        put(folder / name, make())


def put(path: Path, content: bytes) -> None:
    """Write a file as a whole.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, lambda aside: aside.write_bytes(content))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}. Choose another place.") from error
