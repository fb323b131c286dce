"""No text of any picture lies on another one or leaves the picture, whatever a run is like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from splitbrain.results.arrivals import arrivals
from splitbrain.results.availability import seconds_of
from splitbrain.results.figures import Recovery
from splitbrain.results.report.counterexample.drawing import draw, first_view
from splitbrain.results.report.counterexample.scene import scene
from splitbrain.results.report.load_plots import load_plots
from splitbrain.results.report.overlays import overlays
from splitbrain.results.report.plots import latency_plot, rate_plot
from splitbrain.results.report.quorum_plots import availability_plot, recovery_plot
from splitbrain.results.report.replica_plots import replica_plots
from splitbrain.results.report.timeline import Shown, timeline
from splitbrain.results.tracks import Track, Tracks
from tests.report.counterexamples import sample
from tests.report.families import KINDS, Shape, figures_of, findings_of, view_of
from tests.report.labels import clashes

SHAPES = [
    *(Shape(nodes=nodes, seconds=seconds) for nodes in (1, 3, 7, 15) for seconds in (5.0, 3600.0)),
    *(Shape(nodes=nodes, names=60, large=True) for nodes in (1, 15)),
    Shape(seconds=0.0, ops=0, faults=0),
    Shape(ops=0, faults=200, seconds=1e6),
    Shape(seconds=0.004, large=True),
    Shape(nodes=3, faults=0, seconds=77.7),
    Shape(nodes=3, faults=3, seconds=12_345.6),
]
LARGE = [Shape(nodes=nodes, ops=77_000, seconds=seconds) for nodes in (1, 15) for seconds in (5.0, 3600.0)]


def pictures(shape: Shape) -> Iterator[tuple[str, str]]:
    """All pictures of a report."""
    view, figures = view_of(shape), figures_of(shape)
    witness, findings = findings_of(view, shape)
    yield "timeline", str(timeline(view, Shown(witness, findings, figures)))
    yield "bare timeline", str(timeline(view, Shown()))
    yield "rate", str(rate_plot(view))
    yield "latency", str(latency_plot(view))
    yield "availability", str(availability_plot(figures, view.nodes, shape.seconds))
    yield "recovery", str(recovery_plot(figures))
    for name, picture in (load_plots(view) | replica_plots(view)).items():
        yield name, str(picture)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_texts_of_a_report_never_meet(shape: Shape) -> None:
    wrong = {name: found for name, picture in pictures(shape) if (found := clashes(picture))}
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_texts_of_a_report_of_many_ops_never_meet(shape: Shape) -> None:
    wrong = {name: found for name, picture in pictures(shape) if (found := clashes(picture))}
    assert wrong == {}


COUNTEREXAMPLES: list[dict[str, Any]] = [
    {},
    {"clients": 1},
    {"clients": 60, "ops": 2000},
    {"crashes": 0.2, "ops": 2000},
    {"hostile": "W" * 100},
    {"wrong": 10**40, "clients": 3},
    {"ops": 60},
    {"faults": False, "key": None, "ops": 40},
]


@pytest.mark.parametrize("options", COUNTEREXAMPLES, ids=lambda options: " ".join(options) or "plain")
@pytest.mark.parametrize("seed", range(4))
def test_texts_of_a_counterexample_never_meet(options: dict[str, Any], seed: int) -> None:
    of = sample(seed=seed, **options)
    drawn = scene(of.history, of.evidence)
    assert clashes(str(draw(drawn, first_view(drawn)))) == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("runs", [(1, 1), (3, 1), (20, 20), (0, 1)], ids=str)
@pytest.mark.parametrize("shape", [Shape(nodes=3, seconds=5.0), Shape(seconds=3600.0, large=True, faults=200)], ids=str)
def test_texts_of_a_comparison_never_meet(shape: Shape, runs: tuple[int, int]) -> None:
    track = track_in(shape)
    found = overlays(*(Tracks([track] * many) for many in runs))
    assert found is not None
    assert len(found.pictures) == 4
    assert {each.name: wrong for each in found.pictures if (wrong := clashes(str(each.picture)))} == {}


def track_in(shape: Shape) -> Track:
    """A run of a shape, as a comparison sees it."""
    view = view_of(shape)
    found, ok = arrivals(view.calls), view.calls.ended("ok")
    factor = 1e9 if shape.large else 1.0
    recoveries = tuple(
        Recovery(
            fault=KINDS[i % len(KINDS)],
            action="stop",
            target="n1",
            time_s=shape.seconds * i / 30,
            first_s=factor * i,
            majority_s=None if i % 5 == 0 else factor * i,
            all_s=None,
        )
        for i in range(30)
    )
    return Track(
        name="t/1",
        end_s=view.events.end_ns / 1e9,
        windows=view.events.windows,
        ended_s=found.ended[ok] / 1e9,
        begun_s=found.begun[ok] / 1e9,
        latency_ms=found.latency_ms[ok] * factor,
        seconds=seconds_of(found.due, found.ended, ok, view.events.end_ns),
        recoveries=recoveries,
    )
