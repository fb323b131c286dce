"""Why the writes of a run cannot be in one order, in sentences that name ops, processes and times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from splitbrain.checkers.linearizable.ops import show
from splitbrain.checkers.sessions.evidence import GUARANTEES, Link, Why
from splitbrain.checkers.sessions.options import CAS, READ, WRITE
from splitbrain.checkers.sessions.reading import INITIAL, Reading
from splitbrain.results.calls import seconds

NAMES: Final = {
    Why.MONOTONIC_READS: "monotonic-reads",
    Why.READ_YOUR_WRITES: "read-your-writes",
    Why.MONOTONIC_WRITES: "monotonic-writes",
    Why.WRITES_FOLLOW_READS: "writes-follow-reads",
}
"""An anomaly has the name of the guarantee that does not hold (Terry and others 1994)."""

_TITLES: Final = {
    Why.MONOTONIC_READS: "Monotonic reads",
    Why.READ_YOUR_WRITES: "Read your writes",
    Why.MONOTONIC_WRITES: "Monotonic writes",
    Why.WRITES_FOLLOW_READS: "Writes follow reads",
}

_VALUE: Final = 40
"""Characters of a value in a sentence."""


def broken(circle: Sequence[Link]) -> list[Why]:
    """The guarantees of which at least one does not hold if these links form a circle.

    Of compares-and-sets alone: each is a write that follows a read, its own.
    """
    found = [why for why in GUARANTEES if any(link.why is why for link in circle)]
    return found or [Why.WRITES_FOLLOW_READS]


class Words:
    """Says of the ops of a run what they did."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def circle(self, links: Sequence[Link]) -> str:
        """Why these links cannot all hold; the first one is of a guarantee."""
        whys = broken(links)
        if len(links) == 1:
            return f"{_TITLES[whys[0]]} violated: {self.link(links[0])}."
        said = [self.link(link) for link in links]
        if len([link for link in links if link.why in GUARANTEES]) == 1:
            return (
                f"{_TITLES[whys[0]]} violated: {said[0]}, but {self._write(links[0].after)} came before "
                f"{self._write(links[0].before)}: {'; '.join(said[1:])}."
            )
        titles = f"{' or '.join(_TITLES[why].lower() for why in whys)} violated"
        return f"{titles[0].upper()}{titles[1:]}: no order of the writes agrees with all of these: {'; '.join(said)}."

    def link(self, link: Link) -> str:
        """What one link says."""
        if link.why is Why.REAL_TIME:
            how = "was acknowledged" if link.first == link.before else "was read"
            return (
                f"{self._write(link.before)} {how} at {self._end(link.first)}, before {self._write(link.after)} was "
                f"invoked at {self._begin(link.after)}"
            )
        if link.why is Why.COMPARE_AND_SET:
            return f"process {self._cell('process', link.second)} {self._cas(link)}"
        process = self._cell("process", link.first)
        did = self._did(link.first, reads=link.why in (Why.MONOTONIC_READS, Why.WRITES_FOLLOW_READS))
        then = self._did(link.second, reads=link.why in (Why.MONOTONIC_READS, Why.READ_YOUR_WRITES))
        return f"process {process} {did} and later {then}"

    def unwritten(self, op: int, failed: int | None) -> str:
        """A read of what no op can have written; `failed`: the row of a write of it that failed."""
        process = self._cell("process", op)
        said = f"process {process} {self._did(op, reads=True)}"
        if failed is None:
            return f"Thin-air read: {said}, and no op had written that by then."
        table = self._reading.table
        index, who = table["index"][failed].as_py(), table["process"][failed].as_py()
        return f"Aborted read: {said}, which only a write that failed had written (op {index}, process {who})."

    def value(self, version: int) -> str:
        """What a write left."""
        if version == INITIAL:
            return "the initial value"
        ops = self._reading.calls.ops
        value = ops.transitions[int(ops.transition[version])].value
        text = show(value[1] if self._reading.f[version] == CAS else value)
        return text if len(text) <= _VALUE else f"{text[:_VALUE]}..."

    def rows(self, links: Sequence[Link]) -> list[int]:
        """The rows of a circle's ops, each at its completion; of a crashed op at its invocation."""
        ops = {op for link in links for op in (link.first, link.second, link.before, link.after) if op >= 0}
        return sorted(self._row(op) for op in ops)

    # --- one op -----------------------------------------------------------------------------------------------------

    def _write(self, version: int) -> str:
        return f"the write of {self.value(version)}{self._of_key(version)} (op {self._index(version)})"

    def _did(self, op: int, *, reads: bool) -> str:
        """As in: read 5 of key "x" (op 12, n2, 1.200 s)."""
        f = self._reading.f[op]
        if reads:
            seen = self.value(self._reading.source[op]) if self._reading.source[op] >= INITIAL else self._seen(op)
            what = f"read {seen}"
        else:
            what = f"wrote {self.value(op)}"
        named = "" if f in (READ, WRITE) else f"{f}, "
        return f"{what}{self._of_key(op)} ({named}op {self._index(op)}{self._at(op)}, {self._end(op)})"

    def _cas(self, link: Link) -> str:
        return (
            f"replaced {self.value(link.before)} by {self.value(link.after)}{self._of_key(link.after)} "
            f"(op {self._index(link.after)}{self._at(link.after)}, {self._end(link.after)})"
        )

    def _seen(self, op: int) -> str:
        ops = self._reading.calls.ops
        what = ops.transitions[int(ops.transition[op])]
        text = show(what.value[0] if self._reading.f[op] == CAS else what.result)
        return text if len(text) <= _VALUE else f"{text[:_VALUE]}..."

    def _of_key(self, op: int) -> str:
        key = self._cell("key", op) if op >= 0 else None
        return "" if key is None else f" of key {key!r}"

    def _at(self, op: int) -> str:
        node = self._cell("node", op)
        return "" if node is None else f", {node}"

    def _begin(self, op: int) -> str:
        return _time(self._reading.table["time"][self._reading.calls.begin[op]].as_py())

    def _end(self, op: int) -> str:
        return _time(self._reading.table["time"][self._row(op)].as_py())

    def _index(self, op: int) -> Any:
        return self._cell("index", op)

    def _cell(self, column: str, op: int) -> Any:
        return self._reading.table[column][self._row(op)].as_py()

    def _row(self, op: int) -> int:
        calls = self._reading.calls
        return calls.end[op] if calls.certain[op] else calls.begin[op]


def _time(time_ns: int) -> str:
    return f"{seconds(max(time_ns, 0)):.3f} s"  # a history without times has negative ones
