"""Write-ahead files that were read before: of a file that only grew, what is new is read.

A node reads its file once, at its start. A simulation reads copies of it many times while the node runs
(`splitbrain.cluster.recoverable`), and most of a copy is what the last one was.
"""

from __future__ import annotations

from splitbrain.cluster.log.walfile import NOTHING, WalContent


class Seen:
    """Files of one node, as far as they were whole when they were read last."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, WalContent]] = {}

    def of(self, name: str, content: bytes) -> WalContent:
        """What a file says up to where it is as it was; nothing if it has changed before that."""
        whole, found = self._files.get(name, (b"", NOTHING))
        return found if content.startswith(whole) else NOTHING

    def note(self, name: str, content: bytes, found: WalContent) -> None:
        """Keep what a file without damage says, and nothing of the files before it."""
        if found.damage is None:
            self._files = {name: (content[: found.size], found)}
