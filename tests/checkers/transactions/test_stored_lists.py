"""Stored runs of list-append are judged by the summaries of their lists, and come out as if their tables were read."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from benchmarks.transaction_histories import Shape
from benchmarks.transaction_histories import history as simulated
from splitbrain.checkers import engine, stored
from splitbrain.checkers.isolation.judging import judge
from splitbrain.checkers.isolation.limits import DEFAULT
from splitbrain.checkers.spark import by_path
from splitbrain.checkers.spark.hot_keys import Sizes
from splitbrain.checkers.transactions import ListAppend
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.harness.campaigns.judging import judge_inline
from splitbrain.harness.campaigns.many import judge_one_by_one
from splitbrain.harness.cli.main import splitbrain
from splitbrain.results import arrow, soundness, summarized
from splitbrain.results.arrow import PLAIN_MOPS
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.history import Mop, Op
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.checkers.transactions.brute_force import ops_of, random_history

SPECS = (
    CheckerSpec("list-append", {"consistency_models": ["strict-serializable"]}),
    CheckerSpec("stats"),
    CheckerSpec("coverage", {"fs": ["txn"]}),
)


def timeless(verdicts: Sequence[Verdict]) -> list[Any]:
    """What verdicts say, without how long it took."""
    found: list[Any] = json.loads(b"[" + b",".join(engine.encode(each) for each in verdicts) + b"]")
    for each in found:
        each.pop("seconds", None)
    return found


def random_table(seed: int) -> pa.Table:
    """A small random history, right or wrong."""
    return arrow.to_table(ops_of(random_history(random.Random(f"stored {seed}"), "list-append")))


def by_both(path: Path) -> tuple[list[Any], list[Any]]:
    """The verdicts on a file by its summaries, and by its table."""
    found = summarized.summarized(path)
    assert found is not None
    table = soundness.sound_history(arrow.read_parquet(path), str(path))
    return timeless(engine.judge_each(found, SPECS)), timeless(engine.judge_each(table, SPECS))


def judged_stored(run: RunDir) -> list[Verdict]:
    """The verdicts on a run, as a process gives them that opens it."""
    each = stored.ready(run.path)
    opened = stored.OpenedRun(run.path, stored.recorded(each), each.specs)
    return [engine.last(opened.answers(position)) for position in range(len(each.specs))]


def never_read(path: Any, **_: Any) -> Any:
    """In place of the readers of whole tables."""
    raise AssertionError(f"the table of {path} was read")


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in (1, 2, 3))])
def test_random_histories_with_and_without_anomalies_come_out_the_same(part: int, tmp_path: Path) -> None:
    answers: set[str] = set()
    for seed in range(part, 400, 4):
        path = tmp_path / f"{seed}.parquet"
        arrow.write_parquet(random_table(seed), path)
        ours, theirs = by_both(path)
        assert ours == theirs, seed
        answers.add(ours[0]["valid"])
    assert answers >= {"true", "false"}


@pytest.mark.parametrize("level", ["serial", "snapshot", "none"])
def test_a_longer_history_comes_out_the_same_without_its_table(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.parquet"
    arrow.write_parquet(simulated(Shape(5_000, level=level)), path)
    ours, theirs = by_both(path)
    assert ours == theirs
    found = summarized.summarized(path)
    assert found is not None
    monkeypatch.setattr(summarized, "read_parquet", never_read)
    assert timeless(engine.judge_each(found, SPECS)) == theirs


def old(table: pa.Table) -> pa.Table:
    """The table as a version without summaries stored it."""
    mops: Any = table.column("mops").combine_chunks()
    f, key, value, values, *_ = mops.values.flatten()
    struct: Any = pa.StructArray.from_arrays([f, key, value, values], fields=list(PLAIN_MOPS.value_type))
    plain: Any = pa.Array.from_buffers(PLAIN_MOPS, len(mops), mops.buffers()[:2], children=[struct])
    return table.set_column(table.schema.get_field_index("mops"), "mops", plain)


def run_of(
    store: Store, table: pa.Table, seed: int, *, version: bytes = b"2", specs: Sequence[CheckerSpec] = SPECS
) -> RunDir:
    """A finished run."""
    run = store.create("lists", seed, {"checkers": list(specs), "nodes": ["n1"]}, 1_790_000_000_000_000_000 + seed)
    if version == b"2":
        arrow.write_parquet(table, run.history_path)
    else:
        pq.write_table(old(table).replace_schema_metadata({arrow.FORMAT_KEY: version}), run.history_path)
    run.release()
    return RunDir(run.path)


@pytest.mark.slow
def test_a_file_of_the_version_before_is_read_as_a_table_and_comes_out_the_same(tmp_path: Path) -> None:
    for seed in range(30):
        new = run_of(Store(tmp_path / "new"), random_table(seed), seed)
        before = run_of(Store(tmp_path / "old"), random_table(seed), seed, version=b"1")
        assert stored.by_summary(before, SPECS) is None
        ours, theirs = (timeless(judged_stored(run)) for run in (new, before))
        assert ours == theirs


def test_a_stored_run_is_judged_without_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(Store(tmp_path), simulated(Shape(500, level="snapshot")), 1)
    expected = timeless(engine.judge_each(run.history(), SPECS))
    monkeypatch.setattr(RunDir, "history", never_read)
    monkeypatch.setattr(summarized, "read_parquet", never_read)
    assert timeless(judged_stored(run)) == expected
    assert timeless(judge_inline(run).verdicts) == expected


def test_another_checker_is_given_the_whole_table(tmp_path: Path) -> None:
    run = run_of(Store(tmp_path), simulated(Shape(200, level="none")), 1)
    specs = (*SPECS, CheckerSpec("rw-register"), CheckerSpec("monotonic"))
    found = stored.by_summary(run, specs)
    assert found is not None
    assert timeless(engine.judge_each(found, specs)) == timeless(engine.judge_each(run.history(), specs))


def test_a_report_shows_what_transactions_read(tmp_path: Path) -> None:
    pages: list[str] = []
    for name, version in (("new", b"2"), ("old", b"1")):
        run = run_of(Store(tmp_path / name), simulated(Shape(300, level="none")), 1, version=version)
        judge_inline(run)
        pages.append((run.path / "report.html").read_text())
    shown = [page[page.index("<body") :].replace("/old/", "/new/") for page in pages]
    assert "append" in shown[0]
    assert shown[0].count("append") == shown[1].count("append")
    assert shown[0].count("r 1 [") == shown[1].count("r 1 [")


def test_check_judges_a_folder_and_a_file_of_it_by_summaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(Store(tmp_path), simulated(Shape(500, level="snapshot")), 1)
    asked = ["check", "--workload", "list-append", "--json"]
    table = tmp_path / "other.parquet"
    pq.write_table(old(run.history()).replace_schema_metadata({arrow.FORMAT_KEY: b"1"}), table)
    [theirs] = json.loads(CliRunner().invoke(splitbrain, [*asked, str(table)]).stdout)
    monkeypatch.setattr(RunDir, "history", never_read)
    picture = tmp_path / "picture.html"
    for file in (run.path, run.history_path):
        said = CliRunner().invoke(splitbrain, [*asked, str(file), "--picture", str(picture)])
        assert said.exit_code == 1, said.output
        [ours] = json.loads(said.stdout)
        assert ours.pop("picture") == str(picture)
        assert "append" in picture.read_text()
        for each in (ours, {**theirs}):
            for name in ("file", "seconds", "picture"):
                each.pop(name, None)
        assert ours == {name: value for name, value in theirs.items() if name not in ("file", "seconds", "picture")}


LIST, HASH, LAST = 4, 5, 6
"""Fields of a micro-operation, by position: the length, the hash and the last element of a list that was read."""


def with_summaries(path: Path, changes: dict[tuple[int, int], Any]) -> Any:
    """A stored history in which parts of summaries are changed: by field, and by place among the reads of a list."""
    transactions = (
        (Mop("append", "x", 1), Mop("append", "x", 2), Mop("append", "y", 5)),
        (Mop("append", "x", 3),),
        (Mop("r", "x", values=(1, 2, 3)),),
        (Mop("r", "x", values=(1, 3)), Mop("r", "y", values=())),
        (Mop("r", "x", values=(1, 2)),),
    )
    ops: list[Op] = []
    for process, mops in enumerate(transactions):
        at = len(ops)
        asked = tuple(Mop(mop.f, mop.key, mop.value) for mop in mops)
        ops.append(Op(index=at, time=at, process=process, type="invoke", f="txn", mops=asked))
        ops.append(Op(index=at + 1, time=at + 1, process=process, type="ok", f="txn", mops=mops))
    table = arrow.to_table(ops)
    mops: Any = table.column("mops").combine_chunks()
    parts = list(mops.values.flatten())
    reads = [at for at, each in enumerate(parts[LIST].to_pylist()) if each is not None]
    for (field, place), value in changes.items():
        column = parts[field].to_pylist()
        column[reads[place]] = column[reads[value[0]]] if isinstance(value, tuple) else value
        parts[field] = pa.array(column, parts[field].type)
    struct: Any = pa.StructArray.from_arrays(parts, fields=list(arrow.MOPS.value_type))
    changed: Any = pa.Array.from_buffers(arrow.MOPS, len(mops), mops.buffers()[:2], children=[struct])
    arrow.write_parquet(table.set_column(table.schema.get_field_index("mops"), "mops", changed), path)
    found = summarized.summarized(path)
    assert found is not None
    return ListAppend().check_summarized(found, {"consistency_models": ["serializable"]})


def test_a_summary_that_lies_is_found_out_by_the_witness(tmp_path: Path) -> None:
    """A read of [1, 3] has the summary of [1, 2]: the witness that rests on it does not hold, and the table decides."""
    path = tmp_path / "history.parquet"
    assert with_summaries(path, {(HASH, 1): (3,), (LAST, 1): (3,)}) is None
    ours, theirs = by_both(path)
    assert ours == theirs


@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize("length", [1, 4, 99, 1 << 30])
def test_a_summary_with_another_length_than_its_list_lets_the_table_decide(
    tmp_path: Path, place: int, length: int
) -> None:
    path = tmp_path / "history.parquet"
    assert with_summaries(path, {(LIST, place): length}) is None
    ours, theirs = by_both(path)
    assert ours == theirs


def damaged_lists(store: Path) -> RunDir:
    """A run in whose file the elements of lists are damaged, which are read late."""
    run = run_of(Store(store), simulated(Shape(3000)), 1)
    content = bytearray(run.history_path.read_bytes())
    group: Any = pq.ParquetFile(run.history_path).metadata.row_group(0)
    column = next(group.column(at) for at in range(group.num_columns) if "values" in group.column(at).path_in_schema)
    begin = column.dictionary_page_offset or column.data_page_offset
    content[begin + column.total_compressed_size - 5] ^= 255
    run.history_path.write_bytes(content)
    return run


def test_damage_in_lists_is_that_of_the_run_and_of_no_checker(tmp_path: Path) -> None:
    run = damaged_lists(tmp_path)
    assert stored.by_summary(run, SPECS) is not None
    with judge() as by:
        found = [by_path.look(by, run.path, Sizes(run_rows=rows, hot_rows=rows), DEFAULT) for rows in (1, 1_000_000)]
    with pytest.raises(HistoryFormatError, match="not a whole Parquet file") as table:
        run.history()
    for each in found:
        assert isinstance(each, stored.Unjudged)
        assert each.why == str(table.value)
    with pytest.raises(HistoryFormatError, match="not a whole Parquet file") as inline:
        judge_inline(run)
    assert str(inline.value) == str(table.value)


def test_analyze_and_check_say_the_same_of_damage_in_lists(tmp_path: Path) -> None:
    run = damaged_lists(tmp_path)
    warned: list[str] = []
    [judged] = judge_one_by_one([run], lambda _: None, warned.append)
    assert judged.damaged
    assert judged.said == warned[0]
    assert "not a whole Parquet file" in judged.said
    assert not (run.path / "verdict.json").exists()
    said = CliRunner().invoke(splitbrain, ["check", "--workload", "list-append", str(run.path)])
    assert said.exit_code == HistoryFormatError.exit_code
    assert "not a whole Parquet file" in said.stderr


def test_a_checker_that_breaks_while_it_is_loaded_does_not_keep_a_run_from_its_summaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ends_the_process.py").write_text("import os\nos._exit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    specs = (CheckerSpec("ends_the_process:Any"), *SPECS)
    run = run_of(Store(tmp_path), simulated(Shape(200)), 1, specs=specs)
    monkeypatch.setattr(summarized, "read_parquet", never_read)
    [judged] = judge_one_by_one([run], lambda _: None, lambda _: None)
    found = run.read_verdicts()
    assert found is not None
    assert [each["valid"] for each in found.verdicts] == ["unknown", True, True, True]
    assert "exit code 3" in judged.said
