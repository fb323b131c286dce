"""Where entities stand in the tree (DB-1, D2): an entity of a virtual host below a node of that host's name.

    /:rabbit/:vhosts/V
    /:rabbit/:users/U
    /:rabbit/:permissions/V/U
    /:rabbit/:topic_permissions/V/X/U
    /:rabbit/:exchanges/V/X
    /:rabbit/:queues/V/Q
    /:rabbit/:bindings/V/X/KIND/DESTINATION/KEY      KIND is :queue or :exchange
    /:rabbit/:policies/V/NAME, /:rabbit/:operator_policies/V/NAME
    /:rabbit/:runtime_params/V/COMPONENT/NAME
    /:rabbit/:global_params/NAME
    /:rabbit/:maintenance/NODE

What belongs to something else is kept by it (KH-7), and goes in the command that removes that: all of a virtual host
with it, permissions with their user, bindings with either end (DB-2). Nodes in between are implicit, and leave nothing
behind (D14). (RabbitMQ 4 nests all of a virtual host below its node; the project's documents do not.)
"""

from __future__ import annotations

from typing import Final

from splitbrain.cluster import draining
from splitbrain.cluster.tree import IfNodeExists

VHOSTS: Final = (":rabbit", ":vhosts")
USERS: Final = (":rabbit", ":users")
PERMISSIONS: Final = (":rabbit", ":permissions")
TOPIC_PERMISSIONS: Final = (":rabbit", ":topic_permissions")
EXCHANGES: Final = (":rabbit", ":exchanges")
QUEUES: Final = (":rabbit", ":queues")
BINDINGS: Final = (":rabbit", ":bindings")
POLICIES: Final = (":rabbit", ":policies")
OPERATOR_POLICIES: Final = (":rabbit", ":operator_policies")
RUNTIME_PARAMS: Final = (":rabbit", ":runtime_params")
GLOBAL_PARAMS: Final = (":rabbit", ":global_params")
MAINTENANCE: Final = draining.PATH

THERE: Final = IfNodeExists(True)
"""What keeps a node: that another one is there."""
