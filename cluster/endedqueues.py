"""Queues that end with a life of their node, or with a connection: who removes their records then (DB-5, DB-6).

A transient queue lives in the process of its node, an exclusive one as long as its connection. Their records are in
the cluster's store, and outlive both, if the node died or could reach no majority. So each node looks once a second
whether there are records of former lives of its own, or of connections that it has no more, and the leader of the
metadata store whether there are any of nodes that have left the cluster. Those of a node that is taken for down stay:
it may be cut off alone, and its queues serve on (rabbitmq-server #12597, #12949, pull request #14573).

Without such records a node sends nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Final, Protocol

from splitbrain.cluster.bugs import M59, Bugs
from splitbrain.cluster.entities import queues
from splitbrain.cluster.entities.inforce import RecordsInForce
from splitbrain.cluster.entities.paths import QUEUES
from splitbrain.cluster.entities.records import Queue
from splitbrain.cluster.entities.store import MetadataStore
from splitbrain.cluster.errors import ClientError
from splitbrain.cluster.lives import connection_of, life_of
from splitbrain.cluster.tree import Children, Names, Tree
from splitbrain.cluster.wire import ClientAddress

TIMEOUT_MS: Final = 2_000
"""How long one request may take; what was not done is tried again a second later at the soonest."""


class Host(Protocol):
    """The node, as far as its queues need it."""

    def is_connected(self, client: ClientAddress, /) -> bool:
        """Whether a client of this life of the node is connected still."""
        ...

    def may_have_queues(self) -> Collection[str] | None:
        """The nodes of which there may be records, if it is for this node to remove those of others, else None."""
        ...

    def is_down(self, node: str, /) -> bool:
        """Whether another node is taken for down."""
        ...


class EndedQueues:
    """What one node does about records of queues that have ended.

    Args:
        node: its name.
        life: distinguishes this process from the node's earlier ones.
        host: the node.
        entities: those in force, as this node has them.
        store: of entities, as a client of this node has it.
        spawn: runs a task, with its name.
        bugs: those that are switched on.
    """

    def __init__(
        self,
        node: str,
        life: int,
        host: Host,
        entities: RecordsInForce,
        store: MetadataStore,
        spawn: Callable[[Awaitable[None], str], None],
        bugs: Bugs,
    ) -> None:
        self._node = node
        self._life = life
        self._host = host
        self._entities = entities
        self._store = store
        self._spawn = spawn
        self._takes_down_for_gone = M59 in bugs
        self._removes = False
        self._seen: object = None  # by what it is known whether any record came or went
        self._passing: tuple[Queue, ...] = ()

    def tick(self, tree: Tree) -> None:
        """Look whether a queue has ended, and have its record removed."""
        if self._removes:
            return
        self._look(tree)
        lives, owners = self._ended()
        if lives or owners:
            self._removes = True
            self._spawn(self._remove(lives, owners), "removal of queues that ended")

    def _look(self, tree: Tree) -> None:
        """See which queues there are that end with a life or a connection; their records never change in place."""
        vhosts = _names(tree)
        versions = [(each, tree.properties((*QUEUES, each))) for each in vhosts]
        above = tree.properties(QUEUES)
        seen = (
            self._entities.changes,
            None if above is None else above.child_list_version,
            [(each, None if found is None else found.child_list_version) for each, found in versions],
        )
        if seen != self._seen:
            self._seen = seen
            self._passing = tuple(each for each in self._records(tree, vhosts) if life_of(each.node) is not None)

    def _records(self, tree: Tree, vhosts: Collection[str]) -> Iterator[Queue]:
        beside = self._entities.beside_tree(tree, QUEUES)
        values = (
            (value for vhost in vhosts for value in self._entities.below(tree, (*QUEUES, vhost)))
            if beside is None
            else beside
        )
        return queues.of_records(values)

    def _ended(self) -> tuple[list[str], list[str]]:
        """The lives of nodes whose transient queues have ended, and the connections that have."""
        if not self._passing:
            return [], []
        nodes = self._host.may_have_queues()
        lives: dict[str, None] = {}
        owners: dict[str, None] = {}
        for queue in self._passing:
            has_ended = self._has_ended(queue.node, nodes)
            if has_ended and not queue.durable:
                lives[queue.node] = None
            elif queue.owner is not None and (has_ended or self._is_without_connection(queue.owner)):
                owners[queue.owner] = None
        return list(lives), list(owners)

    def _has_ended(self, place: str, nodes: Collection[str] | None) -> bool:
        found = life_of(place)
        if found is None:
            return False
        node, life = found
        if node == self._node:
            return life != self._life
        if self._takes_down_for_gone and self._host.is_down(node):
            return True
        return nodes is not None and node not in nodes

    def _is_without_connection(self, owner: str) -> bool:
        client = connection_of(owner)
        return client is not None and client.node == self._node and not self._host.is_connected(client)

    async def _remove(self, lives: Collection[str], owners: Collection[str]) -> None:
        try:
            for life in lives:
                await queues.delete_transient(self._store, life)
            for owner in owners:
                await queues.delete_exclusive(self._store, owner)
        except ClientError:
            pass  # what is left is seen by the next look
        finally:
            self._removes = False


def _names(tree: Tree) -> tuple[str, ...]:
    found = tree.query(Children(QUEUES))
    return tuple(found.names) if isinstance(found, Names) else ()
