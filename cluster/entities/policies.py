"""Policies: settings of the queues and exchanges of a virtual host whose names match a regular expression.

One policy counts for an entity: of those that match, the one of the highest priority, of equals the first by name. An
operator's policy counts beside it. What an entity was declared with the caller puts first (documents S001, S003).
Of a number that both policies set the smaller counts where it is a limit, the larger where it is a number of replicas.
"""

# A transaction reads values of any shape.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

import msgspec

from splitbrain.cluster.entities.checking import checked
from splitbrain.cluster.entities.expressions import checked_expression, is_found
from splitbrain.cluster.entities.names import node_name
from splitbrain.cluster.entities.needs import found_or_abort
from splitbrain.cluster.entities.paths import OPERATOR_POLICIES, POLICIES, THERE, VHOSTS
from splitbrain.cluster.entities.records import AppliesTo, DestinationKind, Policy
from splitbrain.cluster.entities.store import MetadataStore, Operation
from splitbrain.cluster.errors import InvalidRequestError
from splitbrain.cluster.streams.retention import MAX_AGE, age_ms

SET: Final = Operation("policy_set", 1)
CLEAR: Final = Operation("policy_clear", 1)
TABLE: Final = "policies_v1"
OPERATOR_TABLE: Final = "operator_policies_v1"

LIMITS: Final = ("delivery-limit", "expires", "max-length", "max-length-bytes", "message-ttl")
REPLICAS: Final = ("target-group-size",)
_LEAST: Final = {"delivery-limit": -1}
"""Of settings that may be negative: -1 is no limit (QQ-3)."""


def set_policy(tx: Any, data: Any) -> Any:
    """Set a policy of a virtual host, which keeps it."""
    vhost = (*VHOSTS, data["vhost"])
    found_or_abort(tx, vhost, "vhost", data["record"]["vhost"])
    tx.put(_path(data), data["record"], keep_while=[(vhost, THERE)])
    return None


def clear_policy(tx: Any, data: Any) -> Any:
    """Remove a policy; whether there was one."""
    path = _path(data)
    was_there = tx.exists(path)
    tx.delete(path)
    return was_there


def _path(data: Any) -> Any:
    above = OPERATOR_POLICIES if data["operator"] else POLICIES
    return (*above, data["vhost"], data["name"])


FUNCTIONS: Final = ((SET, set_policy), (CLEAR, clear_policy))


async def put(
    store: MetadataStore,
    vhost: str,
    name: str,
    pattern: str,
    definition: Mapping[str, Any],
    *,
    priority: int = 0,
    apply_to: AppliesTo = "all",
    operator: bool = False,
) -> Policy:
    """Set a policy, or with `operator` one of the operator.

    Raises:
        EntityNotFoundError: there is no such virtual host.
        InvalidRequestError: the expression is not in order, the definition is empty, a limit in it is no number, or it
            cannot apply to that.
    """
    if not definition or apply_to not in get_args(AppliesTo):
        problem = f"it needs a setting, and applies to one of {', '.join(get_args(AppliesTo))}"
        raise InvalidRequestError(f"invalid_policy: {name!r}: {problem}.")
    record = checked(Policy(vhost, name, pattern, dict(definition), priority, apply_to))
    checked_expression(pattern)
    for setting in (*LIMITS, *REPLICAS):
        if setting in definition and not _is_number(definition[setting], least=_LEAST.get(setting, 0)):
            raise InvalidRequestError(f"invalid_policy: {name!r}: {setting} is a whole number, not negative.")
    if MAX_AGE in definition and age_ms(definition[MAX_AGE]) is None:
        raise InvalidRequestError(f"invalid_policy: {name!r}: {MAX_AGE} is a number and one of Y, M, D, h, m, s: 7D.")
    await store.change(SET, {**_named(vhost, name, operator=operator), "record": record})
    return record


async def clear(store: MetadataStore, vhost: str, name: str, *, operator: bool = False) -> bool:
    """Remove a policy; whether there was one."""
    return await store.change(CLEAR, _named(vhost, name, operator=operator))


async def every(store: MetadataStore, *, operator: bool = False) -> list[Policy]:
    """All of them, as the member that is asked holds them."""
    found = await store.records(OPERATOR_TABLE if operator else TABLE)
    return [msgspec.convert(value, Policy) for _, value in found]


def effective(
    kind: DestinationKind, name: str, policies: Iterable[Policy], operator_policies: Iterable[Policy] = ()
) -> dict[str, Any]:
    """The settings of an entity by these policies of its virtual host."""
    user, operator = (_definition(kind, name, each) for each in (policies, operator_policies))
    merged = {**user, **operator}
    for settings, choose in ((LIMITS, min), (REPLICAS, max)):
        for setting in settings:
            if setting in user and setting in operator:
                given = (user[setting], operator[setting])
                # A negative one is none: what an operator limits stays limited.
                merged[setting] = choose([each for each in given if each >= 0] or given)
    return merged


def _is_number(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _definition(kind: DestinationKind, name: str, policies: Iterable[Policy]) -> Mapping[str, Any]:
    matching = [
        policy for policy in policies if policy.apply_to in ("all", f"{kind}s") and is_found(policy.pattern, name)
    ]
    first = min(matching, key=lambda policy: (-policy.priority, policy.name), default=None)
    return {} if first is None else first.definition


def _named(vhost: str, name: str, *, operator: bool) -> dict[str, Any]:
    return {"vhost": node_name(vhost), "name": node_name(name), "operator": operator}
