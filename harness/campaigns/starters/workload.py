"""A workload: clients write and read one register, and every read must be linearizable."""

from __future__ import annotations

from splitbrain import (
    KEY_VALUE,
    CheckerSpec,
    Context,
    KeyValue,
    Op,
    SessionClient,
    Test,
    Workload,
    each,
    invoke,
    mix,
    once,
)

KEY = "starter"


class StarterClient(SessionClient[KeyValue]):
    """A client of one node. What its session raises says whether the op may have happened: let it through."""

    operations = KEY_VALUE

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op."""
        if op.f == "read":
            answer = await self.session.read(KEY)
            return op.complete("ok", answer.value, term=answer.term)
        answer = await self.session.write(KEY, op.value)
        return op.complete("ok", op.value, term=answer.term)


def _write(ctx: Context) -> Op:
    return invoke("write", ctx.rng.below(1_000_000_000))


def starter() -> Workload:
    """The workload; it may take `nodes`, `concurrency`, `rate` and `time_limit_s`, too."""
    return Workload(
        name="starter",
        client=StarterClient(),
        generator=mix(_write, each(lambda _: invoke("read"))),
        final_generator=once(invoke("read")),
        checkers=(CheckerSpec("linearizable", {"model": "register"}), CheckerSpec("stats")),
        fs=("write", "read"),
        needs=frozenset({KEY_VALUE.name}),
    )
