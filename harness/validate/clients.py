"""Clients and nemeses held to their contract."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.test import Client, ComposedNemesis, Nemesis, NemesisContext
from splitbrain.harness.validate.inforce import compared
from splitbrain.harness.validate.values import Wrapper, json_problem, name_of, short
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import report_problem

if TYPE_CHECKING:
    from splitbrain.harness.contract.test import Test


def client(prototype: Client) -> Client:
    """A client, and every client that it opens, held to its contract."""
    return _ValidClient(prototype)


class _ValidClient(Wrapper):
    async def open(self, test: Test, deployment: Deployment, node: NodeId) -> Client:
        with self._refused_exit(f"open of {node}"):
            inner = await self._inner.open(test, deployment, node)
        if inner is None or not hasattr(inner, "invoke"):
            raise ProtocolError(f"client {name_of(self._inner)}: open returned {short(inner)}, not a client.")
        if inner is self._inner:
            raise ProtocolError(
                f"client {name_of(self._inner)}: open returned the prototype itself; every process "
                "needs its own client."
            )
        return _ValidClient(inner)

    async def setup(self, test: Test) -> None:
        with self._refused_exit("setup"):
            await self._inner.setup(test)

    async def invoke(self, test: Test, op: Op) -> Op:
        if op.f not in test.workload.fs:
            raise ProtocolError(
                f"workload {test.workload.name!r} invokes {op.f!r}, which is not in its fs "
                f"({', '.join(test.workload.fs)}): add it, so that coverage checks it."
            )
        try:
            done = await self._inner.invoke(test, op)
        except SystemExit as error:
            raise self._exit_refused(f"invoke of {op.f!r} (op {op.index})", error) from error
        problem = _completion_problem(op, done)
        if problem is not None:
            raise ProtocolError(f"client {name_of(self._inner)}: invoke of {op.f!r} (op {op.index}) {problem}.")
        return done

    def survives(self, op: Op) -> bool:
        """Whether ops may begin on it after this one."""
        said: Any = self._inner.survives(op)
        if type(said) is not bool:
            raise ProtocolError(
                f"client {name_of(self._inner)}: survives of {op.f!r} (op {op.index}) returned {short(said)}, not True "
                "or False."
            )
        return said

    async def close(self) -> None:
        with self._refused_exit("close"):
            await self._inner.close()

    @contextmanager
    def _refused_exit(self, what: str) -> Generator[None]:
        """A context whose code may not end the process: that would end the run without a word."""
        try:
            yield
        except SystemExit as error:
            raise self._exit_refused(what, error) from error

    def _exit_refused(self, what: str, error: SystemExit) -> ProtocolError:
        return ProtocolError(
            f"client {name_of(self._inner)}: {what} asked this process to exit ({short(error.code)}). Raise an "
            "exception instead."
        )


def _completion_problem(op: Op, done: Any) -> str | None:
    if type(done) is not Op:
        return f"returned {short(done)}, not op.complete(...)"
    if done.type not in ("ok", "fail", "info"):
        return f"returned type {done.type!r}; a completion is 'ok', 'fail' or 'info'"
    if done.process != op.process:
        return f"returned a completion with process {done.process!r} instead of {op.process!r}"
    if done.f != op.f:
        return f"returned a completion with f {done.f!r} instead of {op.f!r}"
    if done.key != op.key:
        return f"returned a completion with key {done.key!r} instead of {op.key!r}"
    if done.term is not None and type(done.term) is not int:
        return f"returned the term {done.term!r}; a term is a whole number"
    if done.error is not None and type(done.error) is not str:
        return f"returned the error {short(done.error)}; an error is a string"
    problem = json_problem(done.value)
    return None if problem is None else f"returned a value that JSON cannot carry: {problem}"


def nemesis(inner: Nemesis) -> Nemesis:
    """A nemesis held to its contract."""
    return _ValidNemesis(inner)


class _ValidNemesis(Wrapper):
    fs: frozenset[str]
    faults: frozenset[FaultKind]

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        name = f"nemesis {name_of(self._handler(op.f))}"
        if op.f not in self._inner.fs:
            raise ProtocolError(
                f"{name} does not handle {op.f!r}, only {', '.join(sorted(self._inner.fs))}: its "
                "generator and its fs disagree."
            )
        done = await self._inner.invoke(context, op)
        problem = _completion_problem(op, done)
        if problem is None and done.type == "fail":
            problem = "returned type 'fail'; a nemesis op ends in 'ok' (verified) or 'info' (not verified)"
        if problem is None and done.type == "ok" and (lacks := report_problem(done.value)) is not None:
            problem = (
                f"returned a value that does not say what is in force: {lacks}. Return "
                "splitbrain.nemesis.effects.carry_out(context, op, ...), or a dict with every field of "
                "splitbrain.results.nemesisop.NemesisReport"
            )
        if problem is not None:
            raise ProtocolError(f"{name}: invoke of {op.f!r} (op {op.index}) {problem}.")
        return await compared(context.deployment, done) if isinstance(done.value, dict) else done

    async def heal(self, context: NemesisContext) -> None:
        await self._inner.heal(context)

    def _handler(self, f: str) -> Any:
        """The nemesis whose code carries out an op: where several are one, the one of this function."""
        several = isinstance(self._inner, ComposedNemesis)
        return (self._inner.handler(f) if several else None) or self._inner
