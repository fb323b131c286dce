"""Systems and their sessions held to their contract."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from splitbrain.harness.contract.answers import misfit
from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace, NodeView
from splitbrain.harness.contract.operations import GROUPS, calls, group_named, need
from splitbrain.harness.contract.sessions import Answer, NonsenseError, Session
from splitbrain.harness.contract.test import System
from splitbrain.harness.validate.values import Wrapper, json_problem, name_of, short
from splitbrain.results.errors import ProtocolError, SplitbrainError

if TYPE_CHECKING:
    from pathlib import Path  # noqa: TID251 - for types

    from splitbrain.harness.contract.test import Test


def system(inner: System) -> System:
    """A system, and every session with it, held to its contract."""
    return _ValidSystem(inner)


class _ValidSystem(Wrapper):
    name: str
    bugs: Mapping[str, str]
    election_timeout_s: float
    capabilities: Capabilities

    def __init__(self, inner: System) -> None:
        super().__init__(inner)
        self._answering = _calls_that_answer(inner.capabilities.operations)

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        command: Any = self._called("command", place.node, lambda: self._inner.command(test, place))
        if not isinstance(command, NodeCommand) or not command.argv:
            raise ProtocolError(
                f"system {self.name!r}: command for {place.node} returned {short(command)}, not a "
                "NodeCommand with at least the program in argv."
            )
        return command

    async def connect(self, deployment: Deployment, node: NodeId) -> Session:
        session: Any = await self._inner.connect(deployment, node)
        if session is None or not hasattr(session, "close"):
            raise ProtocolError(f"system {self.name!r}: connect to {node} returned {short(session)}, not a Session.")
        try:
            for group in sorted(self.capabilities.operations):
                need(session, group_named(group), self.name)
        except ProtocolError:
            await session.close()
            raise
        return _ValidSession(session, self.name, self._answering)

    async def view(self, deployment: Deployment, node: NodeId) -> NodeView | None:
        view: Any = await self._inner.view(deployment, node)
        if view is not None and (not isinstance(view, NodeView) or view.node != node):
            raise ProtocolError(
                f"system {self.name!r}: view of {node} returned {short(view)}, not a NodeView of {node}, or None."
            )
        return view

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        found: Any = self._called("telemetry", node_dir.name, lambda: self._inner.telemetry(test, node_dir))
        if found is not None and not hasattr(found, "__fspath__"):
            raise ProtocolError(
                f"system {self.name!r}: telemetry for {node_dir.name} returned {short(found)}, not a Path, or None."
            )
        return found

    def _called(self, name: str, node: NodeId, call: Callable[[], Any]) -> Any:
        """The answer of a method; what it raises is named as its own, unless it says itself what is to be done."""
        try:
            return call()
        except SplitbrainError:
            raise
        except (Exception, SystemExit) as error:
            raise ProtocolError(
                f"system {self.name!r}: {name} for {node} raised {name_of(error)}: {error}. Correct its code (--debug "
                "before the command shows where)."
            ) from error


def _calls_that_answer(operations: frozenset[str]) -> frozenset[str]:
    """The calls of these groups that return an `Answer`.

    Groups of other packages are left out: what their calls return, only their workloads know.
    """
    known = [GROUPS[name] for name in sorted(operations & GROUPS.keys())]
    return frozenset(name for group in known for name, awaited in calls(group.protocol).items() if awaited)


class _ValidSession(Wrapper):
    def __init__(self, inner: Any, system: str, answering: frozenset[str]) -> None:
        super().__init__(inner)
        self._system = system
        self._answering = answering

    def __getattr__(self, name: str) -> Any:
        """A method of the session; it is looked up here once, and found in the instance from then on."""
        found = super().__getattr__(name)
        if name in self._answering:
            found = self.__dict__[name] = self._checked(name, found)
        return found

    def _checked(self, name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Answer]]:
        async def checked(*arguments: Any, **named: Any) -> Answer:
            answer = await call(*arguments, **named)
            if not isinstance(answer, Answer):
                raise self._broken(name, f"returned {short(answer)}, not an Answer")
            wanted = misfit(name, (*arguments, *named.values()), answer.value)
            if wanted is not None:
                raise NonsenseError(f"{name} was answered with {short(answer.value)}; expected was {wanted}")
            problem = json_problem(answer.value)
            if problem is not None:
                raise self._broken(name, f"answered with a value that JSON cannot carry: {problem}")
            return answer

        return checked

    def _broken(self, call: str, problem: str) -> ProtocolError:
        return ProtocolError(f"system {self._system!r}: a session's {call} {problem}.")

    async def close(self) -> None:
        await self._inner.close()
