"""The queries in docs/schema.md, run as they stand there: pandas, DuckDB, Polars and Spark give the same answer."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.campaigns.judging import judge_inline
from splitbrain.results.arrow import HISTORY_SCHEMA, TELEMETRY_SCHEMA, from_table
from splitbrain.results.manifest import SCHEMA, write_manifest
from splitbrain.results.store import Store
from tests.spark.support import SET, set_history, stored

PAGE = (Path(__file__).parents[2] / "docs" / "schema.md").read_text()
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


def described(heading: str) -> str:
    section = PAGE.split(f"## {heading}", 1)[1]
    return section.split("\n## ", 1)[0]


def test_every_column_is_described() -> None:
    for name in SCHEMA.names:
        assert f"`{name}`" in described("Columns of `runs.parquet`"), name
    for name in HISTORY_SCHEMA.names:
        assert f"`{name}`" in described("Columns of `history.parquet`"), name
    for name in TELEMETRY_SCHEMA.names[:11]:
        assert f"`{name}`" in described("Columns of `telemetry.parquet`"), name
