"""Carries out the steps of a conformance case on the tree, and says what each gives in the notation of cases."""

# JSON has no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from splitbrain.cluster.dedup import Ref, Table
from splitbrain.cluster.errors import InvalidPathError
from splitbrain.cluster.tree import (
    DEFAULT_PROPERTIES,
    PATTERNS_COME,
    AskNode,
    ClearNodes,
    Command,
    CountNodes,
    DeleteNodes,
    GetNodes,
    IfDataMatches,
    IfNodeExists,
    LookUp,
    Nodes,
    Projections,
    PutNodes,
    Refused,
    Registered,
    RegisterProjection,
    RegisterTrigger,
    Result,
    RunProcedure,
    RunTriggered,
    Transact,
    TransactRead,
    TransactStored,
    Tree,
    UnregisterProjections,
    Value,
    combined,
    compiled,
    format_pattern,
)
from splitbrain.cluster.tree.conditions import compares, descends, failing, invalid_part, siblings, simplified, target
from splitbrain.cluster.tree.keepwhile import resolved, unmet_conditions
from splitbrain.cluster.tree.messages import ProjectionKind
from splitbrain.cluster.tree.patterns import abspath, format_component, matches_path, realpath
from splitbrain.cluster.tree.transfer import Record, command_of, export_to, import_from, kept_by, records
from tests.cluster.tree.agreement import agrees
from tests.cluster.tree.interpreter import FUNCTIONS
from tests.cluster.tree.notation import (
    Json,
    NotInNotationError,
    component_json,
    component_of,
    data_pattern,
    encoded,
    keep_while_of,
    node_json,
    path_json,
    pattern_of,
    payload_of,
    plain,
    properties_of,
    shown,
    stored,
    transaction_data,
)
from tests.cluster.tree.rendering import (
    fold,
    kept_json,
    many,
    reason_json,
    record_json,
    record_of,
    refusal_json,
    replaced,
    subtree,
    transacted,
)
from tests.cluster.tree.rendering import got as got_json

_encoder = msgspec.msgpack.Encoder(order="deterministic")


class UnknownOperationError(Exception):
    """The runner does not know this operation."""


class BackendError(Exception):
    """A backend of an export failed, as the case wants it."""


class Runner:
    """One case on an empty store."""

    def __init__(self) -> None:
        self.tree = Tree(version=PATTERNS_COME, functions=FUNCTIONS)
        self._refs = Table()
        self._reports: dict[str, list[Json]] = {}
        self._exported: list[Record] = []
        self._after_setup = b""

    def set_up(self, ops: Iterable[Json]) -> list[Json]:
        """Carry out the operations before the steps; what those gave that failed."""
        failed = [got for got in map(self.step, ops) if "ok" not in got]
        self._after_setup = self.tree.dump()
        return failed

    def step(self, op: Json) -> Json:
        """Carry out an operation, and what triggers ask for afterwards; what it gives."""
        try:
            got = self._carry_out(op)
        except (NotInNotationError, InvalidPathError):
            got = {"error": {"name": "invalid_path", "info": {"path": op.get("path", op.get("condition"))}}}
        self._run_triggered()
        return got

    def _carry_out(self, op: Json) -> Json:
        name: str = op["op"]
        method: Callable[[Json], Json] | None = getattr(self, f"_op_{name}", None)
        if method is not None:
            return method(op)
        if name in ("put", "put_many", "create", "update", "compare_and_swap", "clear_payload", "clear_many_payloads"):
            return self._written(op, self._write_of(op))
        if name in ("delete", "delete_many"):
            options = op.get("options", {})
            many, returns = name == "delete_many", tuple(options.get("props_to_return", DEFAULT_PROPERTIES))
            command = DeleteNodes(pattern_of(op["path"]), many, returns, options.get("return_indirect_deletes", True))
            return self._written(op, command)
        if name in ("exists", "has_data", "is_sproc"):
            whether = "is_procedure" if name == "is_sproc" else name
            return self._valued(self.tree.query(AskNode(pattern_of(op["path"]), whether)))
        raise UnknownOperationError(f"there is no operation {name!r}")

    def _run_triggered(self) -> None:
        while self.tree.triggers.last is not None:
            result = self.tree.execute(RunTriggered(self.tree.triggers.last))
            assert isinstance(result, Value), "that is what it gives"
            for _, given in msgspec.msgpack.decode(result.data):
                if given[0] != "value":
                    continue  # it failed, or there was no procedure
                value = msgspec.msgpack.decode(given[1])
                if isinstance(value, dict) and "report" in value:
                    report = {"executed": True, "action": value["event"]["action"]}
                    report["path"] = path_json(tuple(value["event"]["path"]))
                    if value["as"] is not None:
                        report["as"] = value["as"]
                    self._reports.setdefault(value["report"], []).append(report)

    # --- writes ---------------------------------------------------------------------------------------------------

    def _write_of(self, op: Json) -> PutNodes | ClearNodes:
        options, name = op.get("options", {}), op["op"]
        path, keep_while = pattern_of(op["path"]), keep_while_of(options.get("keep_while"))
        returns = tuple(options.get("props_to_return", DEFAULT_PROPERTIES))
        indirect, many = options.get("return_indirect_deletes", True), "many" in name
        if name.startswith("clear"):
            return ClearNodes(path, many, keep_while, returns, indirect)
        payload = payload_of(op["payload"])
        if name == "create":
            path = combined(path, (IfNodeExists(False),))
        elif name == "update":
            path = combined(path, (IfNodeExists(True),))
        elif name == "compare_and_swap":
            path = combined(path, (IfDataMatches(_encoder.encode(stored(data_pattern(op["pattern"])))),))
        return PutNodes(path, payload, many, keep_while, returns, indirect)

    def _written(self, op: Json, command: Command) -> Json:
        return self._nodes(op, self.tree.execute(command))

    def _nodes(self, op: Json, result: Result) -> Json:
        match result:
            case Nodes(nodes, count):
                return {"ok": {"nodes": list(map(node_json, nodes)), "count": count}} if op.get("adv") else {"ok": True}
            case _:
                return refusal_json(result)

    # --- reads ----------------------------------------------------------------------------------------------------

    def _op_get(self, op: Json) -> Json:
        returns = tuple(op.get("options", {}).get("props_to_return", DEFAULT_PROPERTIES))
        result = self.tree.query(GetNodes(pattern_of(op["path"]), False, returns))
        return got_json(op, result)

    def _op_get_or(self, op: Json) -> Json:
        got = self._op_get(op)
        missing = "error" in got and got["error"]["name"] == "node_not_found"
        return {"ok": {"data": op["default"]}} if missing or got == {"ok": {"none": True}} else got

    def _op_get_many(self, op: Json) -> Json:
        options = op.get("options", {})
        pattern = pattern_of(op["path"])
        if options.get("expect_specific_node"):
            one = self.tree.query(GetNodes(pattern, False))
            if isinstance(one, Refused) and one.reason == "possibly_matching_many_nodes_denied":
                return refusal_json(one)
        returns = tuple(options.get("props_to_return", DEFAULT_PROPERTIES))
        result = self.tree.query(GetNodes(pattern, True, returns, options.get("include_root_props", False)))
        return many(op, result)

    _op_get_many_or = _op_get_many

    def _op_count(self, op: Json) -> Json:
        include_root = op.get("options", {}).get("include_root_props", False)
        return self._valued(self.tree.query(CountNodes(pattern_of(op["path"]), include_root)))

    def _op_is_empty(self, _: Json) -> Json:
        return {"ok": self.tree.query(CountNodes(pattern_of("/**"))) == Value(_encoder.encode(0))}

    def _folded(self, op: Json) -> Json:
        result = self.tree.query(GetNodes(pattern_of(op["path"]), True, DEFAULT_PROPERTIES))
        return fold(op["op"], op["fun"], result)

    _op_fold = _op_map = _op_filter = _folded

    def _op_foreach(self, op: Json) -> Json:
        folded = self._folded(op)
        return folded if "ok" not in folded else {"ok": True}

    def _valued(self, result: Result) -> Json:
        return {"ok": msgspec.msgpack.decode(result.data)} if isinstance(result, Value) else refusal_json(result)

    # --- transactions and procedures ------------------------------------------------------------------------------

    def _op_is_transaction(self, _: Json) -> Json:
        return {"ok": False}

    def _op_transaction(self, op: Json) -> Json:
        data = _encoder.encode(transaction_data(op["ops"], op["return"]))
        writes = op["mode"] == "rw" or (op["mode"] == "auto" and FUNCTIONS.writes("conformance.ops", 1))
        wanted = "conformance.ops", 1, data
        result = self.tree.execute(Transact(*wanted)) if writes else self.tree.query(TransactRead(*wanted))
        return transacted(result, op["ops"])

    def _op_transaction_sproc(self, op: Json) -> Json:
        path = pattern_of(op["path"])
        found = self.tree.query(GetNodes(path, False))
        assert isinstance(found, (Nodes, Refused)), "that is what it gives"
        data = _encoder.encode(op.get("args", []))
        writes = op["mode"] != "ro"
        result = self.tree.execute(TransactStored(path, data)) if writes else self.tree.query(RunProcedure(path, data))
        return transacted(result, op.get("ops", []))

    def _op_run_sproc(self, op: Json) -> Json:
        result = self.tree.query(RunProcedure(pattern_of(op["path"]), _encoder.encode(op.get("args", []))))
        if isinstance(result, Value):
            return {"ok": {"value": plain(result.data)}}
        refused = refusal_json(result)
        if refused["error"]["name"] == "denied_execution_of_non_sproc_node":
            refused["error"]["info"] |= {"path": refused["error"]["info"]["node_path"], "args": op.get("args", [])}
        return refused

    # --- triggers and projections ---------------------------------------------------------------------------------

    def _op_register_trigger(self, op: Json) -> Json:
        event = op["filter"]
        actions = tuple(event.get("on_actions", ("create", "update", "delete")))
        command = RegisterTrigger(
            op["id"], pattern_of(event["path"]), pattern_of(op["sproc"]), actions, event.get("priority", 0)
        )
        return self._nodes({}, self.tree.execute(command))

    def _op_take_report(self, op: Json) -> Json:
        reports = self._reports.get(op["label"], [])
        return {"ok": reports.pop(0) if reports else {"executed": False}}

    def _op_register_projection(self, op: Json) -> Json:
        wanted = op["projection"]
        kinds: dict[str, tuple[ProjectionKind, str | None]] = {
            "copy": ("copy", None),
            "simple": ("simple", "pair"),
            "raises": ("simple", "raises"),
        }
        kind, function = kinds.get(wanted["kind"], ("extended", wanted["kind"].replace("set_", "")))
        tables = [(each["name"], each.get("type", "set")) for each in wanted.get("tables", ())]
        command = RegisterProjection(
            wanted["name"],
            pattern_of(op["path"]),
            kind,
            None if function is None else (f"conformance.{function}", 1),
            tuple(tables or [(wanted["name"], wanted.get("type", "set"))]),
        )
        return self._nodes({}, self.tree.execute(command))

    def _op_unregister_projections(self, op: Json) -> Json:
        names = None if op["names"] == "all" else tuple(op["names"])
        result = self.tree.execute(UnregisterProjections(names))
        assert isinstance(result, Registered), "that is what it gives"
        gone = [{"name": name, "path": path_json(path)} for name, path in result.projections]
        return {"ok": gone if op.get("adv") else True}

    def _op_has_projection(self, op: Json) -> Json:
        registered = self.tree.query(Projections())
        assert isinstance(registered, Registered), "that is what it gives"
        return {"ok": op["name"] in dict(registered.projections)}

    def _op_projection_exists(self, op: Json) -> Json:
        return {"ok": self.tree.projections.table(op["name"]) is not None}

    def _records(self, op: Json) -> list[Json]:
        key = None if "key" not in op else encoded(op["key"])
        result = self.tree.look_up(LookUp(op["name"], key))
        assert isinstance(result, Value), f"the table cannot be read: {result}"
        return [[shown(part) for part in record] for record in msgspec.msgpack.decode(result.data)]

    def _op_projection_all(self, op: Json) -> Json:
        return {"ok": [{"$tuple": record} for record in self._records(op)]}

    _op_projection_lookup = _op_projection_all

    def _op_projection_lookup_value(self, op: Json) -> Json:
        return {"ok": next((record[1] for record in self._records(op)), None)}

    def _op_projection_lookup_values(self, op: Json) -> Json:
        return {"ok": [record[1] for record in self._records(op)]}

    def _op_projection_has_key(self, op: Json) -> Json:
        return {"ok": bool(self._records(op))}

    # --- the tree as a whole --------------------------------------------------------------------------------------

    def _op_tree(self, _: Json) -> Json:
        return {"tree": subtree(self.tree.state.root)}

    def _op_tree_as_after_setup(self, _: Json) -> Json:
        return {"ok": self.tree.dump() == self._after_setup}

    def _op_rewind(self, _: Json) -> Json:
        self.tree = Tree.load(self._after_setup, version=PATTERNS_COME, functions=FUNCTIONS)
        return {"ok": True}

    def _op_keep_while_conds(self, _: Json) -> Json:
        kept = [
            {"path": path_json(node.path), "conds": kept_json(kept_by(node))} for node in self.tree.state.kept_nodes()
        ]
        return {"ok": kept}

    def _op_check_keep_while(self, op: Json) -> Json:
        conditions = keep_while_of(op["conds"]) or ()
        problem = unmet_conditions(self.tree.state.root, resolved(conditions, ()), None)
        if problem is None:
            return {"ok": True}
        return {"ok": False, "failed": reason_json(problem)}

    def _op_repeat(self, op: Json) -> Json:
        for number in range(op["from"], op["to"] + 1):
            step = replaced(op["step"], {"${i}": str(number), "${i-1}": str(number - 1)})
            got = self.step(step)
            if "expect" in step and not agrees(step["expect"], got):
                return {"ok": False, "at": number, "got": got}
        return {"ok": True}

    # --- export, import, duplicates -------------------------------------------------------------------------------

    def _op_export(self, op: Json) -> Json:
        pattern = None if op.get("whole") else pattern_of(op["path"])
        found = list(records(self.tree.state, pattern))
        backend = _Backend(op.get("backend"))
        try:
            export_to(backend, found)
        except BackendError as error:
            return backend.failure(error)
        self._exported = found
        return {"ok": {"records": [record_json(record) for record in found]}}

    def _op_import(self, op: Json) -> Json:
        found = self._exported if op.get("from") == "last_export" else list(map(record_of, op.get("records", ())))
        backend = _Backend(None)
        export_to(backend, found)
        backend = _Backend(op.get("backend"), backend.written)
        try:
            for record in import_from(backend):
                result = self.tree.execute(command_of(record))
                if isinstance(result, Refused):
                    return refusal_json(result)
        except BackendError as error:
            return backend.failure(error)
        return {"ok": True}

    def _op_dedup(self, op: Json) -> Json:
        ref = Ref(op["ref"], 1, 1, op["expires_in_ms"])
        known = self._refs.answer(ref)
        if known is None:
            known = self.tree.execute(self._write_of(op["command"]))
            self._refs.keep(ref, known, 1)
        return self._nodes(op["command"], known)

    def _op_dedup_ack(self, op: Json) -> Json:
        self._refs.drop(tuple((client, 1) for client, _, _ in self._refs.ages() if client == op["ref"]))
        return {"ok": True}

    # --- pure -----------------------------------------------------------------------------------------------------

    def _op_path_from_string(self, op: Json) -> Json:
        pattern = pattern_of(op["arg"])
        return {"ok": path_json(pattern[1:] if pattern[:1] == ("/",) else pattern)}

    def _op_path_to_string(self, op: Json) -> Json:
        return {"ok": format_pattern(pattern_of(op["path"]))}

    def _op_component_to_string(self, op: Json) -> Json:
        return {"ok": format_component(component_of(op["component"]))}

    def _op_path_realpath(self, op: Json) -> Json:
        return {"ok": path_json(realpath(pattern_of(op["path"])))}

    def _op_path_abspath(self, op: Json) -> Json:
        return {"ok": path_json(abspath(pattern_of(op["path"]), pattern_of(op["base"])))}

    def _op_path_combine(self, op: Json) -> Json:
        return {"ok": path_json(combined(pattern_of(op["path"]), tuple(map(component_of, op["conditions"]))))}

    def _op_path_compile(self, op: Json) -> Json:
        return {"ok": path_json(compiled(pattern_of(op["path"])))}

    def _op_condition_compile(self, op: Json) -> Json:
        return {"ok": component_json(simplified(component_of(op["condition"])))}

    def _op_path_validate(self, op: Json) -> Json:
        compiled(pattern_of(op["path"]))
        return {"ok": True}

    def _op_path_target(self, op: Json) -> Json:
        names = [target(component) for component in pattern_of(op["path"])]
        return {"ok": None if None in names else path_json(tuple(name for name in names if name is not None))}

    def _op_component_target(self, op: Json) -> Json:
        name = target(component_of(op["component"]))
        return {"ok": None if name is None else component_json(name)}

    def _op_component_siblings(self, op: Json) -> Json:
        names = siblings(component_of(op["component"]))
        return {"ok": None if names is None else list(map(component_json, names))}

    def _op_condition_is_valid(self, op: Json) -> Json:
        found = invalid_part(component_of(op["condition"]))
        return {"ok": True} if found is None else {"ok": False, "failed": component_json(found[0])}

    def _op_condition_applies_to_descendants(self, op: Json) -> Json:
        return {"ok": descends(component_of(op["condition"]))}

    def _op_condition_is_met(self, op: Json) -> Json:
        path = pattern_of(op["path"])
        name = path[-1] if path else "/"
        assert isinstance(name, str), "the path of a node has names only"
        failed = failing(component_of(op["condition"]), name, properties_of(op["node"]))
        return {"ok": True} if failed is None else {"ok": False, "failed": component_json(failed)}

    def _op_compare_number(self, op: Json) -> Json:
        wanted = component_of({"if_payload_version": op["with"]})
        return {"ok": compares(op["value"], wanted.number)}  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]

    def _op_path_matches_pattern(self, op: Json) -> Json:
        path = tuple(name for name in compiled(pattern_of(op["path"])) if isinstance(name, str))
        pattern = compiled(pattern_of(op["pattern"]))
        return {"ok": matches_path(pattern, path, self.tree.properties)}


class _Backend:
    """Where an export goes to, and an import comes from; it fails where the case says."""

    def __init__(self, wanted: Json, written: bytes = b"") -> None:
        self.written = written
        self._wanted: Json = wanted or {}
        self._writes = False

    def failure(self, error: BackendError) -> Json:
        """What the case expects of it."""
        if self._wanted["how"] == "throw":
            return {"throw": str(error)}
        return {"error": {"name": str(error), "info": {}}}

    def open(self) -> None:
        self._callback("open_write" if not self.written else "open_read")

    def write(self, data: bytes) -> None:
        if self._wanted.get("fails_at") == "abort_write":
            raise BackendError("write")
        self._callback("write")
        self.written += data

    def commit(self) -> None:
        self._callback("commit_write")

    def abort(self) -> None:
        self._callback("abort_write")

    def read(self) -> bytes:
        self._callback("read")
        data, self._wanted = self.written, {**self._wanted}
        self.written = b""
        return data

    def close(self) -> None:
        self._callback("close_read")

    def _callback(self, name: str) -> None:
        if self._wanted.get("fails_at") == name:
            raise BackendError(name)
