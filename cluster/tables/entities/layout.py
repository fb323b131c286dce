"""The tables of entities, as RabbitMQ has them in Mnesia (DB-7), and the keys of their records.

    rabbit_vhost                    V                    a record
    rabbit_user                     U                    a record
    rabbit_user_permission          V/U                  a record
    rabbit_topic_permission         V/X/U                a record
    rabbit_exchange                 V/X                  a record
    rabbit_queue                    V/Q                  a record
    rabbit_route                    V/X/KIND/END/KEY     a bag: a record for each binding
    rabbit_reverse_route            V/KIND/END           a bag: keys of rabbit_route
    rabbit_index_route              V/X/KEY              a bag: [KIND, END, ARGUMENTS]; not of topic and headers
    rabbit_topic_trie_edge          V/X/NODE WORD        [CHILD, COUNT]
    rabbit_topic_trie_binding       V/X/NODE             a bag: [KIND, END, ARGUMENTS]
    rabbit_runtime_parameters       V/COMPONENT/NAME     a record; policies have components of their own
                                    NAME                 a record: of the whole cluster
    rabbit_node_maintenance_states  NODE                 a record

Parts of a key are names of tree nodes (`splitbrain.cluster.entities.names`), which have no slash in them; only the last
part of a key of the trie is words, as they are. The durable twins of Mnesia (`rabbit_durable_queue` and the like) are
missing: here all tables are on disk, and nothing is made anew from the twins.
"""

from __future__ import annotations

from typing import Final

from splitbrain.cluster.tables.records import Item
from splitbrain.cluster.tree import symbol

VHOST: Final = "rabbit_vhost"
USER: Final = "rabbit_user"
USER_PERMISSION: Final = "rabbit_user_permission"
TOPIC_PERMISSION: Final = "rabbit_topic_permission"
EXCHANGE: Final = "rabbit_exchange"
QUEUE: Final = "rabbit_queue"
ROUTE: Final = "rabbit_route"
REVERSE_ROUTE: Final = "rabbit_reverse_route"
INDEX_ROUTE: Final = "rabbit_index_route"
TRIE_EDGE: Final = "rabbit_topic_trie_edge"
TRIE_BINDING: Final = "rabbit_topic_trie_binding"
PARAMETERS: Final = "rabbit_runtime_parameters"
MAINTENANCE: Final = "rabbit_node_maintenance_states"

OF_VHOSTS: Final = (
    *(USER_PERMISSION, TOPIC_PERMISSION, PARAMETERS, QUEUE),
    *(ROUTE, REVERSE_ROUTE, INDEX_ROUTE, TRIE_EDGE, TRIE_BINDING, EXCHANGE),
)
"""The tables whose keys begin with a virtual host, but for parameters of the cluster."""

ENTITY_TABLES: Final = (VHOST, USER, *OF_VHOSTS, MAINTENANCE)

POLICY: Final = symbol("policy")
OPERATOR_POLICY: Final = symbol("operator_policy")
"""Components that no parameter can have: theirs are names of texts."""

ALL_VHOSTS: Final = Item(VHOST, "")
ALL_USERS: Final = Item(USER, "")
ALL_GLOBAL_PARAMETERS: Final = Item(PARAMETERS, "")
ALL_MAINTENANCE: Final = Item(MAINTENANCE, "")
"""Locks without records: on which there are of these kinds. Who changes one of the last two kinds holds its lock."""


def key(*parts: str) -> str:
    """The key of these names."""
    return "/".join(parts)
