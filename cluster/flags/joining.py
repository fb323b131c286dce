"""How a node takes over which feature flags are enabled, when it joins (FF-3), or may not. Pure.

A change that the joining member takes no part in could be decided behind its back. So it asks a majority of the voters
of the configuration that it has in force. Each that has it in force too agrees to no change without it from then on; it
waits until none of those has a change under way, and takes over what any of them has enabled. One of them must have
joined completely itself: it took part in all changes since, and took over those before. Founders have, from the start.
"""

from __future__ import annotations

from splitbrain.cluster.flags.messages import AskInventory, Inventory
from splitbrain.cluster.flags.registry import Registry
from splitbrain.cluster.raft.messages import NodeId


class Joining:
    """What a node has heard from members before it takes part in changes.

    Args:
        token: of its questions.
    """

    def __init__(self, token: int) -> None:
        self._token = token
        self._heard: dict[NodeId, Inventory] = {}

    def asks(self, voters: tuple[NodeId, ...]) -> list[tuple[NodeId, AskInventory]]:
        """What is to be sent now, and again until it is known what is enabled: answers may change."""
        return [(voter, AskInventory(self._token)) for voter in voters]

    def heard(self, member: NodeId, inventory: Inventory) -> None:
        """A member answered; one that does not see this node as a member, or is changing a flag, is asked again."""
        if inventory.token != self._token:
            return
        if inventory.sees_member and not inventory.changing:
            self._heard[member] = inventory
        else:
            self._heard.pop(member, None)

    def enabled(self, voters: tuple[NodeId, ...]) -> tuple[str, ...] | None:
        """What is enabled in the cluster, sorted; None while that is not known."""
        answers = [self._heard[voter] for voter in voters if voter in self._heard]
        if 2 * len(answers) <= len(voters) or not any(answer.synchronised for answer in answers):
            return None
        return tuple(sorted({flag for answer in answers for flag in answer.enabled}))


def refusal(node: str, unknown: tuple[str, ...]) -> str:
    """Why a node cannot be a part of a cluster in which flags are enabled that it does not know."""
    flags = ", ".join(unknown)
    return (
        f"the feature flag{'s' if len(unknown) > 1 else ''} {flags} is enabled in this cluster, and the program of "
        f"{node} does not know it: start {node} with a later program"
    )


def unknown_of(enabled: tuple[str, ...], registry: Registry) -> tuple[str, ...]:
    """The enabled flags that a node does not know."""
    return tuple(flag for flag in enabled if flag not in registry)
