"""Every rule of a protocol that somebody else's code can break, and the sentence that says so."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from worlds import NODES, FakeClient, FakeNemesis, MemoryBackend, MemoryDeployment, MemorySystem, make_test

from splitbrain import real_runtime
from splitbrain.harness import validate
from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.deployments import StopsInGoodOrder
from splitbrain.harness.contract.faultkinds import supported
from splitbrain.harness.contract.moments import HearsMarks, Moment, Passed
from splitbrain.harness.contract.nodes import ClockOffset, NodeCommand, NodePlace, NodeStatus, NodeView
from splitbrain.harness.contract.operations import GROUPS
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.sessions import Answer, NonsenseError
from splitbrain.harness.contract.test import NemesisContext, Test
from splitbrain.harness.generators import UNASSIGNED, Context, Pending, clients, invoke, once, time_limit
from splitbrain.harness.validate.values import json_problem
from splitbrain.nemesis.catalogue import build as build_nemesis
from splitbrain.nemesis.catalogue import names_for
from splitbrain.nemesis.compose import Composed
from splitbrain.results.errors import BackendError, FaultNotSupportedError, ProtocolError, UnknownNodeError
from splitbrain.results.history import NEMESIS, Op

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


TEST = make_test(FakeClient())
OP = Op(index=7, process=4, type="invoke", f="read", key="k", node="n2")


def context(free: int = 0b111) -> Context:
    ctx = Context.initial(2, ("n1",), Streams(1)["w"], Streams(1)["n"])
    ctx.free = free
    ctx.processes = [0, 3, NEMESIS]
    ctx.time_ns = 100
    return ctx


# --- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(2**63),
        2**63 - 1,
        1.5,
        "",
        "é\U0001f600",
        [],
        [1, [2, {"a": None}]],
        (1, "x"),
        {"a": {"b": [1]}},
    ],
)
def test_what_json_carries_is_allowed(value: Any) -> None:
    assert validate.json_problem(value) is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (2**63, "does not fit into 64 bits"),
        (float("nan"), "nan has no JSON form"),
        (float("inf"), "no JSON form"),
        ("\ud800", "half a surrogate pair"),
        (b"x", "is a bytes"),
        ({1, 2}, "is a set"),
        ({1: 2}, "key 1 of a mapping"),
        ([1, [object]], "is a type"),
        ({"a": [b"x"]}, "is a bytes"),
        ({"\ud800": 1}, "half a surrogate pair"),
    ],
)
def test_what_json_cannot_carry_is_named(value: Any, problem: str) -> None:
    assert problem in (validate.json_problem(value) or "")


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert "nested deeper" in (validate.json_problem(loop) or "")


# --- generators -----------------------------------------------------------------------------------------------------


class Emits:
    """A generator that answers what it was given."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def op(self, ctx: Context) -> Any:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def update(self, ctx: Context, event: Op) -> Any:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def client_op(process: int = 0, **fields: Any) -> Op:
    values: dict[str, Any] = {"process": process, "type": "invoke", "f": "read", **fields}
    return Op(**values)


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (ValueError("boom"), "op raised ValueError: boom"),
        ("nonsense", "op returned 'nonsense', not None or a pair"),
        ((invoke("read"),), "not None or a pair"),
        ((invoke("read"), once(invoke("read"))), "emitted 'read' without a process"),
        (("read", once(invoke("read"))), "emitted 'read', which is neither an Op nor Pending"),
        ((client_op(), None), "returned None in place of the generator that remains"),
        ((Pending(100), once(invoke("read"))), "asks to be asked again at 100 ns, but it is 100 ns already"),
        ((client_op(1), once(invoke("read"))), "for process 1, but thread 1 carries process 3 now"),
        ((client_op(-7), once(invoke("read"))), "for process -7, which is neither a client nor the nemesis"),
        ((client_op(type="ok"), once(invoke("read"))), "with type 'ok'; it must be 'invoke'"),
        ((client_op(f=""), once(invoke("read"))), "whose f is ''"),
        ((client_op(key=3), once(invoke("read"))), "with key 3; a key is a string"),
        ((client_op(value=b"x"), once(invoke("read"))), "with a value that JSON cannot carry: b'x' is a bytes"),
    ],
)
def test_what_a_generator_does_wrong_is_said(result: Any, problem: str) -> None:
    with pytest.raises(ProtocolError, match="generator Emits") as caught:
        validate.emitted(Emits(result), context())
    assert problem in str(caught.value)


def none(ctx: Context) -> Any:
    """A generator function that its author forgot to finish."""


def raises(ctx: Context) -> Any:
    raise ValueError("boom")


def unnamed(ctx: Context) -> Op:
    return client_op(3, f="")


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (none, r"generator none \(test_validate.py:\d+\) returned None: a generator function returns an op each time"),
        (raises, r"generator raises \(test_validate.py:\d+\): op raised ValueError: boom"),
        (Emits(ValueError("boom")), r"generator Emits.op \(test_validate.py:\d+\): op raised ValueError: boom"),
        (Emits((invoke(""), once(invoke("read")))), "generator Emits emitted '' without a process"),
        (unnamed, r"generator unnamed \(test_validate.py:\d+\) emitted an op whose f is ''"),
    ],
)
def test_inside_of_combinators_the_code_of_the_author_is_named(source: Any, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        validate.emitted(clients(time_limit(1.0, source)), context(free=0b110))


def test_an_op_for_a_busy_process_is_refused() -> None:
    with pytest.raises(ProtocolError, match="'read' for process 3, which is busy"):
        validate.emitted(Emits((client_op(3), once(invoke("read")))), context(free=0b101))


def test_what_is_allowed_passes() -> None:
    assert UNASSIGNED < NEMESIS
    following = once(invoke("x"))
    for result in (
        None,
        (Pending(), following),
        (Pending(101), following),
        (client_op(3), following),
        (client_op(NEMESIS), following),
    ):
        assert validate.emitted(Emits(result), context()) is result


def test_an_update_that_returns_nothing_or_raises_is_refused() -> None:
    with pytest.raises(ProtocolError, match="update returned None"):
        validate.updated(Emits(None), context(), OP)
    with pytest.raises(ProtocolError, match="update raised KeyError"):
        validate.updated(Emits(KeyError("x")), context(), OP)


# --- clients and nemeses --------------------------------------------------------------------------------------------


BAD_COMPLETIONS: list[tuple[Any, str]] = [
    (None, "returned None, not op.complete(...)"),
    ("ok", "returned 'ok', not op.complete(...)"),
    (OP, "returned type 'invoke'; a completion is 'ok', 'fail' or 'info'"),
    (Op(process=5, type="ok", f="read", key="k"), "with process 5 instead of 4"),
    (Op(process=4, type="ok", f="write", key="k"), "with f 'write' instead of 'read'"),
    (Op(process=4, type="ok", f="read", key="j"), "with key 'j' instead of 'k'"),
    (Op(process=4, type="ok", f="read", key="k", term="3"), "the term '3'"),  # type: ignore[arg-type]
    (Op(process=4, type="info", f="read", key="k", error=OSError()), "an error is a string"),  # type: ignore[arg-type]
    (OP.complete("ok", {1, 2}), "a value that JSON cannot carry: {1, 2} is a set"),
    (OP.complete("ok", 2**64), "does not fit into 64 bits"),
]


@pytest.mark.parametrize(("done", "problem"), BAD_COMPLETIONS)
def test_a_completion_that_is_none_is_refused(done: Any, problem: str) -> None:
    async def answer(op: Op) -> Any:
        return done

    async def invoked() -> None:
        client = await validate.client(FakeClient(answer)).open(TEST, MemoryDeployment(), "n1")
        await client.invoke(TEST, OP)

    with pytest.raises(ProtocolError, match=r"client FakeClient: invoke of 'read' \(op 7\)") as caught:
        run(invoked())
    assert problem in str(caught.value)


@pytest.mark.parametrize("kind", ["ok", "fail", "info"])
def test_a_good_completion_passes_unchanged(kind: Any) -> None:
    done = OP.complete(kind, [1, 2], term=3, error="x")

    async def answer(op: Op) -> Op:
        return done

    async def invoked() -> Op:
        client = await validate.client(FakeClient(answer)).open(TEST, MemoryDeployment(), "n1")
        return await client.invoke(TEST, OP)

    assert run(invoked()) is done


def test_open_must_return_a_client_of_its_own() -> None:
    class Opens(FakeClient):
        def __init__(self, opened: Any) -> None:
            super().__init__()
            self.what = opened

        async def open(self, test: Any, deployment: Any, node: str) -> Any:
            return self if self.what == "self" else self.what

    for opened, problem in (
        (None, "open returned None, not a client"),
        (3, "open returned 3, not a client"),
        ("self", "open returned the prototype itself"),
    ):
        with pytest.raises(ProtocolError, match=problem):
            run(validate.client(Opens(opened)).open(TEST, MemoryDeployment(), "n1"))


REPORT = {"fault": "kill", "action": "start", "target": "n2", "cut": [], "down": ["n2"], "paused": []}


def test_a_nemesis_may_tell_more_than_it_must_and_nothing_where_it_does_not_know() -> None:
    class Nemesis(FakeNemesis):
        async def invoke(self, context: NemesisContext, op: Op) -> Any:
            return told

    op = Op(process=NEMESIS, type="invoke", f="kill")
    deployment = MemoryDeployment()
    run(deployment.kill("n2"))
    context = NemesisContext(TEST, deployment, real_runtime(1))
    for told in (op.complete("ok", {**REPORT, "why": "a rack lost power"}), op.complete("info", {}, error="no answer")):
        assert run(validate.nemesis(Nemesis()).invoke(context, op)) == told


NOTHING: dict[str, Any] = {"fault": "kill", "action": "start", "target": "n2", "cut": [], "down": [], "paused": []}


def test_of_several_nemeses_the_one_that_broke_its_contract_is_named() -> None:
    class Silent(FakeNemesis):
        async def invoke(self, context: NemesisContext, op: Op) -> Any:
            return None

    class Other(FakeNemesis):
        fs = frozenset({"pause", "resume"})

    composed = Composed([Other(), Silent()])
    context = NemesisContext(TEST, MemoryDeployment(), real_runtime(1))
    with pytest.raises(ProtocolError, match="nemesis Silent: invoke of 'kill'"):
        run(validate.nemesis(composed).invoke(context, Op(process=NEMESIS, type="invoke", f="kill")))


@pytest.mark.parametrize(
    ("report", "problem"),
    [
        (
            {},
            "reports cut: none. The deployment shows: n1 -> n2. The nemesis reports paused: none. The deployment shows",
        ),
        ({"cut": [["n1", "n2"]], "paused": ["n1"]}, "reports paused: n1. The deployment shows: n3."),
        ({"cut": [["n1", "n2"], ["n2", "n1"]], "paused": ["n3"]}, "reports cut: n1 -> n2, n2 -> n1. The"),
        ({"cut": [["n1", "n2"]], "paused": ["n3"], "down": ["n2"]}, "reports down: n2. The deployment does not"),
    ],
)
def test_a_wrong_report_is_not_verified_and_what_the_deployment_shows_is_recorded(
    report: dict[str, Any], problem: str
) -> None:
    deployment = MemoryDeployment()
    run(deployment.pause("n3"))
    run(deployment.cut(frozenset({("n1", "n2")})))
    done = invoked(deployment, {**NOTHING, **report})
    assert done.type == "info"
    assert problem in done.error
    assert (done.value["cut"], done.value["paused"], done.value["down"]) == ([["n1", "n2"]], ["n3"], [])


@pytest.mark.parametrize(
    ("report", "kind"),
    [
        ({}, "info"),
        ({"over": True}, "ok"),
        ({"evidence": {"bit": True}}, "ok"),
        ({"disks": ["n2"]}, "ok"),
        ({"action": "stop"}, "ok"),
        ({"target": "none: all nodes are down"}, "ok"),
    ],
)
def test_a_fault_that_is_in_force_nowhere_is_not_verified(report: dict[str, Any], kind: str) -> None:
    assert invoked(MemoryDeployment(), {**NOTHING, **report}).type == kind


def test_a_node_that_ended_by_itself_makes_no_report_wrong() -> None:
    deployment = MemoryDeployment()
    run(deployment.kill("n1"))
    assert invoked(deployment, {**NOTHING, "paused": ["n1"]}).type == "ok"


def invoked(deployment: MemoryDeployment, report: dict[str, Any]) -> Any:
    """What becomes of the op of a nemesis that reports so."""

    class Nemesis(FakeNemesis):
        async def invoke(self, context: NemesisContext, op: Op) -> Any:
            return op.complete("ok", report)

    context = NemesisContext(TEST, deployment, real_runtime(1))
    return run(validate.nemesis(Nemesis()).invoke(context, Op(process=NEMESIS, type="invoke", f="kill")))


def test_a_function_that_the_workload_does_not_list_is_refused() -> None:
    async def ask() -> Op:
        client = await validate.client(FakeClient()).open(TEST, MemoryDeployment(), "n1")
        return await client.invoke(TEST, Op(process=1, type="invoke", f="unlisted"))

    with pytest.raises(ProtocolError, match="invokes 'unlisted', which is not in its fs"):
        run(ask())


LACKING = "fault, action, target, cut, down, paused are missing. Return splitbrain.nemesis.effects.carry_out"


@pytest.mark.parametrize(
    ("done", "problem"),
    [
        (Op(process=NEMESIS, type="fail", f="kill"), "returned type 'fail'; a nemesis op ends in 'ok'"),
        (
            Op(process=NEMESIS, type="ok", f="kill", value="done"),
            "in force: it is 'done', and not a dict",
        ),
        (
            Op(process=NEMESIS, type="ok", f="kill", value={}),
            LACKING,
        ),
        (Op(process=NEMESIS, type="ok", f="kill", value=REPORT | {"action": "kill"}), "at `$.action`"),
        (Op(process=NEMESIS, type="ok", f="kill", value={**REPORT, "cut": ["n1"]}), "at `$.cut[0]`"),
        (Op(process=NEMESIS, type="ok", f="start", value={}), "with f 'start' instead of 'kill'"),
        (None, "returned None"),
    ],
)
def test_what_a_nemesis_does_wrong_is_said(done: Any, problem: str) -> None:
    class Nemesis(FakeNemesis):
        async def invoke(self, context: NemesisContext, op: Op) -> Any:
            return done

    with pytest.raises(ProtocolError, match=r"nemesis Nemesis: invoke of 'kill'") as caught:
        run(
            validate.nemesis(Nemesis()).invoke(
                NemesisContext(TEST, MemoryDeployment(), real_runtime(1)), Op(process=NEMESIS, type="invoke", f="kill")
            )
        )
    assert problem in str(caught.value)


# --- systems --------------------------------------------------------------------------------------------------------


class Wrong:
    """A session whose every call answers the same."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __getattr__(self, name: str) -> Any:
        async def call(*_: Any) -> Any:
            return self.answer

        return call


class SystemOf(MemorySystem):
    """A system that answers what it was given."""

    extra = "beyond the protocol"

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer
        self.capabilities = Capabilities(operations=frozenset(GROUPS) if isinstance(answer, Wrong) else frozenset())

    def command(self, test: Any, place: NodePlace) -> Any:
        return self.answer

    async def connect(self, deployment: Any, node: str) -> Any:
        return self.answer

    async def view(self, deployment: Any, node: str) -> Any:
        return self.answer


PLACE = NodePlace("n1", "data", ("127.0.0.1", 1), {})


def test_a_session_must_answer_answers() -> None:
    async def ask(session: Any, call: str, *arguments: Any) -> Any:
        system = validate.system(SystemOf(session))
        return await getattr(await system.connect(MemoryDeployment(), "n1"), call)(*arguments)

    for call, arguments, answer, problem in (
        ("read", ("k",), 3, "a session's read returned 3, not an Answer"),
        ("write", ("k", 1), None, "a session's write returned None"),
        ("read", ("k",), Answer(b"x"), "a session's read answered with a value that JSON cannot carry"),
        ("add", ("c", 1), 1, "a session's add returned 1"),
    ):
        with pytest.raises(ProtocolError, match="system 'memory'") as caught:
            run(ask(Wrong(answer), call, *arguments))
        assert problem in str(caught.value)
    assert run(ask(Wrong(Answer(True, 4)), "create", "k", 1)) == Answer(True, 4)
    for call, arguments, answer, problem in (
        ("compare_and_set", ("k", 1, 2), Answer(None), "compare_and_set was answered with None; expected was whether"),
        ("create", ("k", 1), Answer("yes"), "create was answered with 'yes'"),
        ("elements", ("c",), Answer(None), "elements was answered with None; expected was a list"),
        ("lock", ("l", 1), Answer(True), "lock was answered with True; expected was the fencing token"),
        ("unlock", ("l", 1), Answer(None), "unlock was answered with None; expected was whether"),
    ):
        with pytest.raises(NonsenseError, match=f"nonsense answer: {problem}"):
            run(ask(Wrong(answer), call, *arguments))


def test_what_a_system_does_wrong_is_said() -> None:
    with pytest.raises(ProtocolError, match="connect to n1 returned None, not a Session"):
        run(validate.system(SystemOf(None)).connect(MemoryDeployment(), "n1"))
    with pytest.raises(ProtocolError, match="command for n1 returned"):
        validate.system(SystemOf(["python"])).command(TEST, PLACE)
    for view in ({"leader": "n1"}, NodeView("n2", "leader", 1, "n2")):
        with pytest.raises(ProtocolError, match="view of n1 returned"):
            run(validate.system(SystemOf(view)).view(MemoryDeployment(), "n1"))
    assert run(validate.system(SystemOf(None)).view(MemoryDeployment(), "n1")) is None


class ExitingClient(FakeClient):
    async def setup(self, test: Test) -> None:
        sys.exit("no key")

    async def invoke(self, test: Test, op: Op) -> Op:
        sys.exit(3)


def test_a_client_that_asks_the_process_to_exit_is_named() -> None:
    client = validate.client(ExitingClient())
    with pytest.raises(ProtocolError, match=r"client ExitingClient: invoke of 'read' \(op 7\) asked .* to exit \(3\)"):
        run(client.invoke(TEST, OP))
    with pytest.raises(ProtocolError, match=r"client ExitingClient: setup asked this process to exit \('no key'\)"):
        run(client.setup(TEST))


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("never")


@pytest.mark.parametrize("value", [10**5000, [10**5000], Unspeakable(), {Unspeakable(): 1}], ids=["a", "b", "c", "d"])
def test_a_value_that_cannot_be_shown_is_named_all_the_same(value: Any) -> None:
    problem = json_problem(value)
    assert problem is not None
    assert "its repr raised" in problem


def test_a_value_that_is_long_is_shown_short() -> None:
    assert len(json_problem(10**400) or "") < 200


class BrokenSystem(MemorySystem):
    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        raise OSError("no such tool")

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        return 5  # type: ignore[return-value]


def test_what_a_system_raises_or_answers_by_itself_is_named_as_its_own() -> None:
    with pytest.raises(ProtocolError, match="system 'memory': command for n1 raised OSError: no such tool"):
        validate.system(BrokenSystem()).command(TEST, PLACE)
    with pytest.raises(ProtocolError, match="system 'memory': telemetry for n1 returned 5, not a Path, or None"):
        validate.system(BrokenSystem()).telemetry(TEST, Path("nodes/n1"))


def test_what_only_this_system_offers_stays_reachable() -> None:
    assert validate.system(SystemOf(None)).extra == "beyond the protocol"  # type: ignore[attr-defined]


# --- backends -------------------------------------------------------------------------------------------------------


def deployed(deployment: Any) -> Any:
    return run(validate.backend(MemoryBackend(deployment)).deploy(TEST, Path(), real_runtime(1)))


def test_a_backend_must_speak_about_every_fault() -> None:
    class Silent(MemoryBackend):
        def support(self) -> Any:
            return {"cut": super().support()["cut"]}

    with pytest.raises(ProtocolError, match="support says nothing about delay, loss, duplicate"):
        validate.backend(Silent(MemoryDeployment())).support()


def test_a_backend_that_was_written_before_nodes_were_stopped_in_good_order_goes_on_working() -> None:
    class Old(MemoryBackend):
        def support(self) -> Any:
            return {kind: found for kind, found in super().support().items() if kind != "stop"}

    old, said = validate.backend(Old(MemoryDeployment())), validate.backend(MemoryBackend(MemoryDeployment()))
    assert (old.support()["stop"].works, said.support()["stop"].works) == (False, True)
    assert old.support().keys() == said.support().keys()
    assert supported(Old(MemoryDeployment()), MemorySystem())["stop"] == old.support()["stop"], "as it is, too"
    support = supported(old, MemorySystem())
    assert "restart-in-good-order" not in names_for(support)
    assert build_nemesis(["restart"], support=support).faults == {"kill"}
    with pytest.raises(FaultNotSupportedError, match=r"not say that it can stop nodes .* Leave restart-in-good"):
        build_nemesis(["restart-in-good-order"], support=support)


def stopping(state: Any) -> MemoryDeployment:
    class Stopping(MemoryDeployment):
        async def stop(self, node: str) -> NodeStatus:
            return NodeStatus(state, 1, {"exit": "exit code 0"})

    return Stopping()


def test_a_validated_deployment_stops_nodes_in_good_order_if_its_backend_does() -> None:
    deployment = deployed(stopping("stopped"))
    assert isinstance(deployment, StopsInGoodOrder)
    assert run(deployment.stop("n1")) == NodeStatus("stopped", 1, {"exit": "exit code 0"})
    with pytest.raises(UnknownNodeError, match="no node 'n9'"):
        run(deployment.stop("n9"))
    with pytest.raises(ProtocolError, match="after stop, n1 is running, not stopped"):
        run(deployed(stopping("running")).stop("n1"))
    with pytest.raises(BackendError, match="backend 'memory' cannot stop nodes in good order"):
        run(deployed(MemoryDeployment()).stop("n1"))


def test_a_backend_must_deploy_the_nodes_of_the_test() -> None:
    with pytest.raises(ProtocolError, match="deployed the nodes n1, n2 instead of n1, n2, n3"):
        deployed(MemoryDeployment(NODES[:2]))
    with pytest.raises(ProtocolError, match="deploy returned None"):
        deployed(None)


@pytest.mark.parametrize(
    ("call", "state", "expected"),
    [
        ("start", "stopped", "running"),
        ("kill", "running", "stopped"),
        ("pause", "running", "paused"),
        ("resume", "paused", "running"),
    ],
)
def test_a_fault_that_did_not_take_is_refused(call: str, state: Any, expected: str) -> None:
    class Idle(MemoryDeployment):
        def __getattribute__(self, name: str) -> Any:
            if name == call:

                async def nothing(node: str) -> NodeStatus:
                    return NodeStatus(state, 1)

                return nothing
            return super().__getattribute__(name)

    with pytest.raises(ProtocolError, match=f"after {call}, n1 is {state}, not {expected}"):
        run(getattr(deployed(Idle()), call)("n1"))


def test_a_paused_node_that_is_to_be_started_stays_paused_and_nothing_is_wrong_with_its_backend() -> None:
    class LeavesAlone(MemoryDeployment):
        async def start(self, node: str) -> NodeStatus:
            return self.states[node] if self.states[node].state == "paused" else await super().start(node)

    deployment = deployed(LeavesAlone())

    async def all_three() -> NodeStatus:
        await deployment.start("n1")
        await deployment.pause("n1")
        return await deployment.start("n1")

    assert run(all_three()).state == "paused"


def test_a_node_that_is_not_in_the_test_is_refused_before_the_backend_sees_it() -> None:
    deployment = deployed(MemoryDeployment())
    for call in ("start", "kill", "pause", "resume", "status", "dial"):
        with pytest.raises(UnknownNodeError, match=r"no node 'n9' in this test\. Known: n1, n2, n3"):
            run(getattr(deployment, call)("n9"))
    with pytest.raises(UnknownNodeError):
        run(deployment.cut(frozenset({("n1", "n9")})))
    with pytest.raises(ProtocolError, match="from n1 to itself"):
        run(deployment.cut(frozenset({("n1", "n1")})))


def test_measurements_must_cover_what_was_asked() -> None:
    class Blind(MemoryDeployment):
        async def passes(self, links: Any) -> Any:
            return {links[0]: True}

    with pytest.raises(ProtocolError, match=r"passes says nothing about n2 -> n1 \(1 of 2 links are missing\)"):
        run(deployed(Blind()).passes([("n1", "n2"), ("n2", "n1")]))


@pytest.mark.parametrize("told", [{"n1": 0.5}, {"n1": ClockOffset(error_ns=-1)}])
def test_offsets_of_clocks_must_be_such(told: Any) -> None:
    class Timeless(MemoryDeployment):
        async def offsets(self) -> Any:
            return told

    with pytest.raises(ProtocolError, match=r"offsets returned .* for n1; it must return a ClockOffset"):
        run(deployed(Timeless()).offsets())


def test_offsets_are_those_of_nodes_of_the_test() -> None:
    class Strange(MemoryDeployment):
        async def offsets(self) -> Any:
            return {"n9": ClockOffset()}

    with pytest.raises(UnknownNodeError, match="no node 'n9'"):
        run(deployed(Strange()).offsets())


MOMENT = Moment(mark="vote granted")


async def nothing(_: str) -> None:
    pass


@pytest.mark.parametrize(
    ("answer", "error", "match"),
    [
        ("n1", ProtocolError, "at_moment returned 'n1', not a moment for which it waited"),
        (Passed(Moment(mark="vote asked"), "n1"), ProtocolError, "not a moment for which it waited"),
        (Passed(MOMENT, "n9"), UnknownNodeError, "no node 'n9'"),
    ],
)
def test_a_moment_that_came_is_one_of_those_waited_for_on_a_node_of_the_test(
    answer: Any, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        run(deployed(hearing(answer)).at_moment([MOMENT], nothing, 1))


def test_a_validated_deployment_hears_marks_if_its_backend_does() -> None:
    deployment = deployed(hearing(Passed(MOMENT, "n1")))
    assert isinstance(deployment, HearsMarks)
    assert inspect.getattr_static(deployment, "at_moment"), "this is what isinstance asks since Python 3.12"
    assert run(deployment.at_moment([MOMENT], nothing, 1)) == Passed(MOMENT, "n1")
    assert run(deployed(hearing(None)).at_moment([MOMENT], nothing, 1)) is None
    with pytest.raises(BackendError, match="does not hear which marks nodes pass"):
        run(deployed(MemoryDeployment()).at_moment([MOMENT], nothing, 1))


def hearing(answer: Any) -> MemoryDeployment:
    class Hearing(MemoryDeployment):
        async def at_moment(self, *_: Any) -> Any:
            return answer

    return Hearing()
