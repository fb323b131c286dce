"""What nemeses at moments share: which moments a request waits for, how they are drawn, and how a node is hit at one.

How often a mark is passed is not known when it is drawn. So a request waits for several moments, and no longer than
some seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from splitbrain.harness.contract.magnitudes import Bounds
from splitbrain.harness.contract.moments import AFTER_US, OCCURRENCE, Act, HearsMarks, Moment, Passed
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis.draws import magnitude
from splitbrain.results.errors import NemesisError, UsageError

WITHIN_MS: Final = Bounds(1, 20_000, "ms")
"""How long an op may wait: it times out after half a minute, and what follows takes time too."""

MOMENTS_MAX: Final = 100
"""The largest number of moments for which an op waits."""

_OFTEN: Final = 1 / 2
"""The probability that a drawn moment is another occurrence later, up to `_OCCURRENCES`."""

_OCCURRENCES: Final = 20

_AT_ONCE: Final = 1 / 3
"""The share of drawn moments at which the fault follows at once."""

_LATER_US: Final = (10, 20_000)
"""How much later it follows otherwise: about as long as messages and syncs take."""

_MS: Final = 1_000_000


def draw(marks: Sequence[str], rng: Rng) -> dict[str, Any]:
    """A random moment, on any node, as a request has it."""
    mark, occurrence = rng.choice(marks), 1
    while occurrence < _OCCURRENCES and rng.random() < _OFTEN:
        occurrence += 1
    after_us = 0 if rng.random() < _AT_ONCE else magnitude(rng, *_LATER_US)
    return {"mark": mark, "occurrence": occurrence, "after_us": after_us}


def check(f: str, moments: Sequence[Moment], within_ms: int, nodes: Sequence[NodeId]) -> None:
    """Refuse moments that are not possible.

    Args:
        f: the function of the op.
        moments: those that it waits for.
        within_ms: how long it waits.
        nodes: of the test.

    Raises:
        UsageError: there are none, or too many, or one names a node that is not in the test or has a wrong figure.
    """
    if not 1 <= len(moments) <= MOMENTS_MAX:
        raise UsageError(f'{f} needs 1 to {MOMENTS_MAX} moments, such as {{"mark": "vote granted"}}.')
    for moment in moments:
        if moment.node is not None and moment.node not in nodes:
            raise UsageError(f"{f}: a moment names {moment.node!r}; the nodes are {', '.join(nodes)}.")
        for problem in (
            OCCURRENCE.problem("occurrence", moment.occurrence, whole=True),
            AFTER_US.problem("after_us", moment.after_us, whole=True),
        ):
            if problem is not None:
                raise UsageError(f"{f}: {problem}")
    if problem := WITHIN_MS.problem("within_ms", within_ms, whole=True):
        raise UsageError(f"{f}: {problem}")


async def at_moment(context: NemesisContext, moments: Sequence[Moment], act: Act, within_ms: int) -> Passed | None:
    """Wait for the first of some moments, and act on its node; None if none came in time.

    Raises:
        NemesisError: the deployment does not know which marks its nodes pass.
    """
    deployment = context.deployment
    if not isinstance(deployment, HearsMarks):
        raise NemesisError("this backend does not hear which marks nodes pass.")
    return await deployment.at_moment(moments, act, within_ms * _MS)
