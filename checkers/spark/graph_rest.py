"""What of a large graph can be on cycles: cut where no edge leads back in time, and trimmed piece by piece.

A table of edges (`splitbrain.checkers.transactions.by_key.edges`) stays in Spark; the driver sees cuts and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from splitbrain.checkers.spark.hot_keys import Sizes
from splitbrain.checkers.spark.jobs import collect
from splitbrain.checkers.transactions.by_key.edges import EDGES
from splitbrain.checkers.transactions.by_key.trimming import cyclic_edges, first_cut
from splitbrain.results.columns import numbers

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EDGE_COLUMNS: Final = "source bigint, target bigint, kind int, begins bigint, ends bigint, note binary"
"""The columns of `EDGES`, as Spark names them."""
_CUTS: Final = "span bigint, cut bigint"

SHRINKS: Final = 0.9
"""Nodes without edges to them or from them are dropped again as long as that leaves less than this part of the edges:
of a chain each time drops no more than its ends."""

Keep = Callable[["DataFrame"], "DataFrame"]


@dataclass(frozen=True)
class Trimmed:
    """What is left of a graph.

    Attributes:
        frame: its edges.
        edges: how many they are.
        pieces: into how many pieces the graph fell.
    """

    frame: DataFrame
    edges: int
    pieces: int


def trimmed(graph: DataFrame, total: int, end: int, sizes: Sizes, keep: Keep) -> Trimmed:
    """The edges of a graph that can be on cycles.

    Args:
        graph: rows of `EDGES`.
        total: how many.
        end: behind all places in time.
        sizes: of a piece.
        keep: keeps a table that is used several times.

    Raises:
        EngineError: Spark failed.
    """
    from pyspark.sql import functions as sf

    if not total:
        return Trimmed(graph, 0, 0)
    width = 2 * sizes.piece_rows
    cuts = _cuts(graph, end, width)
    piece = _pieces(cuts, -(-end // width), width)
    inside = graph.withColumn("piece", piece("begins")).filter(sf.col("piece") == piece("ends"))
    counts = {row["piece"]: row["count"] for row in collect(inside.groupBy("piece").count(), 1)}
    large = [number for number, count in counts.items() if count > sizes.piece_edges]
    found: list[DataFrame] = []
    if len(large) < len(counts):
        some = inside.filter(~sf.col("piece").isin(large)) if large else inside
        tasks = max(1, min(len(counts), 8 * graph.sparkSession.sparkContext.defaultParallelism))
        found.append(some.repartition(tasks, "piece").groupBy("piece").applyInArrow(_cyclic, EDGE_COLUMNS))
    if large:
        hangs_together = keep(inside.filter(sf.col("piece").isin(large)).drop("piece"))
        found.append(_without_ends(hangs_together, sum(counts[number] for number in large), keep))
    if not found:
        return Trimmed(graph, 0, len(counts))
    left = keep(found[0] if len(found) == 1 else found[0].unionByName(found[1]))
    return Trimmed(left, left.count(), len(counts))


def _cyclic(table: pa.Table) -> pa.Table:
    return cyclic_edges(table.select(EDGES.names))


def _cuts(graph: DataFrame, end: int, width: int) -> dict[int, int]:
    """Of each span of time the first moment that no edge leads back over, if there is one."""
    from pyspark.sql import functions as sf

    back = graph.filter("begins > ends").select(sf.expr(f"ends div {width}").alias("span"), "ends", "begins")
    highest = {row["span"]: row["high"] for row in collect(back.groupBy("span").agg(sf.max("begins").alias("high")), 1)}
    carries, carry = dict[int, int](), -1
    cuts: dict[int, int] = {}
    for span in range(-(-end // width)):
        carries[span] = carry
        if span not in highest and carry + 1 < (span + 1) * width:
            cuts[span] = max(span * width, carry + 1)
        carry = max(carry, highest.get(span, -1))
    open_spans = [span for span in highest if carries[span] + 1 < (span + 1) * width]
    if open_spans:
        cuts.update(_cuts_in(back.filter(sf.col("span").isin(open_spans)), carries, width, len(open_spans)))
    return cuts


def _cuts_in(back: DataFrame, carries: Mapping[int, int], width: int, spans: int) -> dict[int, int]:
    schema: Any = pa.schema([("span", pa.int64()), ("cut", pa.int64())])

    def cut(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
        span = group[0].as_py()
        low, high = (numbers(table.column(name)).astype(np.int64) for name in ("ends", "begins"))
        found = first_cut(span * width, (span + 1) * width, low, high, carries[span])
        return pa.table({"span": [span][: found is not None], "cut": [found][: found is not None]}, schema)

    tasks = max(1, min(spans, 8 * back.sparkSession.sparkContext.defaultParallelism))
    found = back.repartition(tasks, "span").groupBy("span").applyInArrow(cut, _CUTS)
    return {row["span"]: row["cut"] for row in collect(found, 1)}


def _pieces(cuts: Mapping[int, int], spans: int, width: int) -> Callable[[str], Column]:
    """The number of the piece of a place in time: that of the last span with a cut before it."""
    from pyspark.sql import functions as sf

    before: list[int] = []
    last = -1
    for span in range(spans):
        before.append(last)
        last = span if span in cuts else last
    moments = sf.array(*[sf.lit(cuts.get(span, (span + 1) * width)) for span in range(spans)]).cast("array<bigint>")
    pieces = sf.array(*map(sf.lit, before)).cast("array<bigint>")

    def piece(name: str) -> Column:
        span = sf.expr(f"{name} div {width}")
        place = span.cast("int") + 1
        behind = sf.col(name) >= sf.element_at(moments, place)
        return sf.when(behind, span).otherwise(sf.element_at(pieces, place))

    return piece


def _without_ends(edges: DataFrame, count: int, keep: Keep) -> DataFrame:
    """Edges without those of nodes that no edge leads to, or none from, as far as dropping these is worth a pass."""
    while True:
        sources = edges.selectExpr("source as node").distinct()
        targets = edges.selectExpr("target as node").distinct()
        kept = edges.join(targets, edges["source"] == targets["node"], "left_semi")
        kept = keep(kept.join(sources, kept["target"] == sources["node"], "left_semi"))
        left = kept.count()
        if left > SHRINKS * count or not left:
            return kept
        edges, count = kept, left


__all__: Sequence[str] = ("EDGE_COLUMNS", "Trimmed", "trimmed")
