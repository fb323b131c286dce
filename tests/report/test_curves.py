"""Lines over time show the figures of a run: quantiles, rates, lag of replicas, offsets of clocks."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from splitbrain.results.arrow import TELEMETRY_SCHEMA, from_table, to_table
from splitbrain.results.faults import run_events
from splitbrain.results.history import NEMESIS, Op
from splitbrain.results.report import write_report
from splitbrain.results.report.curves import SERIES_MAX, Frame, Series, chart
from splitbrain.results.report.load_plots import load_plots
from splitbrain.results.report.replica_plots import lags_of, offsets_of
from splitbrain.results.report.run_view import RunView, load
from splitbrain.results.report.stretches import quantiles, rates
from tests.report.families import Shape, view_of
from tests.report.sample import sample_run


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    return load(sample_run(tmp_path_factory.mktemp("store"), rate=60).path)


def test_a_quantile_is_that_of_its_stretch_and_the_line_breaks_where_nothing_is_known() -> None:
    times = np.concatenate([np.full(100, 0.5), np.full(2, 5.5), np.full(4, 8.5)])
    values = np.concatenate([np.arange(1, 101), [1e9, 1e9], [7.0] * 4]).astype(np.float64)
    (first, second) = quantiles(times, values, 100.0, 0.99)
    assert [value for _, value in first] == pytest.approx([99.01] * len(first))
    assert {value for _, value in second} == {7.0}
    assert all(8 <= time_s <= 9 for time_s, _ in second)


def test_rates_count_every_event_once() -> None:
    times = np.asarray([0.05, 0.1, 0.15, 2.0, 9.99, 10.0, 10.04])
    (line,) = rates(times, 10.04)
    total = sum((end - begin) * rate for (begin, rate), (end, _) in zip(line[::2], line[1::2], strict=True))
    assert total == pytest.approx(len(times))


def test_latency_from_when_ops_were_due_is_drawn_beside_that_from_the_invocation(view: RunView) -> None:
    due = pa.array([None if time is None else max(time - 10**9, 0) for time in view.history["time"].to_pylist()])
    calls = view.calls
    table = calls.table.set_column(calls.table.schema.get_field_index("due"), "due", due)
    late = replace(view, calls=msgspec.structs.replace(calls, table=table))
    picture = str(load_plots(late)["quantiles"])
    for name in ("p50", "p95", "p99"):
        assert f"{name} from invocation" in picture
        assert f"{name} from due" in picture
    assert "dashed" in picture
    whole, dashed = lowest(picture, "line series-0"), lowest(picture, "line series-0 dashed")
    assert dashed < whole  # a second later is farther up, where y is less


def lowest(picture: str, style: str) -> float:
    lines = re.findall(rf'<polyline class="{style}" points="([^"]*)"', picture)
    return max(float(point.split(",")[1]) for line in lines for point in line.split())


def test_every_function_and_node_has_a_line_of_its_own(view: RunView) -> None:
    plots = load_plots(view)
    assert {"rate-by-f", "latency-by-f", "rate-by-node", "latency-by-node"} <= plots.keys()
    for node in view.nodes:
        assert f">{node}</text>" in plots["rate-by-node"]


def test_names_of_lines_never_lie_on_each_other() -> None:
    picture = str(
        chart(Frame(30.0), [Series(f"a-node-with-a-long-name-{i}", [[(0, 1)]]) for i in range(40)], "x", id="x")
    )
    places = re.findall(r'<text x="([\d.]+)" y="([\d.]+)">a-node', picture)
    assert len(places) == len(set(places)) == SERIES_MAX
    assert len({y for _, y in places}) > 1
    assert ">28 more are not drawn</text>" in picture


def test_of_more_functions_and_nodes_than_lines_the_busiest_are_drawn_and_the_others_counted() -> None:
    found = view_of(Shape(nodes=15, ops=1_003))
    plots = load_plots(found)
    for name in ("rate-by-f", "latency-by-f", "rate-by-node", "latency-by-node"):
        assert ">3 more are not drawn</text>" in plots[name]
    asked = found.calls.table["node"].to_pylist()
    answered = Counter(asked[row] for row in found.calls.invoke[found.calls.ended("ok")].tolist())
    drawn = [node for node in found.nodes if f">{node}</text>" in plots["rate-by-node"]]
    assert len(drawn) == SERIES_MAX
    assert min(answered[node] for node in drawn) >= max(answered[node] for node in set(found.nodes) - set(drawn))


def test_lag_is_what_is_committed_anywhere_less_what_a_node_applied(view: RunView) -> None:
    def row(time: int, node: str, commit: int, applied: int) -> dict[str, object]:
        empty = dict.fromkeys(TELEMETRY_SCHEMA.names)
        told = {"time": time * 10**9, "node": node, "life": 1, "event": "commit", "group": "g"}
        return {**empty, **told, "commit_index": commit, "applied_index": applied}

    rows = [row(1, "n1", 10, 10), row(1, "n2", 10, 4), row(5, "n1", 30, 30), row(9, "n2", 30, 30)]
    told = pa.Table.from_pylist(rows, schema=TELEMETRY_SCHEMA)
    lags = {node: dict(line) for node, line in lags_of(replace(view, telemetry=told)).items()}

    def at(node: str, time_s: float) -> float:
        return next(lag for time, lag in lags[node].items() if time >= time_s)

    assert lags.keys() == {"n1", "n2"}
    assert [at("n2", time_s) for time_s in (0.0, 2.0, 6.0, 10.0)] == [0, 6, 26, 0]
    assert {at("n1", time_s) for time_s in (0.0, 2.0, 6.0, 10.0)} == {0}


def test_offsets_are_those_that_were_measured_not_those_that_were_asked_for(view: RunView) -> None:
    asked = {"fault": "clock", "action": "start", "skew": {"n1": {"offset_ms": 9999}}}
    seen = {"before": {"offset_ms": 1.5}, "after": {"offset_ms": 80.25}}
    ops = [
        Op(index=0, time=10**9, process=NEMESIS, type="invoke", f="start-clock", value=asked),
        Op(
            index=1,
            time=2 * 10**9,
            process=NEMESIS,
            type="info",
            f="start-clock",
            value={**asked, "evidence": {"n1": seen, "n2": {"after": {"offset_ms": "far"}}, "?": 3}},
        ),
    ]
    events = run_events(to_table(ops))
    assert offsets_of(replace(view, events=events)) == {"n1": [(1.0, 1.5), (2.0, 80.25), (2.0, 80.25)]}


@pytest.mark.slow
def test_the_pictures_stand_in_the_page_and_as_files(tmp_path: Path) -> None:
    run = sample_run(tmp_path, rate=60)
    page = write_report(run.path).read_text(encoding="utf-8")
    assert from_table(run.history())
    for name in ("quantiles", "rate-by-node", "latency-by-node"):
        assert f'id="{name}"' in page
        assert (run.plots_dir() / f"{name}.svg").read_text(encoding="utf-8").startswith("<svg")
