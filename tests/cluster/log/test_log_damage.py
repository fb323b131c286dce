"""A flipped bit in any file of a stopped node never changes an answer: the node has all that it reported, or refuses.

RA-34, RA-40, M42, M43.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.errors import StorageError
from tests.cluster.log.test_log_random import STEPS, World, follow_in

DAMAGED = re.compile(r"^(node|wal|vote|segment|snapshot|checkpoint)[-0-9a-f]*, byte \d+: .*(Replace|replace) this node")


async def damaged(steps: Sequence[tuple[Any, ...]], seed: int, draw: st.DataObject) -> None:
    world = World(seed)
    await world.open()
    await follow_in(world, steps)
    await world.stop()
    name = draw.draw(st.sampled_from(world.disk.names()))
    content = bytearray(world.disk.read(name) or b"")
    content[draw.draw(st.integers(0, len(content) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    world.disk.put(name, bytes(content))
    try:
        await world.open()
        for group, model in world.models.items():
            world.compare(group, model)
        await world.stop()
    except StorageError as error:
        said = str(error)
    else:
        return
    assert DAMAGED.match(said), said
    assert name in said


@given(st.lists(STEPS, max_size=30), st.integers(0, 2**32), st.data())
def test_a_flipped_bit_is_refused_with_file_and_byte_or_changes_nothing(
    steps: list[tuple[Any, ...]], seed: int, draw: st.DataObject
) -> None:
    asyncio.run(damaged(steps, seed, draw))
