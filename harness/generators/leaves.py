"""The leaves from which generators are built: single ops, and functions that make one each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from splitbrain.harness.contract.generator import PENDING, UNASSIGNED, Context, Generator, Result
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Mop, Op


def invoke(f: str, value: Any = None, *, key: str | None = None, mops: tuple[Mop, ...] | None = None) -> Op:
    """An invocation for any free process: what leaves of generators are made of."""
    return Op(process=UNASSIGNED, type="invoke", f=f, key=key, value=value, mops=mops)


OpFunction: TypeAlias = "Callable[[Context], Op]"

Source: TypeAlias = "Generator | Op | OpFunction"
"""What combinators take: a generator, an invocation (once), or a function that makes one each time it is asked."""


def generator(source: Source) -> Generator:
    """A source as a generator.

    Raises:
        ProtocolError: it is none of the three.
    """
    if isinstance(source, Op):
        return _Once(source)
    if hasattr(source, "op") and hasattr(source, "update"):
        return source  # type: ignore[return-value]
    if callable(source):
        return _Each(source)
    raise ProtocolError(
        f"{source!r} is not a generator: give an Op (see invoke), a function of the context, or something with op and "
        f"update."
    )


def name_of_function(make: Callable[..., Any]) -> str:
    """A function that makes ops, and where it is, for an error message."""
    code = getattr(make, "__code__", None)
    place = "" if code is None else f" ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})"
    return f"{getattr(make, '__qualname__', type(make).__name__)}{place}"


def assign(template: Op, ctx: Context) -> Op | None:
    """The template with a free process in it; None if there is none, or if the process that it names is not free."""
    if template.process != UNASSIGNED:
        thread = ctx.thread_of(template.process)
        return template if ctx.free >> thread & 1 else None
    if not ctx.free:
        return None
    return Op(
        process=ctx.processes[ctx.pick(ctx.free)],
        type=template.type,
        f=template.f,
        key=template.key,
        value=template.value,
        mops=template.mops,
        due=template.due,
    )


class _Once(msgspec.Struct, frozen=True):
    """One op, once."""

    template: Op
    deaf: ClassVar[bool] = True

    def op(self, ctx: Context) -> Result:
        op = assign(self.template, ctx)
        return (PENDING, self) if op is None else (op, NOTHING)

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


class _Each(msgspec.Struct, frozen=True):
    """Ops from a function, without end."""

    make: OpFunction
    deaf: ClassVar[bool] = True

    def op(self, ctx: Context) -> Result:
        if not ctx.free:
            return PENDING, self
        made = self.make(ctx)
        if type(made) is not Op:  # pyright: ignore[reportUnnecessaryComparison]
            raise ProtocolError(
                f"generator {name_of_function(self.make)} returned {made!r:.80}: a generator function returns an op "
                'each time, such as invoke("read"); limit() and time_limit() end it.'
            )
        op = assign(made, ctx)
        if op is None:
            raise ProtocolError("a function given to each() named a process that is not free: leave the process unset.")
        return op, self

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


class _Nothing(msgspec.Struct, frozen=True):
    """No op at all."""

    deaf: ClassVar[bool] = True

    def op(self, ctx: Context) -> Result:
        return None

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


NOTHING: Final = _Nothing()


def once(op: Op) -> Generator:
    """That op, once."""
    return _Once(op)


def each(make: OpFunction) -> Generator:
    """Calls `make(ctx)` for every op, without end. `make` is called only when its op will be carried out."""
    return _Each(make)
