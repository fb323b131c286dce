"""Records of a projection in the metadata cluster, for the workload `projections`."""

from __future__ import annotations

import contextlib
from typing import Final, TypeAlias

from splitbrain.cluster.client import Client, ClientError, MisfitError, NodeNotFoundError, StoreRefusedError
from splitbrain.cluster.patterns import IfNodeExists
from splitbrain.harness.contract.sessions import Answer, IndefiniteError
from splitbrain.harness.systems.metadata_errors import classified, readable, refused

_ROOT: Final = "/projected"
_ITEMS: Final = f"{_ROOT}/items"
_TABLE: Final = "items_v1"
_ATTEMPTS: Final = 10
"""To find the same in table and tree, which are read one after the other."""


_Records: TypeAlias = list[tuple[str, int]]


class ProjectedRecords:
    """What one session does with the projection.

    Args:
        client: of the node that is asked.
        timeout_ms: of a request.
    """

    def __init__(self, client: Client, timeout_ms: int) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._is_registered = False

    async def write(self, key: str, value: int) -> Answer:
        """Set a record; it was acknowledged once this node has applied it, so that it is in its projection."""
        await self._register()
        done = await self._client.put(f"{_ITEMS}/{key}", [key, value], timeout_ms=self._timeout_ms)
        with _BEGUN:
            await self._applied(f"{_ITEMS}/{key}", done.index, done.term)
        return Answer(value, done.term)

    async def look_up(self, key: str) -> Answer:
        """The value of a record as this node has it, None if it has none."""
        found = await self._client.look_up(_TABLE, key)
        records = readable(found.records, _Records, "a look-up")
        return Answer(records[0][1] if records else None, found.term)

    async def come_and_go(self, key: str, value: int) -> Answer:
        """Make a record that goes with what keeps it, and a node below it, of which there is none.

        No other op uses that key. The answer's value is what this node has of it then, and afterwards.
        """
        await self._register()
        keeper, item = f"{_ROOT}/keepers/{key}", f"{_ITEMS}/{key}"
        await self._client.put(keeper, value, timeout_ms=self._timeout_ms)
        with _BEGUN:
            kept = {keeper: IfNodeExists(True)}
            await self._client.put_nodes(item, [key, value], keep_while=kept, timeout_ms=self._timeout_ms)
            done = await self._client.put(f"{item}/below", [key, -value], timeout_ms=self._timeout_ms)
            await self._applied(item, done.index, done.term)
            then = (await self.look_up(key)).value
            gone = await self._client.delete_nodes(keeper, timeout_ms=self._timeout_ms)
            await self._applied(keeper, gone.index, gone.term)
            return Answer([then, (await self.look_up(key)).value], gone.term)

    async def differing(self) -> Answer:
        """Keys of which this node's records differ from its nodes, at rest: it is asked again while they do."""
        for attempt in range(_ATTEMPTS):
            nodes = await self._client.get_nodes(f"{_ITEMS}/*", mode="fenced", timeout_ms=self._timeout_ms)
            records = await self._client.all_records(_TABLE)
            of_tree = readable([node.value for node in nodes.nodes if node.has_data], _Records, "a read of records")
            of_table = readable(records.records, _Records, "a read of the table")
            expected, found = ({record[0]: record for record in records} for records in (of_tree, of_table))
            differ = sorted(key for key in {**expected, **found} if expected.get(key) != found.get(key))
            if not differ or attempt == _ATTEMPTS - 1:
                return Answer(differ, nodes.term)
        raise AssertionError("the last attempt gives what it found")

    async def _register(self) -> None:
        """Register the projection, unless it is.

        Raises:
            DefiniteError: it is not known whether it is: nothing else was done.
        """
        if self._is_registered:
            return
        try:
            await self._client.register_projection(_TABLE, f"{_ITEMS}/*", timeout_ms=self._timeout_ms)
        except StoreRefusedError as error:
            if error.reason != "projection_already_exists":
                raise
        except ClientError as error:
            raise refused(error) from error
        self._is_registered = True

    async def _applied(self, path: str, index: int, term: int) -> None:
        """Wait until this node has applied an entry."""
        with contextlib.suppress(NodeNotFoundError):  # it was applied, and removed the node
            await self._client.get_nodes(
                path, many=False, mode="local", after=(index, term), timeout_ms=self._timeout_ms
            )


class _Begun:
    """A context in which no error is definite: a part of the op is done."""

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, ClientError):
            if isinstance(error, MisfitError):
                raise classified(error) from error
            raise IndefiniteError(f"a part of it was done: {error}") from error


_BEGUN: Final = _Begun()
