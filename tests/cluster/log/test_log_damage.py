"""A flipped bit in any file of a stopped node never changes an answer: the node has all that it reported, or refuses.

RA-34, RA-40, M42, M43.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter

import pytest

from splitbrain.cluster.errors import StorageError
from tests.cluster.log.test_log_random import World, follow_in, steps_of

DAMAGED = re.compile(r"^(node|wal|vote|segment|snapshot|checkpoint)[-0-9a-f]*, byte \d+: .*(Replace|replace) this node")


async def damaged(seed: int) -> str | None:
    """The name of the damaged file if the node refused to start."""
    rng = random.Random(seed)
    world = World(seed)
    await world.open()
    await follow_in(world, steps_of(seed))
    await world.stop()
    name = rng.choice(world.disk.names())
    content = bytearray(world.disk.read(name) or b"")
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    world.disk.put(name, bytes(content))
    try:
        await world.open()
        for group, model in world.models.items():
            world.compare(group, model)
        await world.stop()
    except StorageError as error:
        said = str(error)
    else:
        return None
    assert DAMAGED.match(said), said
    assert name in said
    return name


@pytest.mark.parametrize(
    "seeds", [range(250), pytest.param(range(250, 2_500), marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_a_flipped_bit_is_refused_with_file_and_byte_or_changes_nothing(seeds: range) -> None:
    refused: Counter[str] = Counter()
    for seed in seeds:
        try:
            found = asyncio.run(damaged(seed))
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        refused[str(found).partition("-")[0]] += 1
    assert {"node", "wal", "vote", "segment", "snapshot", "None"} <= set(refused)
