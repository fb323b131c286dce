"""A checker: every value that is read was written before the read ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from splitbrain import Partition, Verdict
from splitbrain.results.arrow import from_table
from splitbrain.results.values import canonical_json


class Starter:
    """Judges ops "write" and "read" of a run. Options: none."""

    name = "starter"
    partition: Partition = "run"

    def check(self, table: pa.Table, options: Mapping[str, Any], /) -> Verdict:
        """Judge one run, from the columns of `splitbrain.results.arrow.HISTORY_SCHEMA`."""
        written: set[tuple[str | None, str]] = set()
        reads = 0
        for op in from_table(table):
            if op.type == "invoke" and op.f == "write":
                written.add((op.key, canonical_json(op.value)))
            if op.type != "ok" or op.f != "read":
                continue
            reads += 1
            if op.value is not None and (op.key, canonical_json(op.value)) not in written:
                return Verdict(
                    checker=self.name,
                    valid="false",
                    sentence=f"Op {op.index} read {op.value!r}, which no client had written.",
                    anomalies=("read-from-nowhere",),
                    evidence={"op": op.index, "value": op.value},
                )
        if not reads:
            return Verdict(checker=self.name, valid="unknown", sentence="Nothing was read.")
        return Verdict(checker=self.name, valid="true", sentence="", figures={"reads": reads})

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """A run is one partition: there is one verdict."""
        (verdict,) = verdicts
        return verdict
