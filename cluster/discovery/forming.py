"""A node that finds its cluster by itself: the shell around the state machine of formation, and around the node.

It serves the node's address from its start, carries out what `Formation` asks for, and starts the node behind the
address once it is known whether that founds a cluster or joins one. A node that is in a cluster already starts at once
(PD-3).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from splitbrain.cluster import wire
from splitbrain.cluster.bugs import M69
from splitbrain.cluster.discovery import formation
from splitbrain.cluster.discovery.backend import Backend, Listing
from splitbrain.cluster.discovery.book import Book
from splitbrain.cluster.discovery.calls import ask, ask_all, within
from splitbrain.cluster.discovery.formation import Effect, Event, Formation, Settings
from splitbrain.cluster.discovery.front import Front
from splitbrain.cluster.discovery.messages import (
    Accepted,
    AskCandidacy,
    AskFormation,
    AskProperties,
    AskVote,
    Done,
    FormationState,
    Refused,
    Reply,
    Request,
    ReturnVote,
    TakeIn,
)
from splitbrain.cluster.discovery.record import Kept, open_record
from splitbrain.cluster.discovery.registration import Registration
from splitbrain.cluster.discovery.seen import Peer, Properties
from splitbrain.cluster.discovery.takingin import MemberOf, TakingIn, other_data
from splitbrain.cluster.discovery.voter import Voter
from splitbrain.cluster.errors import DiscoveryError, FormationError
from splitbrain.cluster.members import names
from splitbrain.cluster.node import Node, NodeConfig
from splitbrain.cluster.runtime import Runtime

T = TypeVar("T")

ASK_MS: Final = 800
"""How long a node waits for what another says of itself: shorter than a pause between rounds."""

BACKEND_MS: Final = 10_000
"""How long a backend may take."""

TAKE_IN_MS: Final = 8_000
"""How long a cluster may take to make a node a member."""

STOP_MS: Final = 2_000
_LEARN_MS: Final = 5_000
_LOOK_MS: Final = 100
_MS: Final = 1_000_000
_PROCESS_MAX: Final = 2**62


class Forming:
    """One start of one node.

    Args:
        config: of the node. Its peers are those that are known from the beginning; founders are not looked at.
        settings: of the formation.
        runtime: of the node.
        backend: where other nodes are found.
        address: at which others reach this node.

    Attributes:
        node: the node, None before it is known which cluster it is in.
    """

    def __init__(
        self, config: NodeConfig, settings: Settings, runtime: Runtime, backend: Backend, address: tuple[str, int]
    ) -> None:
        self._config = config
        self._settings = settings
        self._runtime = runtime
        self._backend = backend
        self._peer = Peer(config.node, address)
        self._process = runtime.rng.between(0, _PROCESS_MAX)
        self._start_ns = runtime.clock.wall_ns()
        self._front = Front(runtime, self._answer)
        self._formation: Formation | None = None
        self._waiting: list[TakeIn] = []
        self._registration = Registration(runtime, backend, BACKEND_MS, settings.retry_ms)
        self._stopping = False
        self._kept: Kept
        self._book: Book
        self._taking_in: TakingIn
        self._voter: Voter
        self.node: Node | None = None

    async def start(self) -> None:
        """Serve the address, and begin to look for a cluster, or go on in that of before; returns when it listens.

        Whether a cluster was found shows later: a FormationError ends a task of the runtime if there is none.

        Raises:
            StorageError: the data directory cannot be used.
            OSError: the disk failed, or the address cannot be served.
        """
        self._kept = await open_record(self._runtime.disk, self._runtime.rng)
        self._book = Book(self._runtime, self._kept, self._peer, self._config.peers)
        self._taking_in = TakingIn(self._runtime, self._book)
        self._voter = Voter(
            self._runtime,
            self._kept,
            self._config.node,
            self._settings.nodes,
            self._process,
            self._book.addresses,
            ASK_MS,
            lambda: 0 if self._formation is None else self._formation.round,
        )
        await self._voter.begin()
        await self._front.open(self._config.listen)
        record = self._kept.record
        if record.was_used:
            await self._begin(self._config.founders)
        elif record.founded:
            await self._begin((self._config.node,))
        elif record.joined:
            await self._begin(record.joined)
        self._runtime.spawn(self._look(), "formation")

    async def stop(self) -> None:
        """Leave the backend, and write last checkpoints; the runtime's tasks are to be cancelled right after this."""
        self._stopping = True
        if self._formation is not None:
            await self._carry_out(self._formation.handle(formation.Stopped()))
        for what, begin in (("unlock", self._backend.unlock), ("unregister", self._registration.end)):
            try:
                await within(self._runtime, f"{what} at {self._backend.name}", STOP_MS, begin)
            except DiscoveryError as error:
                self._runtime.log(f"error: {error}")
        if self.node is not None:
            await self.node.stop()

    @property
    def properties(self) -> Properties:
        """What the node says of itself."""
        if self.node is None:
            return Properties(self._config.node, self._start_ns)
        found = self.node.members()
        members = names((*found.members, *found.learners))
        if self._config.node not in members or self._config.member not in (*found.members, *found.learners):
            return Properties(self._config.node, self._start_ns)
        ready = self.node.status().leader is not None
        return Properties(self._config.node, self._start_ns, members, self._founders(), ready)

    # --- the machine ------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        try:
            await within(self._runtime, f"init of {self._backend.name}", BACKEND_MS, self._backend.init)
        except DiscoveryError as error:
            self._runtime.log(f"error: {error}")  # each call to it will say so again (RabbitMQ goes on, too)
        if self.properties.members:
            if self._backend.registers:
                self._runtime.spawn(self._registration.keep(anew=True), "registration")
            self._runtime.spawn(self._learn(), "addresses")
            return
        settings = dataclasses.replace(self._settings, registers=self._backend.registers)
        may_found = self._kept.may_found and not self._config.incarnation
        self._formation = Formation(settings, self._runtime.rng, may_found=may_found)
        await self._carry_out(self._formation.start())

    async def _happened(self, event: Event) -> None:
        assert self._formation is not None, "an event came before the formation began"
        if self._stopping:
            return
        await self._carry_out(self._formation.handle(event))

    async def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case formation.Found():
                    await self._found()
                case formation.Complete():
                    self._complete()
                case formation.GiveUp(message):
                    raise FormationError(message)
                case formation.Unregister():
                    pass  # `stop` does, and waits for it
                case formation.ReturnVotes(round, peers) if self._formation is None or self._formation.over:
                    await self._return_votes(round, peers)  # this process may end next
                case _:
                    self._runtime.spawn(self._task_of(effect), "formation")

    def _task_of(self, effect: Effect) -> Coroutine[Any, Any, None]:
        """What carries out an effect, and has the machine hear of it."""
        match effect:
            case formation.Register(round):
                return self._ask_backend(round, "registration at", self._registration.begin, self._is_registered)
            case formation.Discover(round):
                return self._ask_backend(round, "list of", self._backend.list_nodes, self._listed)
            case formation.Query(round, peers):
                return self._query(round, peers)
            case formation.AskVotes(round, peers):
                return self._ask_votes(round, peers)
            case formation.ReturnVotes(round, peers):
                return self._return_votes(round, peers)
            case formation.Lock(round, peers):
                return self._ask_backend(round, "lock of", lambda: self._backend.lock(peers), self._locked)
            case formation.Unlock():
                return self._unlock()
            case formation.Join(round, target, properties):
                return self._join(round, target, properties)
            case formation.Wait(round, delay_ms):
                return self._wait(round, delay_ms)
            case _:
                raise AssertionError(f"{effect} takes no time")

    async def _ask_backend(
        self, round: int, what: str, begin: Callable[[], Awaitable[T]], event: Callable[[int, T], Event]
    ) -> None:
        def too_late(result: T) -> None:
            if result is True:  # a lock, which is not waited for any more
                self._runtime.spawn(self._unlock(), "formation")

        try:
            result = await within(self._runtime, f"{what} {self._backend.name}", BACKEND_MS, begin, too_late)
        except DiscoveryError as error:
            await self._happened(formation.Failed(round, str(error)))
        else:
            await self._happened(event(round, result))

    def _is_registered(self, round: int, _: None) -> Event:
        # From now on: the formation may take longer than a registration lasts.
        self._runtime.spawn(self._registration.keep(anew=False), "registration")
        return formation.Registered(round)

    def _locked(self, round: int, _: bool) -> Event:
        return formation.Locked(round)

    def _listed(self, round: int, listing: Listing) -> Event:
        self._book.learn(listing.peers)
        return formation.Discovered(round, listing.peers, listing.founder)

    async def _wait(self, round: int, delay_ms: int) -> None:
        assert self._formation is not None, "a machine waits that is none"
        self._runtime.log(f"no cluster yet, attempt {round}: {self._formation.problem}")
        await self._runtime.clock.sleep(delay_ms * _MS)
        await self._happened(formation.Woken(round))

    async def _query(self, round: int, peers: tuple[Peer, ...]) -> None:
        asked = {peer.name: peer.address for peer in peers}
        replies = await ask_all(self._runtime, asked, AskProperties(), ASK_MS)
        # One that answers under another name is at an address that the backend has wrong.
        found = (reply for name, reply in replies.items() if isinstance(reply, Properties) and reply.name == name)
        own = replies.get(self._config.node)
        if isinstance(own, Properties) and own.name == self._config.node and own.start_ns != self._start_ns:
            problem = f"another node answers as {own.name} at the address that the backend has of it"
            await self._happened(formation.Failed(round, f"{problem}: give each node a name of its own"))
            return
        await self._happened(formation.Queried(round, tuple(found)))

    async def _ask_votes(self, round: int, peers: tuple[Peer, ...]) -> None:
        asked = {peer.name: peer.address for peer in peers}
        request = AskVote(self._voter.ballot(round), self._settings.nodes)
        replies = await ask_all(self._runtime, asked, request, ASK_MS)
        granted = tuple(name for name, reply in replies.items() if isinstance(reply, Done))
        refused = tuple(reply.reason for reply in replies.values() if isinstance(reply, Refused))
        await self._happened(formation.Voted(round, granted, refused))

    async def _return_votes(self, round: int, peers: tuple[Peer, ...]) -> None:
        asked = {peer.name: peer.address for peer in peers}
        await ask_all(self._runtime, asked, ReturnVote(self._voter.ballot(round)), ASK_MS)

    # --- the cluster ------------------------------------------------------------------------------------------

    def _founders(self) -> tuple[str, ...]:
        record = self._kept.record
        return (self._config.node,) if record.founded else record.joined or self._config.founders

    async def _begin(self, founders: tuple[str, ...]) -> None:
        """Start the node behind the address."""
        config = dataclasses.replace(self._config, peers=self._book.addresses, founders=founders)
        node = Node(config, dataclasses.replace(self._runtime, network=self._front))
        await node.start()
        self.node = node

    async def _found(self) -> None:
        await self._kept.found()
        self._runtime.log(f"{self._config.node} founds the cluster, of {self._settings.nodes} nodes")
        await self._begin((self._config.node,))
        self._complete()
        if self._waiting:
            self._runtime.spawn(self._take_in_waiting(), "formation")

    async def _take_in_waiting(self) -> None:
        """What a node with M69 accepted before it founded the cluster."""
        while not self.properties.ready:
            await self._runtime.clock.sleep(_LOOK_MS * _MS)
        for request in self._waiting:
            await self._take_in(request)

    async def _join(self, round: int, target: Peer, properties: Properties) -> None:
        again = bool(self._kept.record.joined)
        if self._config.node in properties.members and not again:
            raise FormationError(f"{other_data(self._config.node)}.")
        try:
            if self.node is None:
                await self._book.learn_from(target)
                known = [name for name in properties.founders if name in self._book.addresses]
                founders = (known[0] if known else target.name,)
                if properties.members:  # only with M69 a node joins one that is in no cluster
                    await self._kept.join(founders)
                await self._begin(founders)
            request = TakeIn(self._peer, self._config.member, again)
            reply = await ask(self._runtime, target.address, request, TAKE_IN_MS + ASK_MS)
            if isinstance(reply, Refused) and reply.reason == other_data(self._config.node):
                await self._kept.join(())  # or its next attempt would pass for one of the member
                raise FormationError(f"{reply.reason}.")
            if isinstance(reply, Refused):
                raise DiscoveryError(f"{target.name} does not take this node in: {reply.reason}")
            if not isinstance(reply, Accepted):
                await self._until_member(target)
        except DiscoveryError as error:
            await self._happened(formation.Failed(round, str(error)))
        else:
            await self._happened(formation.Joined(round))

    async def _until_member(self, target: Peer) -> None:
        for _ in range(TAKE_IN_MS // _LOOK_MS):
            if self.properties.members:
                return
            await self._runtime.clock.sleep(_LOOK_MS * _MS)
        host, port = self._peer.address
        raise DiscoveryError(
            f"{target.name} took this node in, and its cluster does not reach it at {host}:{port}: "
            f"see --discovery-address"
        )

    def _complete(self) -> None:
        self._runtime.log(f"is in the cluster of {', '.join(self.properties.members)}")
        self._runtime.spawn(self._learn(), "addresses")

    async def _learn(self) -> None:
        """For ever: learn the addresses of members that joined by way of others."""
        while True:
            await self._runtime.clock.sleep(_LEARN_MS * _MS)
            await self._book.complete(self.properties.members)

    # --- the backend ------------------------------------------------------------------------------------------

    async def _unlock(self) -> None:
        try:
            await within(self._runtime, f"unlock at {self._backend.name}", BACKEND_MS, self._backend.unlock)
        except DiscoveryError as error:
            self._runtime.log(f"error: {error}")  # it ends with this node's session

    # --- others -----------------------------------------------------------------------------------------------

    async def _answer(self, request: Request) -> Reply:
        match request:
            case AskProperties():
                return self.properties
            case AskFormation():
                return self._state()
            case AskVote():
                return await self._voter.asked(request)
            case AskCandidacy(ballot):
                return self._voter.candidacy(ballot)
            case ReturnVote(ballot):
                await self._kept.take_back(ballot)
                return Done()
            case TakeIn():
                return await self._take_in(request)
            case _:
                return self._book.answer(request)

    def _state(self) -> FormationState:
        members, formation = self.properties.members, self._formation
        is_done = bool(members) or (formation is not None and formation.over)
        problem = "" if formation is None else formation.problem
        return FormationState("done" if is_done else "looks", self._kept.record.founded, members, problem)

    async def _take_in(self, request: TakeIn) -> Reply:
        own = self.properties
        if self.node is None or not own.ready:
            if M69 in self._settings.bugs:
                self._waiting.append(request)
                return Accepted()
            return Refused(f"{self._config.node} is in no cluster, or knows no leader")
        node = self.node
        change = wire.AddMember(request.member, "promotable")
        found = node.members()
        member_of: MemberOf = (own.members, (*found.members, *found.learners))
        return await self._taking_in.answer(request, member_of, lambda answer: node.take_in(change, TAKE_IN_MS, answer))
