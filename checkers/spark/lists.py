"""Null lists on the way from Spark to Python.

Arrow's Java writer does not remember how far it got when a list is null: a run of n null lists costs n*n steps, minutes
for a history without transactions. So null lists travel as empty ones, each with a flag beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa

from splitbrain.results import listreads
from splitbrain.results.arrow import HISTORY_SCHEMA, TELEMETRY_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NO_MOPS: Final = "no_mops"
_MOPS: Any = cast(Any, HISTORY_SCHEMA).field("mops")
_MOP_FIELDS: list[Any] = list(_MOPS.type.value_type)
_VALUES: Any = _MOPS.type.value_type.field("values")

_NO_VOTERS: Final = "no_voters"
_VOTERS: Any = cast(Any, TELEMETRY_SCHEMA).field("voters")


def without_null_lists(history: DataFrame) -> DataFrame:
    """A history for the way to Python; `with_null_lists` brings the nulls back there."""
    from pyspark.sql import functions as sf

    def flagged(mop: Column) -> Column:
        values = mop["values"]
        return sf.struct(
            mop["f"].alias("f"),
            mop["key"].alias("key"),
            mop["value"].alias("value"),
            sf.coalesce(values, sf.array().cast("array<bigint>")).alias("values"),
            *[mop[field.name].alias(field.name) for field in listreads.FIELDS],
            values.isNull().alias("no_values"),
        )

    mops = sf.transform(sf.coalesce(sf.col("mops"), sf.array().cast(history.schema["mops"].dataType)), flagged)
    return history.withColumn(_NO_MOPS, sf.col("mops").isNull()).withColumn("mops", mops)


def with_null_lists(table: pa.Table) -> pa.Table:
    """The history as it was before `without_null_lists`."""
    lists: Any = table.column("mops").combine_chunks()
    f, key, value, values, *summaries, no_values = lists.flatten().flatten()
    parts = [f, key, value, _with_nulls(values, no_values, _VALUES.type), *summaries]
    mops = pa.StructArray.from_arrays(parts, fields=_MOP_FIELDS)
    restored = _with_nulls(lists, table.column(_NO_MOPS).combine_chunks(), _MOPS.type, items=mops)
    return table.set_column(table.schema.get_field_index("mops"), _MOPS, restored).drop_columns([_NO_MOPS])


def without_null_voters(telemetry: DataFrame) -> DataFrame:
    """Telemetry for the way to Python; `with_null_voters` brings the nulls back there."""
    from pyspark.sql import functions as sf

    voters = sf.coalesce(sf.col("voters"), sf.array().cast(telemetry.schema["voters"].dataType))
    return telemetry.withColumn(_NO_VOTERS, sf.col("voters").isNull()).withColumn("voters", voters)


def with_null_voters(table: pa.Table) -> pa.Table:
    """The telemetry as it was before `without_null_voters`."""
    lists: Any = table.column("voters").combine_chunks()
    restored = _with_nulls(lists, table.column(_NO_VOTERS).combine_chunks(), _VOTERS.type)
    return table.set_column(table.schema.get_field_index("voters"), _VOTERS, restored).drop_columns([_NO_VOTERS])


def _with_nulls(lists: Any, is_null: Any, kind: Any, *, items: Any = None) -> Any:
    """`lists`, none of which is null, with nulls where `is_null` says so; and with other items if there are any."""
    ends = np.cumsum(lists.value_lengths().to_numpy(zero_copy_only=False), dtype=np.int32)
    offsets: Any = pa.array(np.append(np.int32(0), ends))
    array: Any = pa.ListArray
    return array.from_arrays(offsets, lists.flatten() if items is None else items, type=kind, mask=is_null)
