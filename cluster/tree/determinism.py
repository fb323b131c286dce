"""What a registered function may use, so that every member comes to the same result (KH-8, D13).

Khepri checks the compiled code of a transaction when it is registered (horus); so do we. A function is refused, with
what is wrong and where, if it, or a function that it calls, uses

- a clock, randomness, files, the network or modules at all: nothing is imported, and of its module's names it may use
  other functions, constants that cannot change, and frozen structs; of Python's built-in functions those of `ALLOWED`;
- the order of a set: no sets and no operators that make sets of the keys of two dicts (`&`, `|`, `^`; views of dicts
  are iterated or passed to `sorted` and the like, nothing else);
- what differs between processes: hashes and addresses (`hash`, `id`, `repr`, also as `!r`);
- what differs between Pythons and machines: the text of an exception (none is given a name), what counts as a letter
  (`upper`, `isalpha`, ...), `**`, which rounds as the C library does, and `assert`, which `python -O` leaves out; also
  the text of a list or a dict, so `{value}` in a text says of what type it is, as `{value:s}`; some built-in functions
  come in another form (`portable`);
- state outside of the tree: globals that can change, variables of an enclosing function, defaults that can change,
  attributes that are set, and structs with code of their own, such as a default that is made anew each time;
- the depth of the stack: no function calls itself, directly or by others, nor does one within it;
- what ends it from outside: no bare `except` and no `finally`, which could keep an abort from being one, and no
  `except Exception`, which would catch that memory was short on this member;
- back doors: names that begin with an underscore, `str.format`, and coroutines.

Then it is made anew with nothing else in reach: its globals hold what was checked, and its built-in functions are the
allowed ones. What the inspection missed thus fails, on every member alike, and rolls the transaction back. A function
is part of the program, and reviewed with it: the check finds mistakes, and is no prison for hostile code.
"""

from __future__ import annotations

import builtins
import dis
import re
from collections.abc import Callable, Iterable, Iterator
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final, cast

import msgspec

from splitbrain.cluster.errors import FunctionRefusedError
from splitbrain.cluster.tree.portable import PORTABLE

ALLOWED: Final[tuple[str, ...]] = (
    "abs", "all", "any", "bool", "bytes", "dict", "divmod", "enumerate", "filter", "float", "int", "isinstance", "len",
    "list", "map", "max", "min", "next", "pow", "range", "reversed", "round", "slice", "sorted", "str", "sum", "tuple",
    "zip", "ArithmeticError", "AssertionError", "IndexError", "KeyError", "LookupError", "OverflowError",
    "StopIteration", "TypeError", "ValueError", "ZeroDivisionError",
)  # fmt: skip
"""Built-in functions and exceptions that a registered function may use."""


_BUILTINS: Final = {name: getattr(builtins, name) for name in ALLOWED} | PORTABLE

_REFUSED_OPERATIONS: Final = {
    "IMPORT_NAME": "it imports a module",
    "STORE_GLOBAL": "it changes a global",
    "DELETE_GLOBAL": "it changes a global",
    "BUILD_SET": "it makes a set, whose order differs between processes; use a dict or a sorted list",
    "SET_UPDATE": "it makes a set, whose order differs between processes; use a dict or a sorted list",
    "LOAD_BUILD_CLASS": "it defines a class",
    "LOAD_ASSERTION_ERROR": "it uses assert, which python -O leaves out; raise an exception",
    "STORE_ATTR": "it sets an attribute, which would last longer than it runs",
    "DELETE_ATTR": "it deletes an attribute",
}
_REFUSED_OPERATORS: Final = {
    **dict.fromkeys(("&", "|", "^", "&=", "|=", "^="), "which makes sets of the keys of dicts"),
    **dict.fromkeys(("**", "**="), "which rounds floats as each C library does; use pow with whole numbers"),
}
_VIEWS: Final = ("keys", "items", "values")
_TAKE_VIEWS: Final = ("sorted", "list", "tuple", "len", "dict", "sum", "min", "max", "any", "all", "enumerate", "zip")
_REFUSED_ATTRIBUTES: Final = {
    **dict.fromkeys(("format", "format_map", "encode_into"), "a back door"),
    **dict.fromkeys(
        ("upper", "lower", "casefold", "capitalize", "title", "swapcase", "isalpha", "isalnum", "isdigit", "isdecimal",
         "isnumeric", "isidentifier", "isprintable", "islower", "isupper", "istitle"),
        "what it takes for a letter follows the interpreter's version",
    ),
}  # fmt: skip
_FLAGS: Final = CO_COROUTINE | CO_ASYNC_GENERATOR | CO_GENERATOR
_CALLS: Final = ("CALL", "CALL_KW")
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
            _check_templates(code, reachable.values())
        anew = FunctionType(function.__code__, reachable, function.__name__, function.__defaults__)
        anew.__kwdefaults__ = function.__kwdefaults__
        self._under_way.pop()
        self._made[function] = anew
        return anew

    def _value(self, code: CodeType, name: str, value: Any) -> Any:
        if name in _TAKE_VIEWS:
            raise _refused(code, f"it uses {name}, which is not the built-in function of that name")
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
    _check_calls_within(code)
    if any(isinstance(constant, frozenset) for constant in code.co_consts):
        raise _refused(code, "it makes a set, whose order differs between processes; use a tuple")
    instructions = [step for step in dis.get_instructions(code) if step.opname not in _SKIPPED]
    for at, step in enumerate(instructions):
        if step.opname in _REFUSED_OPERATIONS:
            raise _refused(code, _REFUSED_OPERATIONS[step.opname])
        if step.opname == "BINARY_OP" and step.argrepr in _REFUSED_OPERATORS:
            raise _refused(code, f"it uses {step.argrepr}, {_REFUSED_OPERATORS[step.argrepr]}")
        if step.opname in _FORMATS:
            _check_format(code, step, instructions[at - 1])
        if step.opname == "LOAD_COMMON_CONSTANT" and "AssertionError" in step.argrepr:  # since Python 3.14
            raise _refused(code, _REFUSED_OPERATIONS["LOAD_ASSERTION_ERROR"])
        if step.opname == "CHECK_EXC_MATCH" and instructions[at + 2].opname.startswith("STORE_"):
            raise _refused(code, "it gives an exception a name: its text differs between Pythons")
        if step.opname == "PUSH_EXC_INFO" and not _names_exceptions(instructions[at + 1 :]):
            raise _refused(code, "it has a bare except or a finally, which may catch an abort; name the exceptions")
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            _check_attribute(code, str(step.argval), instructions, at)
        if step.opname == "MATCH_CLASS":
            _check_class_pattern(code, instructions[at - 1])


def _check_class_pattern(code: CodeType, before: dis.Instruction) -> None:
    """`case str(upper=found)` reads an attribute as well, and what is found can be called at any time."""
    for name in cast("tuple[str, ...]", before.argval):
        if name.startswith("_") or name in _REFUSED_ATTRIBUTES or name in _VIEWS:
            raise _refused(code, f"it uses the attribute {name} in a pattern of match")


def _check_calls_within(code: CodeType) -> None:
    """Functions that are made in this code know each other by variables: a circle of them has no certain depth."""
    made = _made_within(code)
    known = {name: [other for other in inner.co_freevars if other in made] for name, inner in made.items()}
    for name in made:
        pending, reached = list(known[name]), dict[str, None]()
        while pending:
            other = pending.pop()
            if other == name:
                raise _refused(made[name], "it calls itself, and how deep it may do so differs; write a loop")
            if other not in reached:
                reached[other] = None
                pending.extend(known[other])


def _made_within(code: CodeType) -> dict[str, CodeType]:
    """The functions that this code makes and puts into variables that others of them use, by variable."""
    made: dict[str, CodeType] = {}
    last: CodeType | None = None
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_CONST" and isinstance(step.argval, CodeType):
            last = step.argval
        elif step.opname == "STORE_DEREF" and last is not None:
            made[str(step.argval)] = last
        if step.opname not in ("LOAD_CONST", "MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE", *_SKIPPED):
            last = None
    return made


def _check_attribute(code: CodeType, name: str, instructions: list[dis.Instruction], at: int) -> None:
    if name.startswith("_") or name in _REFUSED_ATTRIBUTES:
        raise _refused(code, f"it uses the attribute {name}: {_REFUSED_ATTRIBUTES.get(name, 'it is none of its own')}")
    if name not in _VIEWS or _is_read_at_once(instructions, at):
        return
    raise _refused(
        code, f"it does something else with {name}() than to iterate it, or to pass it to sorted, list or len"
    )


def _is_read_at_once(instructions: list[dis.Instruction], at: int) -> bool:
    """Whether what the method named here gives is iterated, or is an argument of a function that takes views."""
    if at + 2 >= len(instructions) or instructions[at + 1].opname not in _CALLS:
        return False
    above = 0  # values on the stack that came after the view
    for step in instructions[at + 2 :]:
        if step.opname == "GET_ITER" and above == 0:
            return True
        calls = step.opname in _CALLS
        arguments = (step.arg or 0) + (step.opname == "CALL_KW")  # with the names of those that have one
        if calls and above < arguments:
            return _called_with(instructions[:at], arguments - above - 1) in _TAKE_VIEWS
        # Of what takes values from the stack, only what certainly leaves the view alone.
        takes = arguments + _CALLEE if calls else 0 if step.opname in _PUSHES else _TAKES.get(step.opname)
        if takes is None or takes > above:
            return False
        above += 1 - takes if calls else dis.stack_effect(step.opcode, step.arg, jump=False)
    return False


def _called_with(before: list[dis.Instruction], arguments: int) -> str | None:
    """The name of the global function of a call; None if something else is called, or if that is not certain.

    Args:
        before: the instructions up to the object of a view, which is on top of the stack then.
        arguments: how many arguments of the call are below that.
    """
    left = _CALLEE + arguments + 1  # values on the stack from what is called up to the object
    for step in reversed(before):
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return None
        calls = step.opname in _CALLS
        took = (step.arg or 0) + (step.opname == "CALL_KW") + _CALLEE
        left -= 1 - took if calls else dis.stack_effect(step.opcode, step.arg)
        if left <= 0:
            is_called = step.opname == "LOAD_GLOBAL" and (step.arg or 0) & 1
            return str(step.argval) if left == 0 and is_called else None
    return None


_CALLEE: Final = 2
"""What is called takes so many places on the stack: the other one has the object of a method."""


def _names_exceptions(handler: list[dis.Instruction]) -> bool:
    """Whether a handler begins by comparing with exceptions that are named: not that of `finally`, nor a bare one."""
    for step in handler:
        if step.opname not in ("LOAD_GLOBAL", "BUILD_TUPLE"):
            return step.opname == "CHECK_EXC_MATCH"
    return False


_PUSHES: Final = (
    "LOAD_CONST", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLOSURE", "LOAD_SMALL_INT", "KW_NAMES",
    "LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_BORROW_LOAD_FAST_BORROW", "LOAD_FAST_CHECK",
)  # fmt: skip
_TAKES: Final = {"LOAD_ATTR": 1, "LOAD_METHOD": 1, "MAKE_FUNCTION": 1, "SET_FUNCTION_ATTRIBUTE": 2, "BINARY_OP": 2,
                 "BINARY_SUBSCR": 2}  # fmt: skip


_FORMATS: Final = ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE")
_HAS_SPEC: Final = 4
"""What the argument of FORMAT_VALUE is, until Python 3.12, if there is a format and no conversion such as `!r`."""


def _check_format(code: CodeType, step: dis.Instruction, before: dis.Instruction) -> None:
    """A value in a text needs a format, which a list, a dict or a function does not take: their texts differ."""
    takes_format = step.opname == "FORMAT_WITH_SPEC" or (step.opname == "FORMAT_VALUE" and step.arg == _HAS_SPEC)
    spec = before.argval if takes_format and before.opname == "LOAD_CONST" else None
    if not isinstance(spec, str) or not spec or spec.endswith("n"):
        raise _refused(
            code,
            "it puts a value into a text without a format, and texts of lists, dicts and functions differ between "
            "processes and Pythons; write {value:s} for a text, {value:d} for a whole number",
        )


def _check_templates(code: CodeType, reachable: Iterable[Any]) -> None:
    """The same of `template % values`, by the texts that the code has or reaches."""
    steps = list(dis.get_instructions(code))
    if not any(step.opname == "BINARY_OP" and step.argrepr in ("%", "%=") for step in steps):
        return
    for text in (*(step.argval for step in steps if step.opname == "LOAD_CONST"), *reachable):
        template = text.decode("latin-1") if isinstance(text, bytes) else text
        if isinstance(template, str) and _ANY_VALUE.search(template.replace("%%", "")):
            raise _refused(code, "it uses %s, %r or %a, which take lists, dicts and functions; join texts with +")


_ANY_VALUE: Final = re.compile(r"%(\([^)]*\))?[-#0 +]*(\*|\d+)?(\.(\*|\d+))?[hlL]?[sra]")


def _global_names(code: CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(step.argval)


def _is_constant(value: Any) -> bool:
    if type(value) in (type(None), bool, int, float, str, bytes):  # a class of one's own may do anything
        return True
    if type(value) is tuple:
        return all(map(_is_constant, cast("tuple[Any, ...]", value)))
    if not isinstance(value, msgspec.Struct) or not _is_struct(type(value)):
        return False
    return all(_is_constant(getattr(value, name)) for name in value.__struct_fields__)


def _is_struct(value: Any) -> bool:
    if not (isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__struct_config__.frozen):
        return False
    if any(default is not msgspec.NODEFAULT and not _is_constant(default) for default in value.__struct_defaults__):
        return False
    return all(_is_plain(part) for part in value.__mro__[: value.__mro__.index(msgspec.Struct)])


def _is_plain(part: type) -> bool:
    """Whether a class has fields, constants and what Python and msgspec give it, and no code of its own."""
    return all(
        name in _GIVEN or isinstance(member, (MemberDescriptorType, GetSetDescriptorType)) or _is_constant(member)
        for name, member in vars(part).items()
    )


_GIVEN: Final = frozenset({
    "__annotations__", "__annotations_cache__", "__annotate__", "__annotate_func__", "__conditional_annotations__",
    "__orig_bases__", "__parameters__", "__struct_config__", "__struct_defaults__", "__struct_encode_fields__",
    "__struct_fields__", "__type_params__",
})  # fmt: skip
"""What Python and msgspec put into the class of a struct, besides constants."""


def _is_exception(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Exception) and _BUILTINS.get(value.__name__) is value
