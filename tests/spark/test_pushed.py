"""Workers of Spark open pushed runs themselves, and put verdicts beside them: those that this process finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from splitbrain.checkers.isolation.limits import DEFAULT, PER_CORE
from splitbrain.checkers.spark.hot_keys import Sizes
from splitbrain.checkers.spark.session import Spark
from splitbrain.harness.campaigns.afar import judge_there_with_spark, unchanged_there
from splitbrain.harness.campaigns.many import Judged, judge_one_by_one
from splitbrain.results.judgement import Judgement
from splitbrain.results.remote.copies import copies_of
from splitbrain.results.remote.pushing import push
from splitbrain.results.remote.runs import RemoteRun, RemoteStore
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.remote.s3 import address, serving

from .support import REGISTER, SET, register_history, set_history, stored

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def service() -> Iterator[int]:
    with serving() as port:
        yield port


def lay(root: Path) -> list[RunDir]:
    store = Store(root)
    return [
        stored(store, "register", 1, register_history(1, 3, 20), REGISTER),
        stored(store, "register", 2, register_history(2, 3, 20, stale=[1]), REGISTER),
        stored(store, "set", 3, set_history(20, lost=[7]), SET),
        stored(store, "set", 4, set_history(20), SET),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [None, Sizes(run_rows=100)], ids=["each run whole", "some in tables"])
def test_spark_judges_pushed_runs_as_this_process_judges_the_local_ones(
    spark: Spark, service: int, tmp_path: Path, sizes: Sizes | None
) -> None:
    runs = lay(tmp_path)
    store = RemoteStore(address(service, tmp_path.name))
    for run in runs:
        push(run, store)
    broken = stored(Store(tmp_path), "set", 5, set_history(20), SET)
    lost = push(broken, store).run
    store.objects.write(f"{lost.folder}/history.parquet", b"PAR1")
    warned, shown = list[str](), list[int]()
    with copies_of(store) as copies:
        pushed = store.runs()
        kept = dict[str, Judgement | None]()

        def keep(run: RemoteRun, found: Judged) -> None:
            kept[run.name] = None if found.damaged else copies.of(run).read_verdicts()

        judged = judge_there_with_spark(copies, pushed, spark, shown.append, warned.append, PER_CORE, sizes, keep)
        judge_one_by_one(runs, lambda _: None, lambda _: None, limits=DEFAULT)
        local = {run.name: run.read_verdicts() for run in runs}
        for run, each in zip(pushed, judged, strict=True):
            if run.name == lost.name:
                assert each.damaged
                assert f"{store.place.below(run.folder)}/history.parquet" in each.said
                continue
            there, here = kept[run.name], local[run.name.rpartition("_")[0]]
            assert there is not None
            assert here is not None
            assert there.engine == "spark"
            assert [(v["checker"], v["valid"], v["sentence"]) for v in there.verdicts] == [
                (v["checker"], v["valid"], v["sentence"]) for v in here.verdicts
            ]
            assert each.outcome.value == here.outcome
            names = {store.name_in(run, file) for file in store.objects.listed(run.folder)}
            assert "figures.json" in names
            assert ("report.html" in names) is (each.outcome.value != "pass")
    assert len(warned) == 1
    assert shown[-1] == len(pushed)
    with copies_of(store) as copies:
        still, known = unchanged_there(copies, store.runs(), DEFAULT, lambda: None, warned.append)
    assert {run.name for run in still} - {run.name for run in known} == {lost.name}
