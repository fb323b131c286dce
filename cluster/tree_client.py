"""The part of a client that reads and writes the tree."""

from __future__ import annotations

from typing import Any

import msgspec

from splitbrain.cluster import commands, tree
from splitbrain.cluster.asking import DEFAULT_TIMEOUT_MS, Asking, error_of, once
from splitbrain.cluster.commands import Command
from splitbrain.cluster.dedup import Ref
from splitbrain.cluster.pipeline import Pipeline
from splitbrain.cluster.reading import ReadMode, in_mode
from splitbrain.cluster.tree import parse_path
from splitbrain.cluster.tree_node import TreeNode, tree_node
from splitbrain.cluster.wire import Appended, Body, Priority, ReplyFrom, Request


class AppendedEntry(msgspec.Struct, frozen=True):
    """Where a command stands in the log of the leader of a term; it may not be committed."""

    index: int
    term: int


class Names(msgspec.Struct, frozen=True):
    """Names of a tree node's direct children, sorted, and the term in which the answer was given."""

    term: int
    names: tuple[str, ...]


class TreeClient(Asking):
    """Reads and writes the tree of a group."""

    async def get(
        self,
        path: str,
        *,
        mode: ReadMode = "consistent",
        after: tuple[int, int] | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> TreeNode:
        """The tree node at `path`.

        Args:
            path: as text.
            mode: what the answer promises (`ReadMode`).
            after: of a local read, index and term of a command that was answered (`TreeNode`): the node has it applied
                before it answers.
            timeout_ms: after so long the node gives up.

        Raises:
            NodeNotFoundError: there is none.
            InvalidRequestError: `after` makes no sense here.
        """
        return await self._tree_node(in_mode(tree.Get(parse_path(path)), mode, after), timeout_ms)

    async def children(
        self,
        path: str,
        *,
        mode: ReadMode = "consistent",
        after: tuple[int, int] | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> Names:
        """Names of the direct children of the tree node at `path`; arguments and errors as of `get`."""
        answer = await self._ask(in_mode(tree.Children(parse_path(path)), mode, after), timeout_ms)
        match answer.outcome:
            case tree.Names(names):
                return Names(answer.term, names)
            case _:
                raise error_of(answer.outcome, answer.term)

    async def projected(self, projection: str, path: str) -> TreeNode:
        """The record of a tree node in a projection, as the node that is asked holds it: at once, and maybe old.

        It is never older than what this node has shown before, also if it was started again meanwhile (KH-15).

        Raises:
            NodeNotFoundError: it holds no record of that path.
            UnavailableError: the node has not caught up since it started; ask again.
        """
        return await self._tree_node(tree.Project(projection, parse_path(path)), DEFAULT_TIMEOUT_MS)

    async def put(
        self,
        path: str,
        value: Any,
        *,
        ref: Ref | None = None,
        reply_from: ReplyFrom = "leader",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> TreeNode:
        """Set the payload, creating the tree node and its missing parents if there is none; the node afterwards."""
        return await self.execute(commands.put(path, value), ref=ref, reply_from=reply_from, timeout_ms=timeout_ms)

    async def create(
        self, path: str, value: Any, *, ref: Ref | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> TreeNode:
        """Put, if the tree node does not exist.

        Raises:
            MismatchingNodeError: it exists.
        """
        return await self.execute(commands.create(path, value), ref=ref, timeout_ms=timeout_ms)

    async def update(
        self, path: str, value: Any, *, ref: Ref | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> TreeNode:
        """Put, if the tree node exists.

        Raises:
            NodeNotFoundError: it does not.
        """
        return await self.execute(commands.update(path, value), ref=ref, timeout_ms=timeout_ms)

    async def compare_and_swap(
        self, path: str, expected: Any, value: Any, *, ref: Ref | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> TreeNode:
        """Put, if the tree node exists and holds exactly `expected`.

        Raises:
            NodeNotFoundError: it does not exist.
            MismatchingNodeError: it holds something else.
        """
        command = commands.compare_and_swap(path, expected, value)
        return await self.execute(command, ref=ref, timeout_ms=timeout_ms)

    async def increment(
        self, path: str, by: int = 1, *, ref: Ref | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> TreeNode:
        """Add to a whole number; a missing tree node counts as 0. The node afterwards, with the sum as its value.

        Raises:
            MismatchingNodeError: what the tree node holds is no whole number.
            InvalidRequestError: `by`, or the sum, has more than 64 bits.
        """
        return await self.execute(commands.increment(path, by), ref=ref, timeout_ms=timeout_ms)

    async def delete(self, path: str, *, ref: Ref | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Remove the tree node and all below it; no error if there is none. The term in which it was answered."""
        return (await self.execute(commands.delete(path), ref=ref, timeout_ms=timeout_ms)).term

    # --- commands in general ----------------------------------------------------------------------------------

    async def execute(
        self,
        command: Command,
        *,
        ref: Ref | None = None,
        reply_from: ReplyFrom = "leader",
        priority: Priority = "normal",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> TreeNode:
        """Carry out a command (see `splitbrain.cluster.commands`); its tree node afterwards.

        Args:
            command: what is wanted.
            ref: with it the command is carried out once, however often it is sent.
            reply_from: "leader": the answer comes once the leader has applied the command. "local": once the node of
                this client has, too, if it votes: a local read there then sees it (RA-20). `FromMember(id)`: once that
                member has, if it is one (RA-18). A node that is cut off never answers.
            priority: a low one waits until there are no normal ones, and is dropped if the leader steps down before it
                is in its log (RA-21).
            timeout_ms: after so long the node gives up.

        Returns:
            The tree node; after a delete, or where none is left, without payload, and all its numbers are 0.
        """
        return tree_node(await self._ask(once(command, ref), timeout_ms, reply_from, priority))

    async def append(
        self,
        command: Command,
        *,
        ref: Ref | None = None,
        priority: Priority = "normal",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> AppendedEntry:
        """Have the leader put a command into its log; where it stands there (RA-18).

        That proves nothing: the entry may still be lost with the leader. Whether it was carried out shows a local read
        with `after`, which is answered once the entry of this index and term is applied.
        """
        answer = await self._ask(once(command, ref), timeout_ms, "after_log_append", priority)
        if not isinstance(answer.outcome, Appended):
            raise error_of(answer.outcome, answer.term)
        return AppendedEntry(answer.index, answer.term)

    def cast(self, command: Command, *, ref: Ref | None = None, priority: Priority = "normal") -> None:
        """Send a command that is never answered, not even if it makes no sense (RA-18).

        It is dropped by a node that knows no leader which it can reach.

        Raises:
            UnavailableError: the connection is broken.
            InvalidRequestError: the command is too long.
        """
        wanted = Request(0, DEFAULT_TIMEOUT_MS, once(command, ref), "noreply", self._group, priority)
        self._channel.post(wanted)

    def pipeline(self) -> Pipeline:
        """A way to send commands to the leader, which must be this node, without waiting for each (RA-18)."""
        return Pipeline(self._channel, self._group)

    async def _tree_node(self, body: Body, timeout_ms: int) -> TreeNode:
        return tree_node(await self._ask(body, timeout_ms))
