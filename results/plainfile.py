"""Files of a store are plain files: to read a pipe would wait for ever, and a folder cannot be read at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from splitbrain.results.errors import HistoryFormatError


def refuse_others(path: Path) -> None:
    """Refuse what is there and is no plain file; that nothing is there, or cannot be looked at, is for who reads it.

    Raises:
        HistoryFormatError: a folder, a pipe, a device or a socket has the name of the file.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "not a plain file"
        raise HistoryFormatError(str(path), f"cannot be read: this is {what}")
