"""Whether a node may convert files of classic queues: its alarms, its thresholds and its table (CQ-7).

The table is read with the first classic queue, as numpy is loaded then. A node that has neither a table nor a file of a
classic queue begins with every transformation; one that has files only was started by an earlier program, and begins
none by itself. Alarms are of the process: a node that begins anew has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from splitbrain.cluster.classicqueues.frames import (
    Enable,
    LookAtNode,
    NodeSeen,
    OfNode,
    Permitted,
    Refused,
    Reply,
    SetAlarm,
)
from splitbrain.cluster.errors import ConversionRefusedError
from splitbrain.cluster.permits import Alarms, Thresholds
from splitbrain.cluster.runtime import Disk
from splitbrain.cluster.streams.frames import NotDone

if TYPE_CHECKING:
    from splitbrain.cluster.classic import Transformations

NO_NUMPY: Final = NotDone(
    "unavailable",
    True,
    "this node has no numpy, which files of classic queues need: install it (Debian: python3-numpy), and start again",
)

FILES: Final = "classic-"
"""How names of files of classic queues begin."""


class Conversions:
    """What one node may convert.

    Args:
        disk: the node's directory.
        thresholds: of the node.
    """

    def __init__(self, disk: Disk, thresholds: Thresholds) -> None:
        self._disk = disk
        self._alarms = Alarms()
        self._thresholds = thresholds
        self._table: Transformations | None = None
        self._turn = asyncio.Lock()

    async def table(self) -> Transformations:
        """The transformations that this node has begun.

        Raises:
            ModuleNotFoundError: the node has no numpy.
            CorruptStorageError: the table is damaged.
            OSError: the disk failed.
        """
        from splitbrain.cluster.classic.transformations import KNOWN, NAME, open_transformations

        async with self._turn:
            if self._table is None:
                names = self._disk.names()
                is_new = NAME not in names and not any(name.startswith(FILES) for name in names)
                table = await open_transformations(self._disk, self._alarms, self._thresholds)
                for name in KNOWN if is_new else ():
                    await table.record(name)
                self._table = table
            return self._table

    async def ask(self, messages: int) -> Reply:
        """Begin the transformation of records of messages for a queue with so many to convert, if that is permitted."""
        from splitbrain.cluster.classic.transformations import MESSAGE_PROPERTIES

        return await self._begin(MESSAGE_PROPERTIES, messages, 1, only_asks=False) or Permitted()

    async def carry_out(self, wanted: OfNode, to_convert: Sequence[int]) -> Reply:
        """Do what an operator wants of this node.

        Args:
            wanted: by the operator.
            to_convert: how many messages each queue of the node has to convert.
        """
        match wanted:
            case SetAlarm(alarm, is_active):
                (self._alarms.set if is_active else self._alarms.clear)(alarm)
            case LookAtNode():
                pass
            case Enable(name, only_asks):
                queues = sum(messages > 0 for messages in to_convert)
                try:
                    refused = await self._begin(name, sum(to_convert), queues, only_asks=only_asks)
                except ModuleNotFoundError:
                    return NO_NUMPY
                if refused is not None:
                    return refused
        return NodeSeen(self._alarms.active, await self._versions())

    async def _begin(self, name: str, messages: int, queues: int, *, only_asks: bool) -> Refused | None:
        from splitbrain.cluster.classic import Load
        from splitbrain.cluster.classic.transformations import KNOWN

        table = await self.table()
        try:
            table.require(name, Load(messages, queues))
        except ConversionRefusedError as error:
            return Refused(error.reason, str(error))
        if not only_asks and table.versions.get(name) != KNOWN[name]:
            await table.record(name)
        return None

    async def _versions(self) -> dict[str, int] | None:
        try:
            return dict((await self.table()).versions)
        except ModuleNotFoundError:
            return None
