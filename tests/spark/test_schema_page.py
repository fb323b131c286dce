"""The queries in docs/schema.md, run as they stand there: pandas, DuckDB, Polars and Spark give the same answer."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from splitbrain.harness.campaigns.judging import judge_inline
from splitbrain.results import runfigures
from splitbrain.results.arrow import HISTORY_SCHEMA, TELEMETRY_SCHEMA, from_table
from splitbrain.results.figures import stored_figures
from splitbrain.results.manifest import SCHEMA, write_manifest
from splitbrain.results.store import Store
from tests.results.nightsupport import rows
from tests.spark.support import SET, set_history, stored

PAGE = (Path(__file__).parents[2] / "docs" / "schema.md").read_text()
OF_NIGHTS = dict(re.findall(r"^Nights in (\w+(?: SQL)?): .*?```python\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL))
QUERIES = dict(re.findall(r"^(\w+(?: SQL)?): .*?```python\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of three runs, one a violation, and its table."""
    folder = tmp_path_factory.mktemp("queried")
    store = Store(folder / "store")
    for seed, lost in ((1, ()), (2, (7,)), (3, ())):
        run = stored(store, f"t{seed % 2}", seed, set_history(20 + seed, lost=lost), SET)
        run.amend_test(options={"workload": "set", "nemesis": "none"})
        judge_inline(run)
    draw = np.random.default_rng(1)
    for name in ("20260101", "20260102"):
        runfigures.write(folder / "store", name, rows(name, draw))
    write_manifest(folder / "store")
    return folder


def acknowledged(folder: Path) -> list[tuple[str, str | None, int]]:
    counts = Counter(
        (run.name, op.node)
        for run in Store(folder / "store").runs()
        for op in from_table(run.history())
        if op.type == "ok" and op.process >= 0
    )
    return sorted((run, node, count) for (run, node), count in counts.items())


def answer(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **given: Any) -> Any:
    monkeypatch.chdir(folder)
    names = dict(given)
    exec(QUERIES[name], names)
    return names["answer"]


def test_pandas_counts_violations(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer("pandas", folder, monkeypatch) == {"set": 1}


@pytest.mark.parametrize("name", ["DuckDB", "Polars"])
def test_histories_are_one_table_for(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [tuple(row) for row in answer(name, folder, monkeypatch)]
    assert found == acknowledged(folder)
    assert len({run for run, _, _ in found}) == 3


@pytest.mark.spark
@pytest.mark.slow
def test_histories_are_one_table_for_spark(folder: Path, monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    assert set(QUERIES) == {"pandas", "DuckDB", "Polars", "Spark SQL"}
    query = QUERIES["Spark SQL"].replace('"store', f'"{folder}/store')  # the session has another working folder
    monkeypatch.setitem(QUERIES, "Spark SQL", query)
    assert answer("Spark SQL", folder, monkeypatch, spark=spark.session) == acknowledged(folder)


def kills(folder: Path) -> dict[str, float]:
    """The median over all kills of a night, by hand."""
    found: dict[str, list[float]] = {}
    for path in runfigures.files(folder / "store"):
        for row in runfigures.read(path).to_pylist():
            found.setdefault(row["night"], []).extend(
                each["majority_s"] for each in row["recoveries"] if (each["fault"], each["action"]) == ("kill", "start")
            )
    assert set(found) == {"20260101", "20260102"}
    return {night: statistics.median(seconds) for night, seconds in found.items()}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["pandas", "DuckDB", "Polars"])
def test_figures_of_nights_are_one_table_for(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(QUERIES, name, OF_NIGHTS[name])
    assert answer(name, folder, monkeypatch) == pytest.approx(kills(folder))


@pytest.mark.spark
@pytest.mark.slow
def test_figures_of_nights_are_one_table_for_spark(folder: Path, monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    assert set(OF_NIGHTS) == {"pandas", "DuckDB", "Polars", "Spark SQL"}
    query = OF_NIGHTS["Spark SQL"].replace('"store', f'"{folder}/store')
    monkeypatch.setitem(QUERIES, "Spark SQL", query)
    assert answer("Spark SQL", folder, monkeypatch, spark=spark.session) == pytest.approx(kills(folder))


def test_runs_of_no_night_have_a_table_of_figures_as_well(folder: Path) -> None:
    table = runfigures.read(folder / "store" / "figures" / "runs.parquet")
    stored = {run.name: run for run in Store(folder / "store").runs()}
    rows = {row["folder"].rpartition("run=")[2]: row for row in table.to_pylist()}
    assert set(rows) == set(stored)
    for name, row in rows.items():
        found = stored_figures(stored[name].path)
        assert found is not None
        assert (row["night"], row["workload"], row["ops"]) == (None, "set", found.ops)
        assert row["checking_s"] >= 0


def described(heading: str) -> str:
    section = PAGE.split(f"## {heading}", 1)[1]
    return section.split("\n## ", 1)[0]


def test_every_column_is_described() -> None:
    for name in SCHEMA.names:
        assert f"`{name}`" in described("Columns of `runs.parquet`"), name
    for name in runfigures.SCHEMA.names:
        assert f"`{name}`" in described("Columns of `figures/*.parquet`"), name
    for name in HISTORY_SCHEMA.names:
        assert f"`{name}`" in described("Columns of `history.parquet`"), name
    for name in TELEMETRY_SCHEMA.names[:11]:
        assert f"`{name}`" in described("Columns of `telemetry.parquet`"), name
