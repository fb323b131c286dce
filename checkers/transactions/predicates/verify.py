"""Whether a witness with predicate reads proves what it says: checked against the history, and against nothing else.

Plain Python, on purpose: it shares no code with what finds witnesses. For every step it looks through all ops of the
history for the writes of the object that the step is about, and works out anew what the read can have selected.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

Said = Mapping[str, Any]

_WRITES: Final = ("init", "insert", "w", "delete")
_NOTHING: Final = None
"""The value of an object that is not there."""


@dataclass(frozen=True)
class _Txn:
    process: int
    kind: str
    type: str
    invoked: int
    completed: int | None
    ops: list[list[Any]]
    asked: list[list[Any]]


def predicate_problems(witness: Said, history: pa.Table) -> list[str]:
    """What is wrong with a witness; nothing if it proves its anomaly.

    Args:
        witness: as `witness.PredicateWitnesses` makes it.
        history: rows of `splitbrain.results.arrow.HISTORY_SCHEMA`, sorted by index.
    """
    return [f"{witness['anomaly']}: {problem}" for problem in _Check(witness, history).problems()]


class _Check:
    def __init__(self, witness: Said, history: pa.Table) -> None:
        self._witness = witness
        self._all = _transactions(history)
        self._said: dict[str, Said] = {each["name"]: each for each in witness["transactions"]}
        self._of: dict[str, _Txn] = {}

    def problems(self) -> Iterator[str]:
        by_invocation = {each.invoked: each for each in self._all}
        for name, said in self._said.items():
            found = by_invocation.get(said["invoked"])
            if found is None:
                yield f"{name} was not invoked in op {said['invoked']}"
                return
            self._of[name] = found
            there = (found.process, found.type, found.completed, found.ops)
            if there != (said["process"], said["type"], said.get("completed"), [list(op) for op in said["ops"]]):
                yield f"{name} is {there} in the history"
        yield from self._cycle() if "steps" in self._witness else self._case()

    # --- cycles -------------------------------------------------------------------------------------------------------

    def _cycle(self) -> Iterator[str]:
        steps = self._witness["steps"]
        ring = [step["from"] for step in steps]
        if [step["to"] for step in steps] != [*ring[1:], ring[0]] or len(set(ring)) < len(ring):
            yield "the steps are no simple cycle"
        for name in ring:
            if not self._committed(name):
                yield f"{name} did not commit"
        for step in steps:
            if not self._follows(step):
                yield f"it does not follow that {step['sentence']}"
        if _name_of([step["kind"] for step in steps]) != self._witness["anomaly"]:
            yield f"this cycle is {_name_of([step['kind'] for step in steps])}"

    def _committed(self, name: str) -> bool:
        """Whether a transaction committed: it says so, or a committed one selected what it wrote."""
        txn = self._of[name]
        if txn.type == "ok":
            return True
        reader = self._of.get(self._said[name].get("committed_because_read_by", ""))
        if txn.type != "info" or reader is None or reader.type != "ok":
            return False
        return any(
            self._selected(reader, at, key) == [txn]
            for at, op in enumerate(reader.ops)
            if op[0] in ("r", "rp")
            for key in {each[1] for each in txn.ops if each[0] in _WRITES}
            if op[0] == "rp" or op[1] == key
        )

    def _follows(self, step: Said) -> bool:
        one, other, kind = self._of[step["from"]], self._of[step["to"]], step["kind"]
        if kind == "process":
            return one.type == "ok" and one.process == other.process and one.invoked < other.invoked
        if kind == "realtime":
            return one.type == "ok" and one.completed is not None and one.completed < other.invoked
        before, after, key = step["before"], step["after"], step["key"]
        if one.ops[before["at"]] != list(before["op"]) or other.ops[after["at"]] != list(after["op"]):
            return False
        if kind == "ww":
            return one.kind == "init" and one.type == "ok" and key in _final(one) and key in _final(other)
        predicate = kind in ("wrp", "rwp")
        read = after if kind in ("wr", "wrp") else before
        if (read["op"][0] == "rp") != predicate and not (kind == "rw" and read["op"][0] == "rp"):
            return False
        if kind in ("wr", "wrp"):
            return self._selected(other, after["at"], key) == [one]
        return self._overwritten(one, before["at"], other, key, predicate)

    def _overwritten(self, reader: _Txn, at: int, writer: _Txn, key: str, changes: bool) -> bool:
        """Whether a read selected the first version of an object, and a transaction made a later one.

        Of a predicate the later one has to change whether it matches; if it does not, what was seen was overwritten.
        """
        op, new = reader.ops[at], _final(writer).get(key, _Missing)
        first = self._first(key)
        if new is _Missing or reader.type != "ok":
            return False
        if writer.kind == "init":
            return op[0] == "r" and op[1] == key and op[2] is None and not self._selected(reader, at, key)
        if self._selected(reader, at, key) != [self._init_of(key)]:
            return False
        if op[0] == "r":
            return not changes
        differs = _matches(op[1], first) != _matches(op[1], new)
        return differs == changes and (changes or key in op[2])

    # --- what a read selected -----------------------------------------------------------------------------------------

    def _selected(self, reader: _Txn, at: int, key: str) -> list[_Txn | None]:
        """The writers of what a read can have selected, but not its own; None stands for what was there before all."""
        op = reader.ops[at]
        if any(each[0] in _WRITES and each[1] == key for each in reader.ops[:at]):
            return []
        versions = [(who, value) for who, value in self._versions(key) if who is not reader]
        if op[0] == "r":
            return [who for who, value in versions if op[1] == key and _same(value, op[2])]
        if key in op[2]:
            return [who for who, value in versions if _same(value, op[2][key])]
        return [who for who, value in versions if not _matches(op[1], value)]

    def _versions(self, key: str) -> list[tuple[_Txn | None, Any]]:
        """All versions of an object that may have been committed."""
        found: list[tuple[_Txn | None, Any]] = [
            (each, _final(each)[key]) for each in self._all if each.type != "fail" and key in _final(each)
        ]
        if not any(who is not None and who.kind == "init" and who.type == "ok" for who, _ in found):
            found.append((None, _NOTHING))
        return found

    def _init_of(self, key: str) -> _Txn | None:
        made = [each for each in self._all if each.kind == "init" and each.type == "ok" and key in _final(each)]
        return made[0] if made else None

    def _first(self, key: str) -> Any:
        made = self._init_of(key)
        return _NOTHING if made is None else _final(made)[key]

    # --- anomalies that are no cycles ---------------------------------------------------------------------------------

    def _case(self) -> Iterator[str]:
        anomaly, key = self._witness["anomaly"], self._witness["key"]
        cited = [(self._of[each["transaction"]], each["at"]) for each in self._witness["mops"]]
        for (txn, at), each in zip(cited, self._witness["mops"], strict=True):
            if txn.ops[at] != list(each["op"]):
                yield f"{each['transaction']} has no {each['op']} there"
        (reader, at), *writes = cited
        holds = {
            "G1a": lambda: writes[0][0].type == "fail" and self._reads(reader, at, key, writes[0]),
            "G1b": lambda: self._is_overwritten(writes[0], key) and self._reads(reader, at, key, writes[0]),
            "future-read": lambda: (
                writes[0][0] is reader and at < writes[0][1] and self._reads(reader, at, key, writes[0])
            ),
            "garbage-read": lambda: not self._is_written(key, _seen(reader.ops[at], key)),
            "internal": lambda: self._is_internal(reader, at, key),
            "predicate-read-miss": lambda: self._is_missed(reader, at, key),
        }.get(anomaly)
        if holds is None:
            yield "there is no such anomaly"
        elif reader.type != "ok" or not holds():
            yield f"it does not follow that {self._witness['sentence']}"

    def _reads(self, reader: _Txn, at: int, key: str, write: tuple[_Txn, int]) -> bool:
        op = write[0].ops[write[1]]
        made = None if op[0] == "delete" else op[2]
        return op[0] in _WRITES and op[1] == key and _same(made, _seen(reader.ops[at], key))

    def _is_overwritten(self, write: tuple[_Txn, int], key: str) -> bool:
        return any(op[0] in _WRITES and op[1] == key for op in write[0].ops[write[1] + 1 :])

    def _is_written(self, key: str, value: Any) -> bool:
        return any(
            op[0] in _WRITES and op[1] == key and _same(None if op[0] == "delete" else op[2], value)
            for each in self._all
            for op in [*each.ops, *each.asked]
        )

    def _is_internal(self, reader: _Txn, at: int, key: str) -> bool:
        """Whether a read differs from what the transaction itself had made, or read, of the object last."""
        op = reader.ops[at]
        fitting = _WRITES if op[0] == "rp" else ("r", *_WRITES)
        before = [each for each in reader.ops[:at] if each[0] in fitting and each[1] == key]
        if not before or (op[0] == "rp" and key not in op[2]):
            return False
        return not _same(None if before[-1][0] == "delete" else before[-1][2], _seen(op, key))

    def _is_missed(self, reader: _Txn, at: int, key: str) -> bool:
        """Whether a predicate read lacks an object that matches in every version, or shows one that does not match."""
        f, predicate, found = reader.ops[at]
        if f != "rp":
            return False
        if key in found:
            return not _matches(predicate, found[key])
        own = [op for op in reader.ops[:at] if op[0] in _WRITES and op[1] == key]
        if own:
            return own[-1][0] != "delete" and _matches(predicate, own[-1][2])
        versions = [value for who, value in self._versions(key) if who is not reader]
        return bool(versions) and all(_matches(predicate, value) for value in versions)


class _Missing:
    """Stands for no write."""


def _final(txn: _Txn) -> dict[str, Any]:
    """What a transaction left of each object that it changed."""
    return {op[1]: _NOTHING if op[0] == "delete" else op[2] for op in txn.ops if op[0] in _WRITES}


def _seen(op: list[Any], key: str) -> Any:
    return op[2] if op[0] == "r" else op[2].get(key)


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _matches(predicate: Any, value: Any) -> bool:
    if value is _NOTHING:
        return False
    if predicate in (True, "true"):
        return True
    if predicate[0] == "=":
        return _same(predicate[1], value)
    return isinstance(value, int) and not isinstance(value, bool) and value % predicate[1] == predicate[2]


def _name_of(kinds: list[str]) -> str:
    """The type of a cycle by its definition."""
    rw = [kind in ("rw", "rwp") for kind in kinds]
    adjacent = any(rw[place] and rw[place - 1] for place in range(len(rw)))
    item = "" if "rwp" in kinds else "-item"
    if sum(rw) > 1:
        name = f"G2{item}" if adjacent else f"G-nonadjacent{item}"
    elif sum(rw) == 1:
        name = f"G-single{item}"
    else:
        name = "G1c" if "wr" in kinds or "wrp" in kinds else "G0"
    return name + ("-realtime" if "realtime" in kinds else "-process" if "process" in kinds else "")


# --- the history ------------------------------------------------------------------------------------------------------


def _transactions(history: pa.Table) -> list[_Txn]:
    pending: dict[int, dict[str, Any]] = {}
    found: list[_Txn] = []
    columns = ("index", "process", "type", "f", "value", "mops")
    for row in history.select(columns).to_pylist():
        if row["f"] not in ("txn", "init") or row["process"] < 0:
            continue
        if row["type"] == "invoke":
            pending[row["process"]] = row
        else:
            found.append(_made(pending.pop(row["process"]), row))
    found.extend(_made(row, None) for row in pending.values())
    return found


def _made(invoke: dict[str, Any], complete: dict[str, Any] | None) -> _Txn:
    kind = "info" if complete is None else complete["type"]
    source = complete if complete is not None and kind == "ok" else invoke
    completed = None if complete is None else complete["index"]
    asked = _ops(invoke, known=False)
    return _Txn(invoke["process"], invoke["f"], kind, invoke["index"], completed, _ops(source, kind == "ok"), asked)


def _ops(row: dict[str, Any], known: bool) -> list[list[Any]]:
    if row["mops"] is not None:
        mops: Any = [[mop["f"], mop["key"], mop["value"]] for mop in row["mops"]]
    else:
        mops = json.loads(row["value"])
    if row["f"] == "init":
        return [["init", key, value] for key, value in mops.items()]
    found: list[list[Any]] = []
    for mop in mops:
        f, key, value = [*mop, None][:3]
        if f == "rp":
            found.append([f, "true" if key is True else key, value if known else None])
        else:
            name = key if isinstance(key, str) else json.dumps(key, sort_keys=True, separators=(",", ":"))
            found.append([f, name, value if known or f != "r" else None])
    return found
