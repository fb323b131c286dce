"""What a registered function may use, so that every member comes to the same result (KH-8, D13).

Khepri checks the compiled code of a transaction when it is registered (horus); so do we. A function is refused, with
what is wrong and where, if it, or a function that it calls, uses

- a clock, randomness, files, the network or modules at all: nothing is imported, and of its module's names it may use
  other functions, constants that cannot change, and frozen structs; of Python's built-in functions those of `ALLOWED`;
- the order of a set: no sets and no operators that make sets of the keys of two dicts (`&`, `|`, `^`; views of dicts
  are iterated or passed to `sorted` and the like, nothing else);
- what differs between processes: hashes and addresses (`hash`, `id`, `repr`);
- state outside of the tree: globals that can change, variables of an enclosing function, defaults that can change;
- the depth of the stack: no function calls itself, directly or by others;
- back doors: names that begin with an underscore, `str.format`, and coroutines.

Then it is made anew with nothing else in reach: its globals hold what was checked, and its built-in functions are the
allowed ones. What the inspection missed thus fails, on every member alike, and rolls the transaction back. A function
is part of the program, and reviewed with it: the check finds mistakes, and is no prison for hostile code.
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Callable, Iterator
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType, FunctionType
from typing import Any, Final

import msgspec

from splitbrain.cluster.errors import FunctionRefusedError

ALLOWED: Final[tuple[str, ...]] = (
    "abs", "all", "any", "bool", "bytes", "dict", "divmod", "enumerate", "filter", "float", "int", "isinstance", "len",
    "list", "map", "max", "min", "next", "pow", "range", "reversed", "round", "slice", "sorted", "str", "sum", "tuple",
    "zip", "Exception", "ArithmeticError", "AssertionError", "IndexError", "KeyError", "LookupError", "OverflowError",
    "StopIteration", "TypeError", "ValueError", "ZeroDivisionError",
)  # fmt: skip
"""Built-in functions and exceptions that a registered function may use."""

_BUILTINS: Final = {name: getattr(builtins, name) for name in ALLOWED}

_REFUSED_OPERATIONS: Final = {
    "IMPORT_NAME": "it imports a module",
    "STORE_GLOBAL": "it changes a global",
    "DELETE_GLOBAL": "it changes a global",
    "BUILD_SET": "it makes a set, whose order differs between processes; use a dict or a sorted list",
    "SET_UPDATE": "it makes a set, whose order differs between processes; use a dict or a sorted list",
    "LOAD_BUILD_CLASS": "it defines a class",
}
_SET_OPERATORS: Final = ("&", "|", "^", "&=", "|=", "^=")
_VIEWS: Final = ("keys", "items", "values")
_TAKE_VIEWS: Final = ("sorted", "list", "tuple", "len", "dict", "sum", "min", "max", "any", "all", "enumerate", "zip")
_REFUSED_ATTRIBUTES: Final = ("format", "format_map", "encode_into")
_FLAGS: Final = CO_COROUTINE | CO_ASYNC_GENERATOR | CO_GENERATOR
_CALLS: Final = ("CALL", "CALL_FUNCTION", "CALL_KW", "CALL_FUNCTION_KW", "PRECALL", "CALL_METHOD")
_SKIPPED: Final = ("CACHE", "PRECALL", "NOP", "EXTENDED_ARG", "PUSH_NULL", "RESUME", "NOT_TAKEN")


def restricted(function: Callable[..., Any]) -> FunctionType:
    """The function, made anew with nothing in reach but what was checked.

    Raises:
        FunctionRefusedError: it uses something that may differ between members; the message says what, and where.
    """
    return _Maker().made(function)


def uses(function: Callable[..., Any], names: frozenset[str]) -> bool:
    """Whether a function, or one that it calls, uses an attribute of one of these names."""
    pending, seen = [_function(function)], dict[FunctionType, None]()
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen[current] = None
        for code in _codes(current.__code__):
            if names & frozenset(code.co_names):
                return True
            found = (current.__globals__.get(name) for name in code.co_names)
            pending.extend(value for value in found if isinstance(value, FunctionType))
    return False


class _Maker:
    def __init__(self) -> None:
        self._made: dict[FunctionType, FunctionType] = {}
        self._under_way: list[FunctionType] = []

    def made(self, given: Callable[..., Any]) -> FunctionType:
        function = _function(given)
        if function in self._made:
            return self._made[function]
        if function in self._under_way:
            raise _refused(function.__code__, "it calls itself, and how deep it may do so differs; write a loop")
        self._under_way.append(function)
        _check_outside(function)
        reachable: dict[str, Any] = {"__builtins__": dict(_BUILTINS), "__name__": function.__module__}
        for code in _codes(function.__code__):
            _check_code(code)
            for name in _global_names(code):
                if name in function.__globals__:
                    reachable[name] = self._value(code, name, function.__globals__[name])
                elif name not in _BUILTINS:
                    raise _refused(
                        code,
                        f"it uses {name}, which is neither defined before it nor a built-in function that is allowed",
                    )
        anew = FunctionType(function.__code__, reachable, function.__name__, function.__defaults__)
        anew.__kwdefaults__ = function.__kwdefaults__
        self._under_way.pop()
        self._made[function] = anew
        return anew

    def _value(self, code: CodeType, name: str, value: Any) -> Any:
        if isinstance(value, FunctionType):
            return self.made(value)
        if _is_constant(value) or _is_struct(value) or _is_exception(value):
            return value
        kind = type(value).__name__
        raise _refused(code, f"it uses {name}, a {kind}, which is no function, constant or frozen struct")


def _function(given: Callable[..., Any]) -> FunctionType:
    if isinstance(given, FunctionType):
        return given
    raise FunctionRefusedError(f"{type(given).__name__}: only a function that `def` makes can be registered.")


def _refused(code: CodeType, problem: str) -> FunctionRefusedError:
    where = f"{code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno}"
    return FunctionRefusedError(f"{code.co_name} ({where}) cannot be registered: {problem}.")


def _check_outside(function: FunctionType) -> None:
    code = function.__code__
    if code.co_flags & _FLAGS:
        raise _refused(code, "it is a generator or a coroutine")
    if function.__closure__:
        raise _refused(code, f"it uses variables of the function around it: {', '.join(code.co_freevars)}")
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if not all(map(_is_constant, defaults)):
        raise _refused(code, "it has a default that can change")


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of those within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _check_code(code: CodeType) -> None:
    if code.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
        raise _refused(code, "it has a coroutine in it")
    if any(isinstance(constant, frozenset) for constant in code.co_consts):
        raise _refused(code, "it makes a set, whose order differs between processes; use a tuple")
    instructions = [step for step in dis.get_instructions(code) if step.opname not in _SKIPPED]
    for at, step in enumerate(instructions):
        if step.opname in _REFUSED_OPERATIONS:
            raise _refused(code, _REFUSED_OPERATIONS[step.opname])
        if step.opname == "BINARY_OP" and step.argrepr in _SET_OPERATORS:
            raise _refused(code, f"it uses {step.argrepr}, which makes sets of the keys of dicts")
        if step.opname == "PUSH_EXC_INFO" and instructions[at + 1].opname == "POP_TOP":
            raise _refused(code, "it has a bare except, which would catch an abort; name the exceptions")
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR"):
            _check_attribute(code, str(step.argval), instructions, at)


def _check_attribute(code: CodeType, name: str, instructions: list[dis.Instruction], at: int) -> None:
    if name.startswith("_") or name in _REFUSED_ATTRIBUTES:
        raise _refused(code, f"it uses the attribute {name}")
    if name not in _VIEWS:
        return
    following = [step.opname for step in instructions[at + 1 : at + 3]]
    if len(following) == 2 and following[0] in _CALLS:
        if following[1] in ("GET_ITER", "FOR_ITER"):
            return
        called = [step.argval for step in instructions[:at] if step.opname == "LOAD_GLOBAL"]
        if called and called[-1] in _TAKE_VIEWS:
            return
    raise _refused(
        code, f"it does something else with {name}() than to iterate it, or to pass it to sorted, list or len"
    )


def _global_names(code: CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(step.argval)


def _is_constant(value: Any) -> bool:
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return True
    if isinstance(value, tuple):
        return all(map(_is_constant, value))  # pyright: ignore[reportUnknownArgumentType]
    return isinstance(value, msgspec.Struct) and _is_struct(type(value))


def _is_struct(value: Any) -> bool:
    if not (isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__struct_config__.frozen):
        return False
    return not any(
        isinstance(member, FunctionType) and not name.startswith("__") for name, member in vars(value).items()
    )


def _is_exception(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Exception) and value.__name__ in _BUILTINS
