"""Which operations may be carried out twice: then a call that may have been is repeated (M2K-1).

May be repeated: what leaves the same, and answers the same, when it comes a second time. To declare does: the second
time it gets what the first one made, or what has come since (`CREATE_OR_GET`). Whether something was there differs, and
so does the error that it exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from splitbrain.cluster.entities import (
    bindings,
    exchanges,
    maintenance,
    parameters,
    permissions,
    policies,
    queues,
    topology,
    users,
    vhosts,
)
from splitbrain.cluster.entities.store import Operation

IDEMPOTENT: Final[Mapping[Operation, bool]] = {
    vhosts.PUT: True,
    vhosts.DELETE: False,  # the second time there is none
    users.ADD: False,  # the second time there is one
    users.CHANGE: True,
    users.DELETE: False,
    permissions.SET: True,
    permissions.CLEAR: False,  # whether something was permitted
    permissions.SET_TOPIC: True,
    permissions.CLEAR_TOPIC: False,
    exchanges.DECLARE: True,
    exchanges.DELETE: False,
    queues.DECLARE: True,
    queues.DELETE: False,
    queues.SELECT: True,
    queues.DELETE_UNCHANGED: False,  # the second time there may be another queue that looks the same
    queues.DELETE_BY_VERSION: False,
    bindings.LOOK: True,
    bindings.ADD: False,  # whether it is new
    bindings.REMOVE: False,
    parameters.SET: True,
    parameters.CLEAR: False,
    parameters.SET_GLOBAL: True,
    parameters.CLEAR_GLOBAL: False,
    policies.SET: True,
    policies.CLEAR: False,
    maintenance.SET: False,  # whether it was another one
    maintenance.DRAINED: True,
    topology.READ: True,
    topology.READ_ALL: True,
}
"""Of every operation. One that is not here may not be repeated."""

CREATE_OR_GET: Final = frozenset({vhosts.PUT, exchanges.DECLARE, queues.DECLARE})
"""They answer with the entity that is there. One that differs from what was declared has come since a first attempt
that may have made it: the caller would take that for a refusal."""
