"""Where splitbrain keeps what it compiled for a user: kernels and templates. What is in there will be run."""

from __future__ import annotations

import os
from pathlib import Path


def kept_for_user(*names: str) -> Path | None:
    """The folder of these names in the user's cache, made if missing.

    None if there is none that this user can write and no other user can.
    """
    root = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(root) if os.path.isabs(root) else Path(os.path.expanduser("~")) / ".cache"
    folder = Path(home, "splitbrain", *names)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError:
        return None
    private = found.st_uid == os.getuid() and not found.st_mode & 0o022
    return folder if private and os.access(folder, os.W_OK | os.X_OK) else None
