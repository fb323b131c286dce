"""Whether a witness proves what it says: checked step by step against the history, and against nothing else.

Plain Python, on purpose: it shares no code with what finds witnesses. It reads the ops that the witness cites from the
history's rows, and follows each step by its definition.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from splitbrain.checkers.transactions.exact import exact, json_text

Said = Mapping[str, Any]
Rows: TypeAlias = npt.NDArray[np.int64]

_WRITES: Final = ("w", "append")


def problems_of(witness: Said, history: pa.Table) -> list[str]:
    """What is wrong with a witness; nothing if it proves its anomaly.

    Args:
        witness: as `witness.Witnesses` makes it.
        history: rows of `splitbrain.results.arrow.HISTORY_SCHEMA`, sorted by index.
    """
    check = _Check(witness, history)
    return [f"{witness['anomaly']}: {problem}" for problem in check.problems()]


class _Check:
    def __init__(self, witness: Said, history: pa.Table) -> None:
        self._witness = witness = exact(witness)
        self._history = history
        self._index = np.asarray(history.column("index").to_numpy())
        self._next = _following(np.asarray(history.column("process").to_numpy()))
        self._said: dict[str, Said] = {each["name"]: each for each in witness["transactions"]}
        self._keys: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def problems(self) -> Iterator[str]:
        for each in self._said.values():
            yield from self._cited(each)
        if "steps" in self._witness:
            yield from self._cycle()
        else:
            yield from self._case()

    # --- what is cited ------------------------------------------------------------------------------------------------

    def _cited(self, said: Said) -> Iterator[str]:
        """Whether a transaction is in the history as the witness has it."""
        invoke = self._row(said["invoked"])
        process = self._history.column("process")
        if process[invoke].as_py() != said["process"] or self._history.column("type")[invoke].as_py() != "invoke":
            yield f"{said['name']} was not invoked in op {said['invoked']} of process {said['process']}"
        row = invoke
        if "completed" in said:
            complete = self._row(said["completed"])
            found = self._history.column("type")[complete].as_py()
            if process[complete].as_py() != said["process"] or found != said["type"]:
                yield f"{said['name']} did not complete as {said['type']} in op {said['completed']}"
            if self._next[invoke] != complete:
                yield f"op {said['completed']} does not complete op {said['invoked']}"
            row = complete if found == "ok" else invoke
        elif said["type"] != "info":
            yield f"{said['name']} has no completion, and is said to be {said['type']}"
        ops = [[f, key, None if f == "r" and said["type"] != "ok" else value] for f, key, value in self._ops(row)]
        if len(ops) != len(said["ops"]) or not all(map(self._is_said, said["ops"], ops)):
            yield f"{said['name']} is {ops} in the history, not {said['ops']}"

    def _is_said(self, said: Any, op: list[Any]) -> bool:
        """Whether a micro-operation is as the witness has it: a name of a key may stand for one key, and no other.

        A string may be named with quotation marks or without; which is needed depends on the other keys.
        """
        f, name, value = said
        text = op[1]
        bare = msgspec.json.decode(text) if text.startswith('"') else text
        one = self._keys.setdefault(name, text) == text and self._names.setdefault(text, name) == name
        return [f, value] == [op[0], op[2]] and name in (text, bare) and one

    def _row(self, index: int) -> int:
        return int(np.searchsorted(self._index, index))

    def _ops(self, row: int) -> Iterator[tuple[str, str, Any]]:
        """The micro-operations of a row, their keys as JSON."""
        typed: Any = self._history.column("mops")[row].as_py()
        if typed is not None:
            for mop in typed:
                found: Any = mop["value"] if mop["values"] is None else mop["values"]
                yield str(mop["f"]), json_text(mop["key"]), found
            return
        text: Any = self._history.column("value")[row].as_py()
        if text is None:  # an invocation without a value: only its completion says what was asked
            return
        for mop in _listed(msgspec.json.decode(text)):
            if isinstance(mop, list) and len(cast("list[Any]", mop)) in (2, 3):  # an invocation may hold anything
                f, key, value = [*cast("list[Any]", mop), None][:3]
                yield str(f), json_text(key), exact(value)

    def _committed(self, name: str) -> bool:
        """Whether a transaction committed: it says so, or a committed one read what it wrote."""
        said = self._said[name]
        if said["type"] == "ok":
            return True
        reader = self._said.get(said.get("committed_because_read_by", ""))
        if said["type"] != "info" or reader is None or reader["type"] != "ok":
            return False
        written = [(key, value) for f, key, value in said["ops"] if f in _WRITES]
        return any(
            f == "r" and read_key == key and (value == found or (isinstance(found, list) and value in found))
            for f, read_key, found in reader["ops"]
            for key, value in written
        )

    # --- cycles -------------------------------------------------------------------------------------------------------

    def _cycle(self) -> Iterator[str]:
        steps = self._witness["steps"]
        ring = [step["from"] for step in steps]
        if [step["to"] for step in steps] != [*ring[1:], ring[0]]:
            yield "the steps are no cycle"
        if len(set(ring)) < len(ring):
            yield "a transaction is on the cycle twice"
        for name in ring:
            if not self._committed(name):
                yield f"{name} did not commit"
        for step in steps:
            if not self._follows(step):
                yield f"it does not follow that {step['sentence']}"
        name = _named(steps)
        if name != self._witness["anomaly"]:
            yield f"this cycle is {name}"

    def _follows(self, step: Said) -> bool:
        check = getattr(self, f"_{step['kind']}")
        return bool(check(step, self._said[step["from"]], self._said[step["to"]]))

    def _version_order(self, step: Said, one: Said, other: Said) -> bool:
        """Whether one version comes before another one.

        It does if its writer comes before a transaction that wrote or read the other one, unless there is a G-single,
        or, where the way there has antidependencies, a G2.
        """
        first, last = (self._said[step[each]["transaction"]] for each in ("earlier", "later"))
        (f, key, earlier), (g, other_key, later) = _op(first, step["earlier"]), _op(last, step["later"])
        (h, one_key, known), (i, to_key, written) = _op(one, step["before"]), _op(other, step["after"])
        if {other_key, one_key, to_key} != {key} or (f, i) != ("w", "w") or (known, written) != (earlier, later):
            return False
        if earlier == later or (g == "w" and last is not other) or (h == "w" and one is not first):
            return False
        if (h == "r") != (step["kind"] == "rw") or not all(self._committed(each["name"]) for each in (first, last)):
            return False
        way = step["way"]
        at = first["name"]
        for each in way:
            if each["from"] != at or not self._committed(each["to"]) or not self._follows(each):
                return False
            at = each["to"]
        weak = step["rests_on"] == "no G2" or all(
            each["kind"] != "rw" and each.get("rests_on") in (None, "no G1c", "no G-single") for each in way
        )
        orders = [each.get("order", each["kind"]) for each in way]
        tagged = [each for each in orders if each in ("process", "realtime")]
        return bool(way) and at == last["name"] and weak and all(each == step.get("order") for each in tagged)

    def _process(self, step: Said, one: Said, other: Said) -> bool:
        return one["type"] == "ok" and one["process"] == other["process"] and one["invoked"] < other["invoked"]

    def _realtime(self, step: Said, one: Said, other: Said) -> bool:
        return one["type"] == "ok" and one["completed"] < other["invoked"]

    def _wr(self, step: Said, one: Said, other: Said) -> bool:
        (f, key, value), (g, read_key, found) = _op(one, step["before"]), _op(other, step["after"])
        if f not in _WRITES or g != "r" or key != read_key or other["type"] != "ok":
            return False
        listed = _listed(found)
        return bool(listed) and listed[-1] == value

    def _ww(self, step: Said, one: Said, other: Said) -> bool:
        (f, key, value), (g, other_key, later) = _op(one, step["before"]), _op(other, step["after"])
        if f not in _WRITES or g not in _WRITES or key != other_key:
            return False
        if step.get("rule") == "read-modify-write":
            read, read_key, found = _op(self._said[step["shown"]["transaction"]], step["shown"])
            own = step["shown"]["transaction"] == step["from"] and step["shown"]["at"] < step["before"]["at"]
            if f == "w":  # it read that there was nothing
                own = own and list(next(op for op in one["ops"] if op[1] == key)) == ["r", key, None] and found is None
            lacks = later not in (found or []) and value not in (found or [])
            shows = one["type"] == "ok" and read == "r" and read_key == key
            return own and shows and lacks and "rests_on" in step
        if "rule" in step:
            return self._version_order(step, one, other) if step["rule"] == "version-order" else self._vouched(step)
        reader = self._said[step["shown"]["transaction"]]
        read, read_key, found = _op(reader, step["shown"])
        if read != "r" or read_key != key or reader["type"] != "ok" or value not in found:
            return False
        return later not in found or found.index(value) < found.index(later)

    def _rw(self, step: Said, one: Said, other: Said) -> bool:
        (f, key, found), (g, other_key, later) = _op(one, step["before"]), _op(other, step["after"])
        if f != "r" or g not in _WRITES or key != other_key or one["type"] != "ok":
            return False
        rule = step.get("rule", "")
        if rule == "initial":
            return found is None
        if rule == "read-modify-write":
            first = next(op for op in other["ops"] if op[1] == key)
            writer = _op(self._said[step["shown"]["transaction"]], step["shown"])
            return list(first) == ["r", key, found] and list(writer) == ["w", key, found] and "rests_on" in step
        if rule:
            return self._version_order(step, one, other) if rule == "version-order" else self._vouched(step)
        return later not in (found or [])

    # --- anomalies that are no cycles ---------------------------------------------------------------------------------

    def _case(self) -> Iterator[str]:
        anomaly, key = self._witness["anomaly"], self._witness["key"]
        cited = [(self._said[each["transaction"]], each) for each in self._witness["mops"]]
        for said, each in cited:
            if list(_op(said, each)) != list(each["op"]) or each["op"][1] != key:
                yield f"{said['name']} has no {each['op']} there"
        holds = {
            "G1a": self._aborted_read,
            "G1b": self._intermediate_read,
            "internal": self._internal,
            "future-read": self._future_read,
            "garbage-read": self._garbage_read,
            "duplicate-elements": self._duplicate,
            "incompatible-order": self._incompatible,
            "lost-update": self._lost_update,
            "dirty-update": self._dirty_update,
            "cyclic-versions": self._cyclic_versions,
        }.get(anomaly)
        if holds is None:
            yield "there is no such anomaly"
        elif not holds([said for said, _ in cited], [each["op"] for _, each in cited], cited):
            yield f"it does not follow that {self._witness['sentence']}"

    def _aborted_read(self, who: list[Said], ops: list[Any], cited: Any) -> bool:
        return who[0]["type"] == "ok" and who[1]["type"] == "fail" and ops[1][2] in _listed(ops[0][2])

    def _intermediate_read(self, who: list[Said], ops: list[Any], cited: Any) -> bool:
        later = [op for op in who[1]["ops"][cited[1][1]["at"] + 1 :] if op[0] in _WRITES and op[1] == ops[1][1]]
        return who[0]["name"] != who[1]["name"] and bool(later) and _listed(ops[0][2])[-1] == ops[1][2]

    def _internal(self, who: list[Said], ops: list[Any], cited: Any) -> bool:
        """Follow the transaction: what it must find, or, before its first read of a list, with what that must end."""
        key, at = ops[0][1], cited[0][1]["at"]
        known = False
        expected: list[Any] = []
        for f, each, value in who[0]["ops"][:at]:
            if each != key:
                continue
            if f == "append":
                expected.append(value)
            else:
                known, expected = True, _listed(value)
        found = _listed(ops[0][2])
        return (
            found != expected
            if known
            else found[len(found) - len(expected) :] != expected or len(found) < len(expected)
        )

    def _future_read(self, who: list[Said], ops: list[Any], cited: Any) -> bool:
        return who[0] is who[1] and cited[0][1]["at"] < cited[1][1]["at"] and ops[1][2] in _listed(ops[0][2])

    def _garbage_read(self, who: list[Said], ops: list[Any], cited: Any) -> bool:
        [value], key = self._witness["values"], self._keys[self._witness["key"]]
        columns = [self._history.column(name).to_pylist() for name in ("f", "process", "type")]
        written = any(
            f in _WRITES and each == key and found == value
            for row, (f_row, process, kind) in enumerate(zip(*columns, strict=True))
            if f_row == "txn" and process >= 0 and kind in ("invoke", "ok")
            for f, each, found in self._ops(row)
        )
        return value in _listed(ops[0][2]) and not written

    def _duplicate(self, who: list[Said], ops: list[Any], cited: Any) -> bool:
        return list(ops[0][2]).count(self._witness["values"][0]) > 1

    def _incompatible(self, who: list[Said], ops: list[Any], cited: Any) -> bool:
        if len(ops) == 3:
            return self._torn(who, ops, cited)
        one, other = _listed(ops[0][2]), _listed(ops[1][2])
        size = min(len(one), len(other))
        return one[:size] != other[:size] and all(each["type"] == "ok" for each in who)

    def _torn(self, who: list[Said], ops: list[Any], cited: Any) -> bool:
        """Whether a read shows an append, and not before it the one that its transaction made before it."""
        found, (_, _, earlier), (_, _, later) = _listed(ops[0][2]), ops[1], ops[2]
        appends = ops[1][0] == ops[2][0] == "append" and ops[1][1] == ops[2][1] == ops[0][1]
        in_turn = who[1] is who[2] and cited[1][1]["at"] < cited[2][1]["at"]
        shows = ops[0][0] == "r" and who[0]["type"] == "ok" and later in found
        return appends and in_turn and shows and earlier not in found[: found.index(later)]

    def _lost_update(self, who: list[Said], ops: list[Any], cited: Any) -> bool:
        firsts = [next(list(op) for op in each["ops"] if op[1] == ops[0][1]) for each in (who[1], who[3])]
        reads = [list(ops[0]), list(ops[2])]
        same = _listed(ops[0][2]) == _listed(ops[2][2])
        writes = ops[1][0] in _WRITES and ops[3][0] in _WRITES
        return firsts == reads and same and writes and who[1] is not who[3] and who[1]["type"] == who[3]["type"] == "ok"

    def _dirty_update(self, who: list[Said], ops: list[Any], cited: Any) -> bool:
        read = _listed(ops[2][2])
        return who[1]["type"] == "fail" and read.index(ops[1][2]) < read.index(ops[0][2])

    def _cyclic_versions(self, who: list[Said], ops: list[Any], cited: Any) -> bool:
        """Whether each version comes before the next one, and the last before the first."""
        values, rules = self._witness["values"], self._witness["rules"]
        where = [each for _, each in cited]
        if len({json.dumps(each) for each in values}) < max(2, len(values)) or len(where) != 2 * len(values):
            return False
        return len(rules) == len(values) and all(
            self._comes_before(rules[place], where[2 * place : 2 * place + 2], each, (values * 2)[place + 1])
            for place, each in enumerate(values)
        )

    # --- what the user vouches for ------------------------------------------------------------------------------------

    def _vouched(self, step: Said) -> bool:
        """Whether the version that a step begins with comes before the one that it ends with."""
        (_, key, earlier), (_, _, later) = step["before"]["op"], step["after"]["op"]
        same = all(_op(self._said[each["transaction"]], each)[1] == key for each in step["given"])
        real = _op(self._said[step["from"]], step["before"]), _op(self._said[step["to"]], step["after"])
        cited = (tuple(step["before"]["op"]), tuple(step["after"]["op"]))
        return same and real == cited and self._comes_before(step["rule"], step["given"], earlier, later)

    def _comes_before(self, rule: str, given: list[Said], earlier: Any, later: Any) -> bool:
        """Whether one version of a key comes before another one by a rule, as two micro-operations show."""
        one, other = (self._said[each["transaction"]] for each in given)
        (_, key, first), (_, other_key, second) = (_op(self._said[each["transaction"]], each) for each in given)
        if key != other_key or second != later or not (self._committed(one["name"]) and self._committed(other["name"])):
            return False
        if rule == "initial":
            return earlier is None and later is not None
        before, after = given[0]["at"], given[1]["at"]
        read, write = _place_of_read(one, key), _place_of_write(one, key)
        if first != earlier:
            return False
        if rule == "wfr-keys":
            return one is other and (before, after) == (read, write)
        begins = _place_of_read(other, key)
        if one is other or before != (read if write is None else write):
            return False
        if after != (_place_of_write(other, key) if begins is None else begins):
            return False
        if rule == "transaction-order":  # which the user gave; it is not in the history
            return write is not None and _place_of_write(other, key) == after
        ended = one["type"] == "ok"
        if rule == "sequential-keys":
            return ended and one["process"] == other["process"] and one["invoked"] < other["invoked"]
        return rule == "linearizable-keys" and ended and one["completed"] < other["invoked"]


def _following(process: Rows) -> Rows:
    """For each row the next one of the same process, -1 for none."""
    order = np.argsort(process, kind="stable")
    same = process[order[1:]] == process[order[:-1]]
    found = np.full(len(process), -1, np.int64)
    found[order[:-1][same]] = order[1:][same]
    return found


def _op(said: Said, where: Said) -> tuple[str, str, Any]:
    f, key, value = said["ops"][where["at"]]
    return f, key, value


def _listed(value: Any) -> list[Any]:
    """A list, or a register's value as one; nothing for nil."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownArgumentType]


def _place_of_read(said: Said, key: Any) -> int | None:
    """Where a transaction read a key before it wrote it."""
    first = next((at for at, op in enumerate(said["ops"]) if op[1] == key), None)
    return first if first is not None and said["ops"][first][0] == "r" and said["type"] == "ok" else None


def _place_of_write(said: Said, key: Any) -> int | None:
    """Where a transaction wrote a key last."""
    ops: list[Any] = said["ops"]
    return max((at for at, op in enumerate(ops) if op[0] == "w" and op[1] == key), default=None)


def _named(steps: list[Said]) -> str:
    """The type of a cycle by its definition."""
    kinds = [step["kind"] for step in steps]
    rw = [kind == "rw" for kind in kinds]
    assumes = [step.get("rests_on", "") for step in steps]
    order = [step.get("order", step["kind"]) for step in steps]
    adjacent = any(rw[place] and rw[place - 1] for place in range(len(rw)))
    if "no G2" in assumes or (sum(rw) > 1 and adjacent):
        name = "G2-item"
    elif sum(rw) > 1:
        name = "G-nonadjacent-item"
    elif sum(rw) == 1 or "no G-single" in assumes:
        name = "G-single-item"
    else:
        name = "G1c" if "wr" in kinds else "G0"
    return name + ("-realtime" if "realtime" in order else "-process" if "process" in order else "")
