"""Histories of one cas-register, every client always busy: legal by construction, or with one read that cannot be."""

from __future__ import annotations

import random

import msgspec

from splitbrain.results.history import Op

NEVER_WRITTEN = 1000


def busy_register(
    seed: int, *, clients: int, ops: int, values: int, crashes: float = 0.0, bad: bool = False
) -> list[Op]:
    """Half reads, a quarter writes, a quarter cas, each taking effect at a random moment of its interval.

    A crashed op has taken effect or not, with equal chances. With `bad`, the first read that returns after nine tenths
    of the history returns a value that nobody wrote.
    """
    rng = random.Random(seed)
    register: int | None = None
    process = list(range(clients))
    called: dict[int, Op] = {}
    answered: dict[int, Op] = {}
    history: list[Op] = []
    invoked = 0
    while invoked < ops or called or answered:
        client = rng.randrange(clients)
        if client in answered:
            answer = answered.pop(client)
            history.append(answer)
            if answer.type == "info":
                process[client] += clients
        elif client in called:
            op = called.pop(client)
            crashed = rng.random() < crashes
            if not (crashed and rng.random() < 0.5):
                register, answered[client] = _take_effect(op, register)
            if crashed:
                answered[client] = op.complete("info")
        elif invoked < ops:
            called[client] = _drawn(rng, process[client], values)
            history.append(called[client])
            invoked += 1
    if bad:
        late = range(len(history) * 9 // 10, len(history))
        at = next(i for i in late if history[i].type == "ok" and history[i].f == "read")
        history[at] = msgspec.structs.replace(history[at], value=NEVER_WRITTEN)
    return [msgspec.structs.replace(op, index=i, time=i * 1_000_000) for i, op in enumerate(history)]


def _drawn(rng: random.Random, process: int, values: int) -> Op:
    kind = rng.random()
    if kind < 0.5:
        return Op(process=process, type="invoke", f="read")
    if kind < 0.75:
        return Op(process=process, type="invoke", f="write", value=rng.randrange(values))
    return Op(process=process, type="invoke", f="cas", value=[rng.randrange(values), rng.randrange(values)])


def _take_effect(op: Op, register: int | None) -> tuple[int | None, Op]:
    """The register after an op, and the op's completion; a cas that does not match is answered False."""
    if op.f == "read":
        return register, op.complete("ok", register)
    if op.f == "write":
        return op.value, op.complete("ok", op.value)
    expected, new = op.value
    if register == expected:
        return new, op.complete("ok", op.value)
    return register, op.complete("ok", value=False)
