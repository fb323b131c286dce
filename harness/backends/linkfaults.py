"""Faults of links on their way to an agent: each with the seed from which the link's packets draw their fates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from splitbrain.harness.contract.faults import LinkFault
from splitbrain.harness.contract.nodes import Link
from splitbrain.harness.contract.rng import Streams

SEEDS = 2**32


class SeededFaults:
    """Seeds for the faults of one deployment. A link that keeps its fault keeps its seed, and so its counts."""

    def __init__(self) -> None:
        self._seeded: dict[Link, tuple[LinkFault, int]] = {}

    def request(self, faults: Mapping[Link, LinkFault], streams: Streams) -> list[tuple[str, str, dict[str, Any]]]:
        """The faults as an agent takes them: source, destination, and the fields of the fault with its seed."""
        before, self._seeded = self._seeded, {}
        for link in sorted(faults):
            known = before.get(link)
            if known is None or known[0] != faults[link]:
                known = faults[link], streams["packets/{}>{}".format(*link)].below(SEEDS)
            self._seeded[link] = known
        return [
            (source, destination, {**msgspec.structs.asdict(fault), "seed": seed})
            for (source, destination), (fault, seed) in self._seeded.items()
        ]
