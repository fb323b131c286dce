"""Nodes of the metadata cluster and of its tables inside this process: the runtime that they live on."""

from __future__ import annotations

from splitbrain.cluster.embedded import Runtime
from splitbrain.harness.contract.embedding import NodeWorld


def runtime_on(world: NodeWorld) -> Runtime:
    """The runtime of a node on the world that a simulation, or a test, gives it."""
    return Runtime(
        clock=world.clock,
        rng=world.rng,
        network=world.network,
        disk=world.disk,
        spawn=world.spawn,
        telemetry=world.telemetry,
        log=world.log,
        last_words=world.last_words,
        stops=world.stops,
        applied=world.applied,
        waker=world.waker,
        resume=world.resume,
    )
