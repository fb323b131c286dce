"""Which faults links of the local backend can have, by how they are carried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from splitbrain.harness.contract import faultkinds
from splitbrain.harness.contract.faults import FaultKind, LinkFault, Support
from splitbrain.harness.contract.nodes import Link
from splitbrain.results.errors import FaultNotSupportedError

_BY_PROXY: Final[Mapping[FaultKind, str]] = {
    "delay": "the proxy passes on later what it receives",
    "rate": "the proxy passes on no faster what it receives",
    "reset": "the proxy resets its connections",
    "hold": "the proxy keeps what it receives",
}
_NOT_BY_PROXY: Final = "a proxy of TCP connections carries bytes, not packets"
_BY_QUEUE: Final = "NFQUEUE where the sender's packets leave its network namespace"


def support(links: str, problem: str | None, packets_problem: Callable[[], str | None]) -> Mapping[FaultKind, Support]:
    """Which kinds of fault of links work here, and how.

    Args:
        links: how they are carried, "namespaces" or "proxy".
        problem: why not by namespaces, None if they work.
        packets_problem: finds out why packets cannot be given faults in namespaces.
    """
    if links == "proxy":
        refused = Support(False, f"{_NOT_BY_PROXY}, and {problem}.")
        return {
            kind: Support(True, _BY_PROXY[kind]) if kind in _BY_PROXY else refused for kind in faultkinds.LINK_KINDS
        }
    problem = problem or packets_problem()
    found = Support(True, _BY_QUEUE) if problem is None else Support(False, f"{problem}.")
    return dict.fromkeys(faultkinds.LINK_KINDS, found)


def refuse_unsupported(links: str, faults: Mapping[Link, LinkFault]) -> None:
    """See that every fault is of kinds that can be had.

    Raises:
        FaultNotSupportedError: one is not.
    """
    wanted = [kind for fault in faults.values() for kind in faultkinds.of_link(fault)]
    refused = sorted({kind for kind in wanted if links == "proxy" and kind not in _BY_PROXY})
    if refused:
        raise FaultNotSupportedError(
            f"the local backend cannot do {', '.join(refused)} to links here: {_NOT_BY_PROXY}. Leave it out of "
            f"--nemesis, or run where network namespaces work (splitbrain doctor lists what works here)."
        )
