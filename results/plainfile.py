"""Files of a store are plain files: to read a pipe would wait for ever, and a folder cannot be read at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from splitbrain.results import quantities
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.text import visible

DOCUMENT_BYTES: Final = 1 << 30
"""No JSON document of a store comes near this size: a larger file is damaged, and to read it could take all memory."""


def refuse_others(path: str | os.PathLike[str], at_most: int | None = None) -> None:
    """Refuse what is there and is no plain file; that nothing is there, or cannot be looked at, is for who reads it.

    Args:
        path: the file.
        at_most: how many bytes it may have; None: any number.

    Raises:
        HistoryFormatError: a folder, a pipe, a device or a socket has the name of the file, or it is too large.
    """
    try:
        found = os.stat(path)
    except OSError:
        return
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "not a plain file"
        raise HistoryFormatError(os.fspath(path), f"cannot be read: this is {what}")
    if at_most is not None and found.st_size > at_most:
        size, bound = quantities.shown(found.st_size), quantities.shown(at_most)
        raise HistoryFormatError(os.fspath(path), f"damaged: it has {size}, and such a file has at most {bound}")


def refuse_names_that_are_no_text(path: Path) -> None:
    """Refuse a path that is not UTF-8: tables are opened, and stores written, by names that are text.

    Raises:
        HistoryFormatError: it is not.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        why = "cannot be read: its name, or that of a folder of it, is not UTF-8. Rename that"
        raise HistoryFormatError(visible(str(path)), why) from None
