"""Streams whose beginnings are dropped under load, with faults: what is left is judged, and nothing is wrong."""

from __future__ import annotations

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.cluster.streamclient import Streams
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate
from splitbrain.harness.systems.metadata_streams import MetadataStreams
from tests.cli.test_arguments import OPTIONS


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_streams_that_drop_their_beginnings_keep_all_promises_about_the_rest(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def declare(self: MetadataStreams, stream: str, timeout_ms: int) -> None:
        streams: Streams = await self._opened()  # pyright: ignore[reportPrivateUsage]
        await streams.declare(stream, max_length_bytes=1500, timeout_ms=timeout_ms)

    monkeypatch.setattr(MetadataStreams, "_declare", declare)
    given = {"workload": "stream", "backend": "sim", "nodes": "3", "time_limit": 20.0, "seed": seed, "interval": 3.0}
    left = simulate(compose(RunOptions.of(**{**OPTIONS, **given})))
    assert left.failure is None
    (found,) = engine.judge(left.history, (CheckerSpec("stream", {"drops": True}),), left.telemetry)
    assert found.valid == "true", found.sentence
    assert found.figures["dropped"] > 10
    assert found.figures["acknowledged"] > 100
    (strict,) = engine.judge(left.history, (CheckerSpec("stream"),), left.telemetry)
    assert strict.anomalies == ("lost",), "streams of the workload keep all"
