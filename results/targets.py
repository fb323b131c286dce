"""Whether a file can be written where an option says so: found out before anything is done for its content."""

from __future__ import annotations

from pathlib import Path

from splitbrain.results.errors import UsageError
from splitbrain.results.stores import check_writable


def check_target(option: str, name: str, *, of: str | None = None, make_parents: bool = False) -> Path:
    """Refuse a name under which no file can be put; nothing is made or written.

    Args:
        option: which option it is, for messages.
        name: as given.
        of: a file that what is to be written is made from, which it must not replace; None if there is none.
        make_parents: whether folders above it that are missing will be made.

    Raises:
        UsageError: no file can be put there.
    """
    if not name.strip():
        raise UsageError(f"{option} {name!r} names no file: leave it out, or name one.")
    path = Path(name)
    try:
        if path.is_dir():
            raise UsageError(f"{option} {name} is a folder: name a file.")
        if path.exists() and not path.is_file():
            raise UsageError(f"{option} {name} is no plain file, and would be replaced by one: name another.")
        if of is not None and path.exists() and Path(of).exists() and path.samefile(of):
            raise UsageError(f"{option} {name} is the history itself, and would replace it: name another file.")
        if not make_parents and not path.parent.is_dir():
            raise UsageError(f"{option} {name}: there is no folder {path.parent}. Make it first.")
    except (OSError, ValueError) as error:
        raise UsageError(f"{option} {name!r}: {getattr(error, 'strerror', None) or error}.") from error
    check_writable(path.parent, option)
    return path
