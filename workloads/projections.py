"""Projections: every node answers from tables of its own, and what it says was so.

Clients write records and look them up on their own node, which has what it acknowledged; `session` judges that. Others
have records come and go with what keeps them. At the end every node's table has to be what its tree holds. Records that
are looked up are never removed, so that a node which had one never has none of it later: the checker `projections` sees
that, also across restarts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import PROJECTIONS
from splitbrain.harness.contract.read_modes import LOOK_UP
from splitbrain.harness.contract.sessions import ProjectedRecords
from splitbrain.harness.contract.test import OpShape, Test, Workload
from splitbrain.harness.generators import PENDING, Context, Generator, Result, each_thread, final, invoke, reserve
from splitbrain.harness.generators.leaves import assign
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.read_modes import Mixed
from splitbrain.workloads.sessions import ANY, SessionClient

FS: Final = ("write", LOOK_UP, "come-and-go", "compare")


class ProjectionsClient(SessionClient[ProjectedRecords]):
    """Works with the records of its node."""

    operations = PROJECTIONS
    shared_by = ANY

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        key = op.key or ""
        if op.f == "write":
            answer = await self.session.write_record(key, op.value)
        elif op.f == LOOK_UP:
            answer = await self.session.look_up(key)
        elif op.f == "come-and-go":
            answer = await self.session.come_and_go(f"gone-{key}", op.value)
        elif op.f == "compare":
            answer = await self.session.differing_records()
        else:
            raise ProtocolError(f"the projections workload knows no op {op.f!r}, only {', '.join(FS)}.")
        return op.complete("ok", answer.value, term=answer.term)


class ComingAndGoing(msgspec.Struct, frozen=True):
    """Records of the keys 1, 2, 3 and so on, each once."""

    number: int = 1

    def op(self, ctx: Context) -> Result:
        """The next op."""
        op = assign(invoke("come-and-go", self.number, key=str(self.number)), ctx)
        return (PENDING, self) if op is None else (op, ComingAndGoing(self.number + 1))

    def update(self, ctx: Context, event: Op) -> Generator:
        """Nothing that happens changes what is next."""
        return self


def projections(*, nodes: Sequence[NodeId], concurrency: int) -> Workload:
    """The workload for this number of clients of these nodes.

    Where there are two clients for each node, one of them only looks up. Of the others one in three, and one at least,
    has records come and go.

    Args:
        nodes: names of the nodes.
        concurrency: number of clients.
    """
    mixed = Mixed((LOOK_UP,), (LOOK_UP,))
    looking = len(nodes) if concurrency >= 2 * len(nodes) else 0
    coming = max(1, (concurrency - looking) // 3)
    shares = [(looking, Mixed((LOOK_UP,), (), write_share=0.0))] if looking else []
    promises = {
        "follows": {LOOK_UP: ["write", LOOK_UP]},
        "sessions": "connection",
        "linearizable_writes": True,
        "only": ["write", LOOK_UP],
    }
    return Workload(
        name="projections",
        client=ProjectionsClient(),
        generator=reserve(*shares, (coming, ComingAndGoing()), rest=mixed),
        final_generator=each_thread(final(invoke("compare"))),
        checkers=(
            CheckerSpec("session", promises),
            CheckerSpec("projections", {"look_up": LOOK_UP}),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": list(FS), "reads": [LOOK_UP], "under_faults": [LOOK_UP]}),
        ),
        fs=FS,
        needs=frozenset({PROJECTIONS.name}),
        shapes={
            "write": OpShape(keyed=True, value=int),
            LOOK_UP: OpShape(keyed=True),
            "come-and-go": OpShape(keyed=True, value=int, requests=4),
            "compare": OpShape(),
        },
    )
