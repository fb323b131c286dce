"""Generators held to their contract."""

from __future__ import annotations

from traceback import walk_tb
from typing import Any, Final

from splitbrain.harness.generators import UNASSIGNED, Context, Generator, Pending, Result
from splitbrain.harness.generators.leaves import name_of_function
from splitbrain.harness.validate.values import json_problem, name_of, short
from splitbrain.results.errors import ProtocolError, SplitbrainError
from splitbrain.results.history import NEMESIS, Op

_COMBINATORS: Final = "splitbrain.harness.generators."

_INSIDE: Final = ("source", "head", "current")
"""What combinators call the one generator that they ask."""


def emitted(generator: Generator, ctx: Context) -> Result:
    """What a generator answers when asked.

    Raises:
        ProtocolError: it raised, answered something else than its protocol allows, or emitted an op that no free
            process could carry out.
    """
    try:
        result = generator.op(ctx)
    except SplitbrainError:
        raise
    except Exception as error:
        raise ProtocolError(f"generator {_culprit(generator, error)}: op raised {name_of(error)}: {error}.") from error
    if result is None:
        return None
    if type(result) is not tuple or len(result) != 2:  # pyright: ignore[reportUnnecessaryComparison]
        raise ProtocolError(
            f"generator {_author(generator)}: op returned {short(result)}, not None or a pair of an Op "
            "(or Pending) and a generator."
        )
    op, following = result
    if type(op) is Op:
        problem = _emission_problem(op, ctx)
    elif type(op) is Pending:
        late = op.until_ns is not None and op.until_ns <= ctx.time_ns
        problem = f"asks to be asked again at {op.until_ns} ns, but it is {ctx.time_ns} ns already" if late else None
    else:
        problem = f"emitted {short(op)}, which is neither an Op nor Pending"
    if problem is None and following is None:  # pyright: ignore[reportUnnecessaryComparison]
        problem = "returned None in place of the generator that remains"
    if problem is not None:
        raise ProtocolError(f"generator {_author(generator)} {problem}.")
    return result


def _emission_problem(op: Op, ctx: Context) -> str | None:
    process = op.process
    what = f"emitted {op.f!r} for process {process}"
    if process == UNASSIGNED:
        return f"emitted {op.f!r} without a process: generator(op), or a combinator, picks a free one"
    if process < 0 and process != NEMESIS:
        return f"{what}, which is neither a client nor the nemesis"
    thread = ctx.thread_of(process)
    if ctx.processes[thread] != process:
        return f"{what}, but thread {thread} carries process {ctx.processes[thread]} now"
    if not ctx.free >> thread & 1:
        return f"{what}, which is busy" if ctx.threads >> thread & 1 else f"{what}, but the test has no nemesis"
    if op.type != "invoke":
        return f"{what} with type {op.type!r}; it must be 'invoke'"
    if not isinstance(op.f, str) or not op.f:  # pyright: ignore[reportUnnecessaryIsInstance]
        return f"emitted an op whose f is {op.f!r}; it must be a name"
    if op.key is not None and not isinstance(op.key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        return f"{what} with key {op.key!r}; a key is a string"
    problem = json_problem(op.value)
    return None if problem is None else f"{what} with a value that JSON cannot carry: {problem}"


def updated(generator: Generator, ctx: Context, event: Op) -> Generator:
    """The generator after an event.

    Raises:
        ProtocolError: it raised, or returned None.
    """
    try:
        following = generator.update(ctx, event)
    except SplitbrainError:
        raise
    except Exception as error:
        raise ProtocolError(
            f"generator {_culprit(generator, error)}: update raised {name_of(error)}: {error}."
        ) from error
    if following is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise ProtocolError(
            f"generator {_author(generator)}: update returned None; it returns a generator, itself if nothing changed."
        )
    return following


# --- who is at fault --------------------------------------------------------------------------------------------------


def _author(generator: Generator) -> str:
    """The generator inside of our combinators: the class, or the function, that the author of a workload knows."""
    found: Any = generator
    while type(found).__module__.startswith(_COMBINATORS):
        inside = next((getattr(found, name) for name in _INSIDE if hasattr(found, name)), None)
        if inside is None:
            break
        found = inside
    make = getattr(found, "make", None)
    return name_of(found) if make is None else name_of_function(make)


def _culprit(generator: Generator, error: Exception) -> str:
    """Whose code raised an error: the first function that is not splitbrain's, and its place; else as `_author`."""
    for frame, line in walk_tb(error.__traceback__):
        if not str(frame.f_globals.get("__name__")).startswith("splitbrain."):
            return f"{frame.f_code.co_qualname} ({frame.f_code.co_filename.rpartition('/')[2]}:{line})"
    return _author(generator)
