"""Systems and their sessions held to their contract."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.membership import Membership
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace, NodeView
from splitbrain.harness.contract.sessions import Answer, Session
from splitbrain.harness.contract.test import System
from splitbrain.harness.validate.values import Wrapper, json_problem, short
from splitbrain.results.errors import ProtocolError

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

    def __init__(self, inner: System) -> None:
        super().__init__(inner)
        self.image: str | None = getattr(inner, "image", None)
        self.uploads: Mapping[str, Path] = getattr(inner, "uploads", {})
        self.immune: Mapping[FaultKind, str] = getattr(inner, "immune", {})
        self.membership: Membership | None = getattr(inner, "membership", None)

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        command: Any = self._inner.command(test, place)
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
        return _ValidSession(session, self.name)

    async def view(self, deployment: Deployment, node: NodeId) -> NodeView | None:
        view: Any = await self._inner.view(deployment, node)
        if view is not None and (not isinstance(view, NodeView) or view.node != node):
            raise ProtocolError(
                f"system {self.name!r}: view of {node} returned {short(view)}, not a NodeView of {node}, or None."
            )
        return view

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        return self._inner.telemetry(test, node_dir)


class _ValidSession(Wrapper):
    def __init__(self, inner: Any, system: str) -> None:
        super().__init__(inner)
        self._system = system

    async def _answer(self, call: str, answer: Awaitable[Any]) -> Answer:
        given = await answer
        if not isinstance(given, Answer):
            raise ProtocolError(f"system {self._system!r}: a session's {call} returned {short(given)}, not an Answer.")
        problem = json_problem(given.value)
        if problem is not None:
            raise ProtocolError(
                f"system {self._system!r}: a session's {call} answered with a value that JSON cannot carry: {problem}."
            )
        return given

    async def read(self, key: str) -> Answer:
        return await self._answer("read", self._inner.read(key))

    async def write(self, key: str, value: Any) -> Answer:
        return await self._answer("write", self._inner.write(key, value))

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        return self._told(
            "compare_and_set", await self._answer("compare_and_set", self._inner.compare_and_set(key, expected, value))
        )

    async def create(self, key: str, value: Any) -> Answer:
        return self._told("create", await self._answer("create", self._inner.create(key, value)))

    async def add(self, collection: str, element: int) -> Answer:
        return await self._answer("add", self._inner.add(collection, element))

    async def elements(self, collection: str) -> Answer:
        answer = await self._answer("elements", self._inner.elements(collection))
        if not isinstance(answer.value, list):
            raise ProtocolError(
                f"system {self._system!r}: a session's elements answered {short(answer.value)}, not a list."
            )
        return answer

    async def lock(self, name: str, owner: int) -> Answer:
        answer = await self._answer("lock", self._inner.lock(name, owner))
        if answer.value is not None and type(answer.value) is not int:
            raise ProtocolError(
                f"system {self._system!r}: a session's lock answered {short(answer.value)}; it answers the fencing "
                "token, a whole number, or None."
            )
        return answer

    async def unlock(self, name: str, owner: int) -> Answer:
        return self._told("unlock", await self._answer("unlock", self._inner.unlock(name, owner)))

    async def close(self) -> None:
        await self._inner.close()

    def _told(self, call: str, answer: Answer) -> Answer:
        if not isinstance(answer.value, bool):
            raise ProtocolError(
                f"system {self._system!r}: a session's {call} answered {short(answer.value)}; it "
                "answers whether it did it: true or false."
            )
        return answer
