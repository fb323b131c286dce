"""Streams, through one connection to one node.

    streams = await client.streams()
    await streams.declare("events")
    publisher = streams.publisher("events", "sensor-7")
    confirmed = await publisher.publish(b"...")            # returns once it is committed
    found = await streams.read("events", offset=0)

Errors say whether what was wanted may have happened (`ClientError.definite`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import msgspec

from splitbrain.cluster.asking import DEFAULT_TIMEOUT_MS
from splitbrain.cluster.channel import Channel
from splitbrain.cluster.errors import ClientError, InvalidRequestError, OutcomeUnknownError, UnavailableError
from splitbrain.cluster.groupnames import STREAM_COORDINATOR
from splitbrain.cluster.members import node_of
from splitbrain.cluster.queueclient.connection import Ends, pause
from splitbrain.cluster.queuegroups.records import name_problem
from splitbrain.cluster.streamclient.connection import StreamNotFoundError, StreamsConnection, unexpected
from splitbrain.cluster.streamclient.publisher import ATTEMPT_MS, StreamPublisher
from splitbrain.cluster.streams.commands import AddReplica, DeleteReplica, DeleteStream, NewStream, OfClients, SetPolicy
from splitbrain.cluster.streams.frames import Messages, ReadFrom
from splitbrain.cluster.streams.state import Phase, Stream
from splitbrain.cluster.wire import ClientAddress

REPLICAS = 3
"""Copies of a stream, where a declaration says nothing else."""

PARTITIONS = 3
"""Of a superstream, where a declaration says nothing else."""

MAX_READ = 1000
"""Messages in one answer at most."""

T = TypeVar("T")


class StreamStatus(msgspec.Struct, frozen=True):
    """How a stream is.

    Attributes:
        name: of the stream.
        epoch: that was chosen last.
        writer: of that epoch, None before the first one.
        is_running: whether it runs.
        members: the phase of each copy, by id of the member.
        voters: the members of which a majority confirms; a further copy is none of them before it has caught up.
        size: how many copies there are to be where nothing says a target.
        target: how many live copies it was declared to have; None: that is left to policies and the configuration.
        part_of: the superstream of which it is a partition; None: of none.
        max_length_bytes: what each copy was declared to keep at most, in bytes; None: all, if no policy says less.
        max_age_ms: how old messages may get, by declaration; likewise.
    """

    name: str
    epoch: int
    writer: str | None
    is_running: bool
    members: dict[str, Phase]
    voters: list[str]
    size: int
    target: int | None
    part_of: str | None
    max_length_bytes: int | None
    max_age_ms: int | None


class ReadMessages(msgspec.Struct, frozen=True):
    """What was read.

    Attributes:
        first: offset of the first message.
        bodies: of the messages, without a gap.
        committed: the offset behind the last message that the copy knew to be committed.
    """

    first: int
    bodies: tuple[bytes, ...]
    committed: int


class Streams:
    """Streams, through one connection. Made by `Client.streams`, inside a running event loop.

    Args:
        channel: the connection.
        address: of the connection.
        create: makes a tree node of the metadata, or finds that it is there.
    """

    def __init__(
        self, channel: Channel, address: ClientAddress, create: Callable[[str, Any, int], Awaitable[None]]
    ) -> None:
        self._connection = StreamsConnection(channel)
        self._node = address.node
        self._create = create

    async def declare(
        self,
        name: str,
        *,
        replicas: int = REPLICAS,
        preferred: str | None = None,
        target_group_size: int | None = None,
        max_length_bytes: int | None = None,
        max_age_ms: int | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> bool:
        """Make a stream, if there is none of that name, and wait until it is written; whether this call made it.

        The first one has the coordinator begin, on the members that the cluster has then; others join its group later.
        No copy begins on a node that is being drained; where fewer are left than there are to be copies, more join
        when one is revived.

        Args:
            name: of the stream.
            replicas: copies, the writer's included; where there are fewer nodes, more join as they come.
            preferred: the member that is to write where several copies are equally long; None: that of this node.
            target_group_size: how many live copies it is to have at any time (S001); None: as a policy or the
                configuration says.
            max_length_bytes: what each copy keeps at most, about; messages go from the front. None: all, if no policy
                says less.
            max_age_ms: how old messages may get; likewise.
            timeout_ms: after so long it is given up.

        Raises:
            InvalidRequestError: the name makes no sense, or there are too many streams.
            UnavailableError: every node is being drained.
            OutcomeUnknownError: the stream may be there, or come to be; also if it is not written in time.
        """
        _check(name, replicas, target_group_size)
        limits = _limits(max_length_bytes, max_age_ms)
        ends = Ends(timeout_ms)
        members = await self._places(ends, [name])
        chosen = sorted(members, key=lambda member: (node_of(member) != self._node, member))[:replicas]
        command = NewStream(
            name, tuple(chosen), preferred or next(iter(chosen), None), replicas, target_group_size, None, *limits
        )
        return await self._made(command, ends)

    async def declare_super(
        self,
        name: str,
        *,
        partitions: int = PARTITIONS,
        replicas: int = REPLICAS,
        target_group_size: int | None = None,
        max_length_bytes: int | None = None,
        max_age_ms: int | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> bool:
        """Make the partitions of a superstream that are missing, one after the other; whether this call made one.

        They are streams `NAME-0`, `NAME-1` and so on. Each has so many copies and a target of its own; writers and
        copies are spread over the nodes. What was made before an error stays: declare it again, or delete it.

        Args:
            name: of the superstream.
            partitions: how many there are to be.
            replicas: as of `declare`, of each partition.
            target_group_size: as of `declare`, of each partition.
            max_length_bytes: as of `declare`, of each partition.
            max_age_ms: as of `declare`.
            timeout_ms: after so long it is given up.

        Raises:
            InvalidRequestError: as `declare`; or it has more partitions; or a stream that is none of them has the name
                of one.
            UnavailableError: as `declare`.
            OutcomeUnknownError: as `declare`.
        """
        _check(name, replicas, target_group_size)
        limits = _limits(max_length_bytes, max_age_ms)
        if partitions < 1:
            raise InvalidRequestError("a superstream has at least one partition.")
        ends = Ends(timeout_ms)
        wanted = [f"{name}-{number}" for number in range(partitions)]
        _check(wanted[-1], replicas, target_group_size)
        ring = sorted(await self._places(ends, wanted))
        there = await self._again(ends, lambda: self.status(timeout_ms=self._attempt_ms(ends)))
        _check_partitions(name, wanted, there)
        made: list[str] = []
        for number, each in enumerate(wanted):
            chosen = [ring[(number + step) % len(ring)] for step in range(min(replicas, len(ring)))]
            command = NewStream(
                each, tuple(chosen), next(iter(chosen), None), replicas, target_group_size, name, *limits
            )
            async with _behind(made):
                if await self._made(command, ends):
                    made.append(each)
        return bool(made)

    async def partitions(self, name: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Sequence[StreamStatus]:
        """The partitions of a superstream, in the order of declarations; none if there is no such superstream."""
        return [each for each in await self.status(timeout_ms=timeout_ms) if each.part_of == name]

    async def delete_super(self, name: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Remove the partitions of a superstream, one after the other, with all copies; how many those were.

        Raises:
            StreamNotFoundError: there is none of that name.
            OutcomeUnknownError: some are gone; delete it again.
        """
        ends = Ends(timeout_ms)
        found = await self.partitions(name, timeout_ms=ends.left_ms)
        if not found:
            raise StreamNotFoundError(f"there is no superstream {name}.")
        gone: list[str] = []
        for each in found:
            async with _behind(gone):
                with suppress(StreamNotFoundError):  # another client deleted it meanwhile
                    await self.delete(each.name, timeout_ms=ends.left_ms)
            gone.append(each.name)
        return len(found)

    async def _coordinating(self, ends: Ends) -> Sequence[str]:
        """The members that can have copies, once the coordinator has begun."""
        await self._create("/stream_coordinator", list(await self._connection.members(ends.left_ms)), ends.left_ms)
        return await self._again(ends, lambda: self._hosts(self._attempt_ms(ends)))

    async def _places(self, ends: Ends, names: Sequence[str]) -> Sequence[str]:
        """The members that can have first copies of these streams: nothing begins on a node that is being drained.

        None if there is no such node, and all of the streams are there already.
        """
        members = await self._coordinating(ends)
        draining = await self._again(ends, lambda: self._connection.draining(self._attempt_ms(ends)))
        able = [member for member in members if node_of(member) not in draining]
        if not able:
            there = {
                each.name for each in await self._again(ends, lambda: self.status(timeout_ms=self._attempt_ms(ends)))
            }
            if not there.issuperset(names):
                raise UnavailableError("every node is being drained: revive one first.")
        return able

    async def _made(self, command: NewStream, ends: Ends) -> bool:
        """Whether the command made the stream, once that is written."""
        name = command.name
        accepted, term = await self._again(ends, lambda: self._connection.command(command, self._attempt_ms(ends)))
        try:
            await self._until_it_runs(name, ends)
        except ClientError as error:
            raise OutcomeUnknownError(f"stream {name} is declared, and not written yet: {error}", term) from error
        return accepted.is_new

    async def delete(self, name: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Remove a stream with all copies; the term.

        Raises:
            StreamNotFoundError: there is none of that name.
        """
        return await self._change(DeleteStream(name), timeout_ms)

    async def add_replica(self, name: str, member: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Have a further member copy a stream; the term.

        Raises:
            InvalidRequestError: the coordinator's group has no such member.
            UnavailableError: not now: another change is under way, or a replica has not run for 10 s.
        """
        ends = Ends(timeout_ms)
        members = await self._hosts(ends.left_ms)
        if member not in members:  # its node would not see what its copy is to do
            raise InvalidRequestError(
                f"{member} is no member of the coordinator's group: those are {', '.join(members)}."
            )
        return await self._change(AddReplica(name, member), ends.left_ms)

    async def delete_replica(self, name: str, member: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Have a member give up its copy; the term. Errors as `add_replica`."""
        return await self._change(DeleteReplica(name, member), timeout_ms)

    async def prefer(self, name: str, member: str | None, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Prefer a member as writer, from the next choice on; the term."""
        return await self._change(SetPolicy(name, member), timeout_ms)

    async def _hosts(self, timeout_ms: int) -> tuple[str, ...]:
        """The members that can have copies: those of the coordinator's group."""
        return await self._connection.members(timeout_ms, STREAM_COORDINATOR)

    async def _change(self, command: OfClients, timeout_ms: int) -> int:
        return (await self._connection.command(command, timeout_ms))[1]

    async def status(self, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Sequence[StreamStatus]:
        """How all streams are, as the coordinator knows it, in the order of declarations."""
        found = await self._connection.state(timeout_ms)
        return [_status(stream) for stream in found.streams.values() if not stream.is_deleted]

    def publisher(self, stream: str, name: str, number: int = 0) -> StreamPublisher:
        """A publisher to a stream, under a name that no other one uses; `number` is that of its last message.

        Raises:
            InvalidRequestError: the name is empty, or the number negative: what is sent again could not be recognised.
        """
        if not name or number < 0:
            raise InvalidRequestError(f"a publisher has a name, and numbers from 0 on, not {name!r} and {number}.")
        return StreamPublisher(self._connection, stream, name, number)

    async def read(
        self, name: str, offset: int, *, most: int = MAX_READ, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> ReadMessages:
        """Read committed messages from an offset on, as the copy of this node has them, or else the writer's.

        If that copy has dropped what is at the offset, they begin with the first one that it keeps.

        A copy may lag: `ReadMessages.committed` says how far it has come. There are fewer messages than `most` if they
        have more than about 1 MiB.

        Raises:
            UnavailableError: this node knows no stream of that name, or reaches no copy.
        """
        reply = await self._connection.ask(ReadFrom(name, offset, min(most, MAX_READ)), timeout_ms)
        if not isinstance(reply, Messages):
            raise unexpected(name, reply)
        return ReadMessages(reply.first, reply.bodies, reply.committed)

    async def _until_it_runs(self, name: str, ends: Ends) -> None:
        async def look() -> None:
            found = [each for each in await self.status(timeout_ms=self._attempt_ms(ends)) if each.name == name]
            if not found:
                raise StreamNotFoundError(f"stream {name} is gone.")
            if not found[0].is_running:
                raise UnavailableError("no member writes it yet.", 0)

        await self._again(ends, look)

    async def _again(self, ends: Ends, call: Callable[[], Awaitable[T]]) -> T:
        """Do what may be done twice, until it is done or the time is over.

        Raises:
            OutcomeUnknownError: it is not known of an earlier attempt whether it was carried out.
        """
        unknown: ClientError | None = None
        while True:
            try:
                return await call()
            except (InvalidRequestError, StreamNotFoundError):
                raise
            except ClientError as error:
                if not error.definite:
                    unknown = unknown or error
                if ends.are_over or error.term is None:
                    if unknown is None or not error.definite:
                        raise
                    raise OutcomeUnknownError(f"no answer came in time: {unknown}", unknown.term) from error
            await pause()

    def _attempt_ms(self, ends: Ends) -> int:
        return min(ATTEMPT_MS, ends.left_ms)


def _check_partitions(name: str, wanted: Sequence[str], there: Sequence[StreamStatus]) -> None:
    more = [each.name for each in there if each.part_of == name and each.name not in wanted]
    if more:
        raise InvalidRequestError(f"superstream {name} has more partitions: {', '.join(more)}.")
    others = [each.name for each in there if each.part_of != name and each.name in wanted]
    if others:
        raise InvalidRequestError(f"{', '.join(others)}: there are streams of these names, which are no partitions.")


@asynccontextmanager
async def _behind(done: Sequence[str]) -> AsyncGenerator[None]:
    """What is done with one partition after others: an error does not say that nothing was done."""
    try:
        yield
    except ClientError as error:
        if not done or not error.definite:
            raise
        raise OutcomeUnknownError(
            f"{', '.join(done)}: it was done with these, and then: {error}", error.term
        ) from error


def _check(name: str, replicas: int, target: int | None) -> None:
    problem = name_problem(name)
    if problem is not None or replicas < 1 or (target is not None and target < 1):
        raise InvalidRequestError(f"{problem or 'a stream has at least one copy, and a target of at least one'}.")


def _limits(max_length_bytes: int | None, max_age_ms: int | None) -> tuple[int | None, int | None]:
    if any(limit is not None and limit < 0 for limit in (max_length_bytes, max_age_ms)):
        raise InvalidRequestError("a limit of what a stream keeps is not negative.")
    return max_length_bytes, max_age_ms


def _status(stream: Stream) -> StreamStatus:
    phases: dict[str, Phase] = {name: member.phase for name, member in stream.members.items()}
    return StreamStatus(
        stream.name,
        stream.epoch,
        stream.writer,
        stream.is_running,
        phases,
        list(stream.voters) if stream.epoch else [],
        stream.size,
        stream.target,
        stream.part_of,
        stream.max_length_bytes,
        stream.max_age_ms,
    )
