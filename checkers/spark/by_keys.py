"""One run of transactions that is too large for a worker: by key, edges, trim, and one task for the rest.

    ops        Spark's reader and a window by process: who invoked which transaction, and how it ended
    mops       a task for each piece of the file reads micro-operations: rows, dealt by key into groups
    edges      a task for each group of keys infers, as inline: edges, anomalies of single reads; order adds its own
    pieces     where no edge leads back in time the graph is cut; a task for each piece keeps what is on cycles
    rest       one task searches what is left, as inline, and one for each group of keys says why its edges are there

The driver sees counts, cuts, notes, and the transactions that witnesses cite; never rows or edges. What a task holds
is bounded (`Sizes`): a group of keys, a piece, and the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers import engine
from splitbrain.checkers.registry import checker
from splitbrain.checkers.spark.frames import hadoop_glob
from splitbrain.checkers.spark.graph_rest import EDGE_COLUMNS, Trimmed, trimmed
from splitbrain.checkers.spark.hot_keys import Sizes
from splitbrain.checkers.spark.jobs import as_bytes, collect, tasks_for
from splitbrain.checkers.stored import Ready
from splitbrain.checkers.transactions import ListAppend, RwRegister
from splitbrain.checkers.transactions.by_key import barriers, concluding, edges, parts, reasons, rest, rows
from splitbrain.checkers.transactions.checker import by_process, options_of, with_others_than_transactions
from splitbrain.checkers.transactions.columns import Ints
from splitbrain.checkers.transactions.graph import PROCESS, Bools
from splitbrain.checkers.transactions.judging import Expected, refuse_without_realtime, tag_of, uses_derived
from splitbrain.checkers.transactions.universes import merged
from splitbrain.checkers.transactions.weak import is_weak
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import HISTORY_SCHEMA, conform, parquet_batches, read_parquet_head
from splitbrain.results.columns import array, codes, numbers, valid
from splitbrain.results.errors import EngineError, HistoryFormatError, UsageError
from splitbrain.results.formats.rows import NO_REALTIME_KEY
from splitbrain.results.quantities import counted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

STORES_MAX: Final = 8
"""Ops with several keys are of as many independent stores, which are judged one after the other; not of thousands."""

_BARRIER_ROWS: Final = 1 << 18
"""Ops of a piece of real time."""

_MOPS: Final = (
    "bucket int, key string, txn bigint, at int, mop int, value bigint, length int, base_txn bigint, base_at int, "
    "elements array<bigint>, process bigint, completed bigint, status int"
)
_PROVEN: Final = "bucket int, txn bigint, proven boolean"
_WHY: Final = "why binary"
_ROWS: Final = "rows binary"
_BAD: Final = -1
"""The bucket of a row that says why a piece of the file could not be read; `key` says it."""


def by_keys(spec: CheckerSpec) -> bool:
    """Whether a checker's graph can be taken apart: of lists and registers, by models with a cycle condition.

    The weak levels of registers are decided by clocks over all sessions: one process needs the whole.
    """
    try:
        each = checker(spec.name)
        if not isinstance(each, ListAppend | RwRegister):
            return False
        return isinstance(each, ListAppend) or not is_weak(options_of(spec.name, spec.options).consistency_models)
    except UsageError:  # the ordinary way says what is wrong
        return False


def can_be_taken_apart(path: Path) -> bool:
    """Whether a file is as a run leaves it: rows by index from 0, and micro-operations in typed columns.

    Raises:
        HistoryFormatError: it is damaged.
    """
    at = 0
    known: Any
    names = ["index", "process", "type", "f", "key", "mops.list.element.f"]
    if "mops" not in read_parquet_head(path).schema.names:
        return False
    stores: dict[str | None, None] = {}
    batch: Any
    size: int
    for batch in parquet_batches(path, rows.BATCH_ROWS, columns=names, texts=["type", "f", "key"]):
        size = batch.num_rows
        if not np.array_equal(numbers(batch.column("index")), np.arange(at, at + size)):
            return False
        at += size
        is_txn = _is_one_of(batch.column("f"), "txn") & (numbers(batch.column("process")) >= 0)
        is_txn &= _is_one_of(batch.column("type"), "invoke", "ok")
        known = valid(batch.column("mops"))
        code, keys = codes(batch.column("key"))
        used: list[int] = np.unique(code[numbers(batch.column("process")) >= 0]).tolist()
        stores.update((keys[each], None) for each in used)
        if not known[is_txn].all() or len(stores) > STORES_MAX:
            return False
    return True


def _is_one_of(column: Any, *texts: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    names: list[Any] = column.dictionary.to_pylist()
    known = np.array([name in texts for name in names] or [False], np.bool_)
    return known[numbers(column.indices, null=0)]


def judge_by_keys(spark: SparkSession, each: Ready, position: int, sizes: Sizes, from_rows: int) -> Verdict:
    """The verdict of one checker on a run.

    Args:
        spark: the session.
        each: the run; its file is sound, and `can_be_taken_apart`.
        position: of the checker.
        sizes: of parts.
        from_rows: from how many rows on a run is taken apart, for the verdict.

    Raises:
        EngineError: Spark failed.
    """
    spec = each.specs[position]
    try:
        found = _Clients.of(spark, each.run.history_path.absolute())
        if len(found.keys) <= 1:
            with _Judging(spark, each, spec, sizes) as judging:
                verdict = judging.verdict(from_rows)
        else:
            verdict = _of_stores(spark, each, spec, sizes, found.keys, from_rows)
        return with_others_than_transactions(verdict, found.calls)
    except (HistoryFormatError, UsageError, TooLargeError) as error:
        return engine.broken(spec.name, error, f"judging {counted(each.rows, 'row')} of the history by key")


def _of_stores(
    spark: SparkSession, each: Ready, spec: CheckerSpec, sizes: Sizes, keys: Sequence[str | None], from_rows: int
) -> Verdict:
    """The verdict on ops with several keys, each of which is a store of its own."""
    verdicts: list[Verdict] = []
    for key in keys:
        with _Judging(spark, each, spec, sizes, (key,)) as judging:
            verdicts.append(msgspec.structs.replace(judging.verdict(from_rows), key=key))
    options = options_of(spec.name, spec.options)
    expected = Expected(options.consistency_models, options.anomalies)
    verdict = merged(spec.name, verdicts, by_process=by_process(expected), of="key")
    stores = [{"key": part.key, **part.evidence["by_key"]} for part in verdicts]
    return concluding.of_evidence(verdict, {"rows": each.rows, "from_rows": from_rows, "keys": stores})


@dataclass(frozen=True)
class _Clients:
    """What clients invoked.

    Attributes:
        keys: of their ops, in the order in which the parts of a history are judged: the smallest first.
        calls: the number of ops of each function.
    """

    keys: list[str | None]
    calls: dict[str, int]

    @classmethod
    def of(cls, spark: SparkSession, path: Path) -> _Clients:
        from pyspark.sql import functions as sf

        schema = "index bigint, process int, type string, f string, key string"
        ops = spark.read.schema(schema).parquet(hadoop_glob(path)).filter("process >= 0")
        counts = ops.groupBy("key", "f").agg(
            sf.count("*").alias("rows"),
            sf.min("index").alias("first"),
            sf.count_if(sf.col("type") == "invoke").alias("calls"),
        )
        calls: dict[str, int] = {}
        sizes: dict[str | None, tuple[int, int]] = {}
        for row in collect(counts, 1):
            calls[row["f"]] = calls.get(row["f"], 0) + row["calls"]
            count, first = sizes.get(row["key"], (0, row["first"]))
            sizes[row["key"]] = count + row["rows"], min(first, row["first"])
        return cls(sorted(sizes, key=lambda key: sizes[key]), calls)


class TooLargeError(EngineError):
    """What is left of a graph is too large for one task."""


@dataclass(frozen=True)
class _Ops:
    """The transactions of a history.

    Attributes:
        pairs: a row for each: invoked, completed (-1), status, process, and the row with its micro-operations.
        count: how many they are.
        unknown: how many of them have an unknown outcome.
    """

    pairs: DataFrame
    count: int
    unknown: int


class _Judging:
    """Args: store: the key of the ops that are judged, if there are others; else nothing."""

    def __init__(
        self, spark: SparkSession, each: Ready, spec: CheckerSpec, sizes: Sizes, store: tuple[str | None, ...] = ()
    ) -> None:
        self._spark = spark
        self._store = store
        self._path = each.run.history_path.absolute()
        self._name = spec.name
        self._sizes = sizes
        self._rows = each.rows
        options = options_of(spec.name, spec.options)
        self._expected = Expected(options.consistency_models, options.anomalies)
        proscribed = self._expected.proscribed
        head = read_parquet_head(self._path)
        realtime = NO_REALTIME_KEY not in head.notes
        refuse_without_realtime(options.assumptions, str(self._path), realtime=realtime)
        self._tag, self._lacks_realtime = tag_of(proscribed, realtime=realtime)
        workload = "list-append" if isinstance(checker(spec.name), ListAppend) else "rw-register"
        derives = workload == "rw-register" and uses_derived(proscribed)
        self._how = parts.How(str(self._path), workload, options.assumptions, derives)
        self._piece = max(head.group_rows, default=1)
        self._cores = spark.sparkContext.defaultParallelism
        self._buckets = max(self._cores, -(-each.rows // sizes.bucket_rows))
        self._kept = ExitStack()

    def __enter__(self) -> _Judging:
        conf, name = self._spark.conf, "spark.sql.shuffle.partitions"
        before = conf.get(name)
        conf.set(name, str(tasks_for(self._spark, self._rows)))
        self._kept.callback(lambda: conf.set(name, str(before)))
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()

    def _keep(self, frame: DataFrame) -> DataFrame:
        """A table that is used several times: on the workers' disks until this ends."""
        from pyspark import StorageLevel

        kept = frame.persist(StorageLevel.DISK_ONLY)
        self._kept.callback(lambda: kept.unpersist() and None)
        return kept

    def verdict(self, from_rows: int) -> Verdict:
        """Judge."""
        ops = self._ops()
        mops = self._mops(ops)
        proven = self._proven(ops, mops)
        by_data = self._by_data(mops, proven)
        note = self._note(by_data)
        order = self._order(ops, proven)
        graph = by_data.filter("kind >= 0") if order is None else by_data.filter("kind >= 0").unionByName(order)
        total = sum(note.by_kind.values()) + (0 if order is None else order.count())
        saturates = self._how.derives and note.open_count > 0
        if saturates:  # the order of versions follows from all of the graph
            found = Trimmed(by_data.filter(f"kind = {edges.KEYS}").unionByName(graph), total, 1)
        else:
            found = trimmed(graph, total, 2 * self._rows + 2, self._sizes, self._keep)
        result = self._rest(found, saturates)
        judged = concluding.Found(
            self._how, self._expected, note, result, total, ops.count, self._lacks_realtime
        )  # fmt: skip
        verdict = self._concluded(judged, ops, mops, proven)
        how = {
            "rows": self._rows,
            "from_rows": from_rows,
            "groups_of_keys": self._buckets,
            "pieces": found.pieces,
            "edges": total,
            "edges_in_one_task": found.edges,
        }
        return concluding.of_evidence(verdict, how)

    # --- ops ----------------------------------------------------------------------------------------------------------

    def _ops(self) -> _Ops:
        """Who invoked which transaction, and how it ended.

        Raises:
            HistoryFormatError: a completion without an invocation, or two invocations of one process at once.
        """
        from pyspark.sql import Window
        from pyspark.sql import functions as sf

        schema = "index bigint, process int, type string, f string, key string"
        ops = self._spark.read.schema(schema).parquet(hadoop_glob(self._path)).filter("f = 'txn' and process >= 0")
        for key in self._store:
            ops = ops.filter(sf.col("key").eqNullSafe(sf.lit(key)))
        by_process = Window.partitionBy("process").orderBy("index")
        seen = ops.select(
            "index",
            "process",
            "type",
            sf.lag("type").over(by_process).alias("before"),
            sf.lead("type").over(by_process).alias("ends"),
            sf.lead("index").over(by_process).alias("next"),
        )
        status = "case when ends = 'ok' then 0 when ends = 'fail' then 2 else 1 end"
        seen = self._keep(seen)
        is_wrong = "(type = 'invoke') = coalesce(before = 'invoke', false)"
        [counts] = collect(
            seen.agg(
                sf.count_if(sf.col("type") == "invoke").alias("all"),
                sf.count_if(sf.expr(f"type = 'invoke' and {status} = 1")).alias("unknown"),
                sf.expr(f"min(if({is_wrong}, struct(index, process, type), null))").alias("wrong"),
            ),
            1,
        )
        if counts["wrong"] is not None:
            index, process, kind = counts["wrong"]
            does = "completes a transaction that it never invoked"
            if kind == "invoke":
                does = "invokes a transaction while one of it is still open"
            raise HistoryFormatError(self._how.source, f"op {index}: process {process} {does}.")
        pairs = seen.filter("type = 'invoke'").select(
            sf.col("index").alias("invoked"),
            sf.coalesce("next", sf.lit(-1)).cast("bigint").alias("completed"),
            sf.expr(status).alias("status"),
            sf.col("process").cast("bigint").alias("process"),
            sf.expr("case when ends = 'ok' then next else index end").alias("row"),
        )
        return _Ops(pairs, counts["all"], counts["unknown"])

    # --- keys ---------------------------------------------------------------------------------------------------------

    def _mops(self, ops: _Ops) -> DataFrame:
        """Rows of `rows.MOPS`, partitioned by group of keys.

        Raises:
            HistoryFormatError: a micro-operation is not as it should be.
        """
        from pyspark.sql import functions as sf

        path, piece, buckets, last = str(self._path), self._piece, self._buckets, self._rows

        def read(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
            begin = group[0].as_py() * piece
            called = rows.Called(
                *(numbers(table.column(name)).astype(np.int64) for name in rows.Called._fields[:-1]),
                status=numbers(table.column("status")).astype(np.uint8),
            )
            try:
                return rows.mop_rows(Path(path), begin, min(begin + piece, last), called, buckets)
            except HistoryFormatError as error:
                said = {"bucket": _BAD, "key": str(error), "txn": begin, "elements": list[int]()}
                return pa.table({name: [said.get(name, 0)] for name in rows.MOPS.names}, rows.MOPS)

        pieces = -(-self._rows // piece)
        dealt = ops.pairs.withColumn("piece", sf.expr(f"row div {piece}"))
        found = dealt.repartition(max(1, min(pieces, 4 * self._cores)), "piece").groupBy("piece")
        mops = self._keep(found.applyInArrow(read, _MOPS).repartition(self._buckets, "bucket"))
        for row in collect(mops.filter(f"bucket = {_BAD}").orderBy("txn").limit(1).select("key"), 1):
            raise HistoryFormatError(self._how.source, row["key"].removeprefix(f"{self._how.source}: "))
        return mops

    def _proven(self, ops: _Ops, mops: DataFrame) -> DataFrame:
        """The transactions of unknown outcome that committed, with each group of keys that they wrote or read."""
        from pyspark.sql import functions as sf

        how = self._how
        schema: Any = pa.schema([("bucket", pa.int32()), ("txn", pa.int64()), ("proven", pa.bool_())])

        def proofs(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
            maybe = np.unique(numbers(table.column("txn"))[numbers(table.column("status")) == 1])
            try:
                proven = np.isin(maybe, parts.proven_in(how, table))
            except HistoryFormatError:  # inference will say so
                proven = np.zeros(len(maybe), np.bool_)
            bucket = np.full(len(maybe), group[0].as_py(), np.int32)
            return pa.Table.from_arrays([array(each) for each in (bucket, maybe, proven)], schema=schema)

        if not ops.unknown:
            return self._spark.createDataFrame([], _PROVEN).repartition(self._buckets, "bucket")
        found = self._keep(mops.groupBy("bucket").applyInArrow(proofs, _PROVEN))
        committed = found.groupBy("txn").agg(sf.max("proven").alias("any")).filter("any").select("txn")
        known = found.join(committed, "txn", "left_semi").select("bucket", "txn", "proven")
        return self._keep(known.repartition(self._buckets, "bucket"))

    def _by_data(self, mops: DataFrame, proven: DataFrame) -> DataFrame:
        """Rows of `edges.EDGES` by keys."""
        how = self._how

        def infer(group: tuple[Any, ...], table: pa.Table, known: pa.Table) -> pa.Table:
            return parts.part_rows(how, group[0].as_py(), table, numbers(known.column("txn")))

        both = mops.groupBy("bucket").cogroup(proven.groupBy("bucket"))
        return self._keep(both.applyInArrow(infer, EDGE_COLUMNS))

    def _note(self, by_data: DataFrame) -> parts.Note:
        """What was found beside edges.

        Raises:
            HistoryFormatError: the history is not of this workload.
        """
        found = collect(by_data.filter(f"kind = {edges.NOTE}").select("note"), 1)
        note = parts.together([msgspec.msgpack.decode(row["note"], type=parts.Note) for row in found])
        if note.error:
            raise HistoryFormatError(self._how.source, note.error.removeprefix(f"{self._how.source}: "))
        return note

    # --- order --------------------------------------------------------------------------------------------------------

    def _order(self, ops: _Ops, proven: DataFrame) -> DataFrame | None:
        """Rows of `edges.EDGES` of real time, or of the order of processes; None if there are none."""
        from pyspark.sql import functions as sf

        if not self._tag:
            return None
        time = sf.expr("2 * case when status = 0 then completed else invoked end + 1")
        committed = ops.pairs.filter("status = 0")
        if ops.unknown:
            known = proven.select(sf.col("txn").alias("invoked")).distinct()
            committed = committed.unionByName(ops.pairs.filter("status = 1").join(known, "invoked", "left_semi"))
        committed = committed.withColumn("time", time)
        found = self._processes(committed) if self._tag == 1 else self._realtime(committed)
        return None if found is None else self._keep(found)

    def _processes(self, committed: DataFrame) -> DataFrame:
        from pyspark.sql import Window
        from pyspark.sql import functions as sf

        # None begins at a transaction of unknown outcome (`splitbrain.checkers.transactions.order.process_edges`).
        before = Window.partitionBy("process").orderBy("invoked").rowsBetween(Window.unboundedPreceding, -1)

        def of_last_certain(name: str) -> Column:
            return sf.last(sf.expr(f"if(status = 0, {name}, null)"), ignorenulls=True).over(before)

        following = committed.select(
            of_last_certain("invoked").alias("source"),
            sf.col("invoked").alias("target"),
            sf.lit(PROCESS).alias("kind"),
            of_last_certain("time").alias("begins"),
            sf.col("time").alias("ends"),
            sf.lit(None).cast("binary").alias("note"),
        )
        return following.filter("source is not null")

    def _realtime(self, committed: DataFrame) -> DataFrame | None:
        from pyspark.sql import functions as sf

        [ends] = collect(
            committed.agg(
                sf.expr("min(if(status = 0, completed, null))").alias("first"), sf.max("invoked").alias("last")
            ),
            1,
        )
        if ends["first"] is None or ends["first"] > ends["last"]:
            return None
        begun = committed.selectExpr("invoked as index", f"{barriers.INVOKES} as role", "invoked as txn", "time")
        done = committed.filter("status = 0").selectExpr(
            "completed as index", f"{barriers.COMPLETES} as role", "invoked as txn", "time"
        )
        pieces = ends["last"] // _BARRIER_ROWS + 1  # nothing begins behind them
        there = self._spark.range(pieces).selectExpr(
            f"id * {_BARRIER_ROWS} as index", f"{barriers.NOTHING} as role", "0L as txn", "0L as time"
        )

        def piece(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
            number = group[0].as_py()
            columns = (numbers(table.column(name)).astype(np.int64) for name in ("index", "role", "txn", "time"))
            ends_at = (number + 1) * _BARRIER_ROWS
            return barriers.barrier_rows(number * _BARRIER_ROWS, ends_at, *columns, last=number == pieces - 1)

        events = begun.unionByName(done).unionByName(there).withColumn("piece", sf.expr(f"index div {_BARRIER_ROWS}"))
        events = events.filter(f"piece < {pieces}")
        dealt = events.repartition(min(pieces, 4 * self._cores), "piece").groupBy("piece")
        return dealt.applyInArrow(piece, EDGE_COLUMNS)

    # --- the rest -----------------------------------------------------------------------------------------------------

    def _rest(self, found: Trimmed, saturates: bool) -> rest.Rest:
        """What one task finds.

        Raises:
            TooLargeError: it is too much for one task.
        """
        if found.edges > self._sizes.rest_edges:
            why = "the order of versions of registers follows from all edges" if saturates else "they hang together"
            raise TooLargeError(
                f"{self._how.source}: {found.edges:,} dependencies are left for one task, which takes "
                f"{self._sizes.rest_edges:,}: {why}. Record shorter runs, with fewer clients or more keys; or "
                + ("let transactions read each key before they write it." if saturates else "ask for a weaker model.")
            )
        if not found.edges and not saturates:
            return rest.Rest({}, (), 0)
        tag = self._tag

        def search(batches: Iterator[Any]) -> Iterator[Any]:
            answer = msgspec.msgpack.encode(rest.search_rest(batches, tag))
            yield from pa.table({"why": [answer]}, pa.schema([("why", pa.binary())])).to_batches()

        [row] = collect(found.frame.repartition(1).mapInArrow(search, _WHY), 1)
        return msgspec.msgpack.decode(row["why"], type=rest.Rest)

    # --- witnesses ----------------------------------------------------------------------------------------------------

    def _concluded(self, judged: concluding.Found, ops: _Ops, mops: DataFrame, proven: DataFrame) -> Verdict:
        if judged.rest.asked:
            judged = replace(judged, why=self._why(mops, proven, judged.rest.asked, ()))
        cited, further = self._cited(ops, judged.cited, judged.unwritten)
        unknown = concluding.of_unknown_outcome(cited, self._how.source)
        if unknown:
            judged = replace(judged, why=[*judged.why, *self._why(mops, proven, (), unknown)])
            cited, further = self._cited(ops, judged.cited, judged.unwritten)
        return concluding.concluded(self._name, judged, cited, further, 0.0)

    def _why(
        self, mops: DataFrame, proven: DataFrame, steps: Sequence[rest.Step], unknown: Sequence[int]
    ) -> list[reasons.Why]:
        """What keys say of edges and of transactions of unknown outcome."""
        from pyspark.sql import functions as sf

        how = self._how

        def ask(table: pa.Table, known: pa.Table) -> pa.Table:
            if not table.num_rows:
                return pa.table({"why": pa.nulls(0, pa.binary())})
            answer = msgspec.msgpack.encode(reasons.why(how, table, numbers(known.column("txn")), steps, unknown))
            return pa.table({"why": [answer]}, pa.schema([("why", pa.binary())]))

        named = {(txn,) for step in steps for txn in step[:2]} | {(txn,) for txn in unknown}
        asked = self._spark.createDataFrame(sorted(named), "asked bigint")
        keys = mops.join(sf.broadcast(asked), sf.col("txn") == sf.col("asked"), "left_semi")
        keys = keys.select(sf.col("bucket").alias("in_bucket"), sf.col("key").alias("of_key")).distinct()
        same = (sf.col("bucket") == sf.col("in_bucket")) & (sf.col("key") == sf.col("of_key"))
        chosen = mops.join(sf.broadcast(keys), same, "left_semi")
        both = chosen.groupBy("bucket").cogroup(proven.groupBy("bucket"))
        found = collect(both.applyInArrow(ask, _WHY), 1)
        return [msgspec.msgpack.decode(row["why"], type=reasons.Why) for row in found]

    def _cited(
        self, ops: _Ops, transactions: Sequence[int], unwritten: Sequence[tuple[str, int]]
    ) -> tuple[pa.Table, pa.Table]:
        """Rows of some transactions, and further ones against which what is said of them is verified."""
        from pyspark.sql import functions as sf

        named = self._spark.createDataFrame([(txn,) for txn in transactions], "asked bigint")
        hit = ops.pairs.join(sf.broadcast(named), sf.col("invoked") == sf.col("asked"), "left_semi")
        spans = collect(hit.select("process", "invoked", "completed"), 1) if transactions else []
        process, invoked, completed = (
            np.array([row[name] for row in spans], np.int64) for name in ("process", "invoked", "completed")
        )
        path, piece, last = str(self._path), self._piece, self._rows

        def read(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                numbered: list[int] = batch.column(0).to_pylist()
                for number in numbered:
                    begin = number * piece
                    ends = (begin, min(begin + piece, last))
                    answer = _rows_of(Path(path), ends, (process, invoked, completed), unwritten)
                    yield from pa.table({"rows": [answer]}, pa.schema([("rows", pa.binary())])).to_batches()

        pieces = -(-self._rows // piece)
        tasks = max(1, min(pieces, 4 * self._cores))
        found = collect(self._spark.range(0, pieces, 1, tasks).mapInArrow(read, _ROWS), 1) if spans else []
        tables = [pa.ipc.open_stream(row["rows"]).read_all() for row in found]
        table = pa.concat_tables(tables).sort_by("index") if tables else HISTORY_SCHEMA.empty_table()
        for key in self._store:
            code, keys = codes(table.column("key"))
            table = table.filter(array(code == (keys.index(key) if key in keys else -1)))
        index = numbers(table.column("index"))
        mine = np.isin(index, np.concatenate([invoked, completed]))
        return table.take(array(np.flatnonzero(mine))), table.take(array(np.flatnonzero(~mine)))


def _rows_of(
    path: Path, ends: tuple[int, int], spans: tuple[Ints, Ints, Ints], unwritten: Sequence[tuple[str, int]]
) -> bytes:
    """Rows of a piece of a file: of processes in spans of ops, and of writes of some values; as Arrow writes them."""
    process, invoked, completed = spans
    until = np.where(completed < 0, invoked, completed)
    tables: list[pa.Table] = []
    base = 0
    for group, size in enumerate(read_parquet_head(path).group_rows):
        at, base = base, base + size
        if base <= ends[0] or at >= ends[1]:
            continue
        near = (until >= at) & (invoked < base)
        if not near.any() and not unwritten:
            continue
        for batch in parquet_batches(path, rows.BATCH_ROWS, group=group):
            index, who = numbers(batch.column("index")), numbers(batch.column("process"))
            wanted: Bools = np.isin(index, invoked[near]) | np.isin(index, completed[near])
            for one in np.flatnonzero(near & (until >= index[0]) & (invoked <= index[-1])).tolist():
                wanted |= (who == process[one]) & (index > invoked[one]) & (index < until[one])
            if unwritten:
                wanted |= _writes(batch, unwritten)
            wanted &= (index >= ends[0]) & (index < ends[1])
            if wanted.any():
                tables.append(conform(pa.Table.from_batches([batch.take(array(np.flatnonzero(wanted)))]), str(path)))
    table = pa.concat_tables(tables) if tables else HISTORY_SCHEMA.empty_table()
    return as_bytes(table.replace_schema_metadata(None))


def _writes(batch: Any, values: Sequence[tuple[str, int]]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows invoke a write of one of these values to that key."""
    found = np.zeros(batch.num_rows, np.bool_)
    lists = batch.column("mops")
    offsets = numbers(lists.offsets).astype(np.int64)
    f, key, value = lists.values.flatten()[:3]
    functions, names = codes(f)
    keys, key_names = codes(key)
    written = numbers(value, null=0)
    writes = np.array([name in ("w", "append") for name in names] or [False], np.bool_)[functions]
    for name, each in values:
        hit = np.flatnonzero(
            writes & (written == each) & (keys == (key_names.index(name) if name in key_names else -1))
        )
        found[np.searchsorted(offsets, hit, side="right") - 1] = True
    return found
