"""The part of a client that changes and looks at the cluster itself: members, groups, snapshots, states of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from splitbrain.cluster.asking import DEFAULT_TIMEOUT_MS, Asking, error_of
from splitbrain.cluster.errors import OutcomeUnknownError
from splitbrain.cluster.flags.registry import FlagState, Stability
from splitbrain.cluster.flags.wire import EnableFlag, FlagBody, FlagEnabled, FlagList, FlagsQuery, IsFlagEnabled
from splitbrain.cluster.groupnames import METADATA
from splitbrain.cluster.raft.events import MemberRole
from splitbrain.cluster.storeswire import Migrate, RollBack, StoresBody, StoresQuery, StoresState
from splitbrain.cluster.wire import (
    AddMember,
    Body,
    DeleteGroup,
    ForceShrinkMembers,
    GroupList,
    GroupsQuery,
    MemberList,
    MembersQuery,
    RemoveMember,
    Request,
    StartGroup,
    StateRequest,
    StateWritten,
    Status,
    StatusQuery,
    TakeCheckpoint,
    TakeSnapshot,
    TransferLeadership,
)


class NodeStatus(msgspec.Struct, frozen=True):
    """What a node of the cluster says of itself (see `splitbrain.cluster.wire.Status`, which has the same fields)."""

    node: str
    role: str
    term: int
    leader: str | None
    commit_index: int
    applied_index: int
    chain_hash: str
    state_hash: str
    machine_version: int = 1
    supported_version: int = 1
    outdated: bool = False
    down: tuple[str, ...] = ()
    received: int = 0


class WrittenState(msgspec.Struct, frozen=True):
    """A snapshot or checkpoint that a node has: index and term of the last entry in it."""

    index: int
    term: int


class FeatureFlag(msgspec.Struct, frozen=True):
    """A feature flag as one node has it.

    Attributes:
        name: of it.
        state: disabled, state_changing or enabled; "unknown" where the node has not joined completely.
        stability: experimental, stable or required.
        depends_on: flags that are enabled before it.
        line: what it switches on.
    """

    name: str
    state: FlagState | Literal["unknown"]
    stability: Stability
    depends_on: tuple[str, ...]
    line: str


class AdminClient(Asking):
    """Changes members and groups, and asks nodes about themselves."""

    async def start_group(self, name: str, founders: Sequence[str], incarnation: int = 0) -> tuple[str, ...]:
        """Have this node take part in a group from now on; the groups that it is in. Each founder must be asked so.

        Args:
            name: of the group.
            founders: ids of the members with which it begins, the same on all of them.
            incarnation: how many groups of this name there were before, the same on all of them. Without it what is
                left of a former group, on a node that did not delete it or on its way, may be taken for the new one's.

        Raises:
            InvalidRequestError: another incarnation of it is here, among other reasons.
        """
        return (await self._groups(name, StartGroup(tuple(founders), incarnation))).groups

    async def delete_group(self, name: str) -> tuple[str, ...]:
        """Have this node forget its member of a group, with all its data; the groups that are left here."""
        return (await self._groups(name, DeleteGroup())).groups

    async def groups(self) -> tuple[str, ...]:
        """The groups that this node takes part in."""
        return (await self._groups(METADATA, GroupsQuery())).groups

    async def incarnations(self) -> Mapping[str, int]:
        """The groups that this node takes part in, each with how many of its name there were before."""
        found = await self._groups(METADATA, GroupsQuery())
        return {name: found.incarnations.get(name, 0) for name in found.groups}

    async def stopped_groups(self) -> Mapping[str, str]:
        """The groups whose member stopped here, because something happened that their rules exclude; and what."""
        return (await self._groups(METADATA, GroupsQuery())).failed

    async def members(self, *, learners: bool = False) -> tuple[str, ...]:
        """Ids of the voters of the configuration that the node has in force, at once; it may not be committed.

        With `learners` those of all members.
        """
        found = await self._members(MembersQuery(), DEFAULT_TIMEOUT_MS)
        return found.members if not learners else (*found.members, *found.learners)

    async def learners(self) -> tuple[str, ...]:
        """Ids of the members in that configuration which do not vote."""
        return (await self._members(MembersQuery(), DEFAULT_TIMEOUT_MS)).learners

    async def promotable(self) -> tuple[str, ...]:
        """Ids of the learners in that configuration which get a vote once they have caught up."""
        return (await self._members(MembersQuery(), DEFAULT_TIMEOUT_MS)).promotable

    async def add_member(
        self,
        member: str,
        *,
        role: MemberRole | None = None,
        learners: bool = False,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> tuple[str, ...]:
        """Have a node taken in, as the member of this id (see `splitbrain.cluster.members`); the voters afterwards.

        With `learners` all members.

        A promotable member becomes a voter later, once it has what is in the log now; a learner never, unless it is
        added again as a voter. Without a role it is a voter, or promotable where nodes are started with learners-first.

        Raises:
            ChangeRefusedError: its `reason` is "change_not_permitted", "already_member" or "was_member".
        """
        found = await self._members(AddMember(member, role), timeout_ms)
        return found.members if not learners else (*found.members, *found.learners)

    async def remove_member(self, member: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> tuple[str, ...]:
        """Have the member of this id leave for ever; the voters afterwards.

        Raises:
            ChangeRefusedError: its `reason` is "change_not_permitted", "not_member" or "last_member".
        """
        return (await self._members(RemoveMember(member), timeout_ms)).members

    async def transfer_leadership(self, member: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Have the leader ask another member to stand for election at once; returns when it was asked (RA-31).

        It is usually elected within one round trip, and not at all if it was cut off: `status` shows it. To ask for the
        same member again meanwhile does no harm; another one is refused until that is over, which takes one election
        timeout at most.

        Raises:
            ChangeRefusedError: its `reason` is "not_member", "non_voter", "not_up_to_date", "transfer_under_way" or
                "version_not_supported".
        """
        await self._members(TransferLeadership(member), timeout_ms)

    async def force_shrink(self, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> tuple[str, ...]:
        """Make this node the only member, at once: for a majority that is lost for ever (RA-32).

        What only the others have is lost. They must never run again with their data: there would be two clusters.

        Raises:
            ChangeRefusedError: its `reason` is "version_not_supported": start the node with a later program first.
        """
        return (await self._members(ForceShrinkMembers(), timeout_ms)).members

    async def snapshot(self, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> WrittenState:
        """Have this node write a snapshot of what it has applied now; it is durable when this returns (RA-37).

        The node needs its log before it no more. A snapshot of the same entry that is there already is as good.

        Raises:
            UnavailableError: another snapshot is being written: try again.
            InvalidRequestError: nothing is applied yet.
        """
        return await self._written(TakeSnapshot(), timeout_ms)

    async def checkpoint(self, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> WrittenState:
        """Have this node write a checkpoint of what it has applied now: not synced, and the log stays (RA-38).

        Raises:
            UnavailableError: a snapshot is being written, or the last entry is not durable here yet: try again.
            InvalidRequestError: nothing is applied yet.
        """
        return await self._written(TakeCheckpoint(), timeout_ms)

    async def status(self) -> NodeStatus:
        """What the node says of itself, at once; needs no leader and no majority."""
        answer = await self._ask(StatusQuery(), DEFAULT_TIMEOUT_MS)
        match answer.outcome:
            case Status() as said:
                return NodeStatus(*msgspec.structs.astuple(said))
            case _:
                raise error_of(answer.outcome, answer.term)

    async def feature_flags(self) -> tuple[FeatureFlag, ...]:
        """The feature flags that this node knows, as it has them now."""
        answer = await self._about_flags(FlagsQuery(), DEFAULT_TIMEOUT_MS)
        if not isinstance(answer, FlagList):
            raise OutcomeUnknownError(f"the answer does not fit the request: {type(answer).__name__}.")
        rows = answer.flags
        return tuple(
            FeatureFlag(
                row.name,
                row.state if answer.synchronised or row.state == "enabled" else "unknown",
                row.stability,
                row.depends_on,
                row.line,
            )
            for row in rows
        )

    async def enable_feature_flag(
        self, flag: str, *, experimental: bool = False, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> None:
        """Have a feature flag enabled on all members, with what it depends on; returns when it is.

        Args:
            flag: its name.
            experimental: that it may be an experimental one.
            timeout_ms: after so long it is given up, if nothing is decided.

        Raises:
            FlagNotEnabledError: this request did not enable it; its `reason` says why.
            UnavailableError: another change took too long: try again.
            OutcomeUnknownError: it may be enabled, or will be, on all members; or it is undone on all.
        """
        await self._about_flags(EnableFlag(flag, experimental), timeout_ms)

    async def is_feature_flag_enabled(self, flag: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> bool:
        """Whether a flag is enabled on this node; waits while it changes (FF-1).

        Raises:
            FlagNotEnabledError: the node does not know the flag.
            OutcomeUnknownError: it still changed after that time.
        """
        answer = await self._about_flags(IsFlagEnabled(flag), timeout_ms)
        return isinstance(answer, FlagEnabled) and answer.enabled

    async def migrate(self, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> StoresState:
        """Have all entities moved from the tables to the tree (M2K-2); returns once the tree is in force.

        It does no harm to ask again, also another node.

        Raises:
            MigrationRefusedError: it cannot be done; the message says why.
            FlagNotEnabledError: the feature flag was not enabled, and nothing has moved.
            OutcomeUnknownError: it was not done in time; it may go on.
        """
        return await self._about_stores(Migrate(), timeout_ms)

    async def roll_back(self, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> StoresState:
        """Have the tables in force again (M2K-5), as long as nothing has changed in the tree.

        Raises:
            MigrationRefusedError: there is no way back, or none is needed; the message says why.
            OutcomeUnknownError: it was not done in time; it may go on.
        """
        return await self._about_stores(RollBack(), timeout_ms)

    async def stores(self, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> StoresState:
        """Both stores of entities, as this node knows them."""
        return await self._about_stores(StoresQuery(), timeout_ms)

    # --- inside -----------------------------------------------------------------------------------------------

    async def _members(self, body: Body, timeout_ms: int) -> MemberList:
        answer = await self._ask(body, timeout_ms)
        if not isinstance(answer.outcome, MemberList):
            raise error_of(answer.outcome, answer.term)
        return answer.outcome

    async def _written(self, body: StateRequest, timeout_ms: int) -> WrittenState:
        answer = await self._ask(body, timeout_ms)
        match answer.outcome:
            case StateWritten(index, term):
                return WrittenState(index, term)
            case _:
                raise error_of(answer.outcome, answer.term)

    async def _groups(self, name: str, body: Body) -> GroupList:
        answer = await self._channel.ask(Request(0, DEFAULT_TIMEOUT_MS, body, group=name))
        if not isinstance(answer.outcome, GroupList):
            raise error_of(answer.outcome, answer.term)
        return answer.outcome

    async def _about_stores(self, body: StoresBody, timeout_ms: int) -> StoresState:
        answer = await self._channel.ask(Request(0, timeout_ms, body))
        if not isinstance(answer.outcome, StoresState):
            raise error_of(answer.outcome, answer.term)
        return answer.outcome

    async def _about_flags(self, body: FlagBody, timeout_ms: int) -> FlagEnabled | FlagList:
        answer = await self._channel.ask(Request(0, timeout_ms, body))
        if not isinstance(answer.outcome, FlagEnabled | FlagList):
            raise error_of(answer.outcome, answer.term)
        return answer.outcome
