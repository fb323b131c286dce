"""The delivery limit of a classic queue: by argument, policy and operator policy; the lowest one counts (CQ-6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from splitbrain.cluster.errors import InvalidRequestError

ARGUMENT: Final = "x-delivery-limit"
SETTING: Final = "delivery-limit"
MODE: Final = "x-queue-mode"
MODE_SETTING: Final = "queue-mode"


def delivery_limit(
    arguments: Mapping[str, Any],
    policy: Mapping[str, Any] | None = None,
    operator_policy: Mapping[str, Any] | None = None,
) -> int | None:
    """How often a message of a queue may be delivered again; None for no limit, as by a number below 0.

    A queue that a policy makes lazy has none either; the argument that says its mode goes before a policy.

    Args:
        arguments: that the queue was declared with.
        policy: the definition that counts for it; or of both, as `entities.policies.effective` joins them.
        operator_policy: the definition of the operator's policy that counts for it.

    Raises:
        InvalidRequestError: the argument is no whole number, or the queue is lazy: those have no limit (S003).
    """
    declared = arguments.get(ARGUMENT)
    if declared is not None and (isinstance(declared, bool) or not isinstance(declared, int)):
        raise InvalidRequestError(f"{ARGUMENT} is a whole number, not {declared!r}.")
    if MODE in arguments and arguments[MODE] != "default":
        if declared is not None:
            raise InvalidRequestError(
                f"{ARGUMENT}: a queue of {MODE} {arguments[MODE]!r} has no delivery limit: leave one of them out."
            )
        return None
    if MODE not in arguments and (policy or {}).get(MODE_SETTING, "default") != "default":
        return None
    given = (declared, (policy or {}).get(SETTING), (operator_policy or {}).get(SETTING))
    return min((limit for limit in given if limit is not None and limit >= 0), default=None)
