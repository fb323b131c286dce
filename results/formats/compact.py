"""The compact format of a cas-register history: one call or return a line.

    c ID CLIENT F A B      F: 0 read, 1 write of A, 2 cas of A to B; -1 is nil
    r ID ok|fail VALUE     VALUE: what a read returned

A return of `fail` for a cas is an answer, that the compare did not match: an `ok` cas with the value False. An op
without return crashed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from results.errors import HistoryFormatError
from results.formats import OpenOps, whole_lines
from results.history import Op

_FUNCTIONS: Final = ("read", "write", "cas")


def read(lines: Iterable[str], source: str) -> Iterator[Op]:
    """The ops of a file; `source` names it in errors.

    Raises:
        HistoryFormatError: a line is neither a call nor the return of an op that was called.
    """
    open_ops = OpenOps(source)
    called: dict[int, Op] = {}
    for number, line in whole_lines(lines, source):
        words = line.split()
        try:
            if words[0] == "c" and len(words) == 6:
                op = _call(*(int(word) for word in words[2:]))
                called[int(words[1])] = op
                yield from open_ops.invoke(op)
            elif words[0] == "r" and len(words) == 4 and words[2] in ("ok", "fail"):
                op = called.pop(int(words[1]))
                open_ops.take(op.process, op.f, number)
                yield _return(op, words[2] == "ok", int(words[3]))
            else:
                raise HistoryFormatError(
                    source, f"expected 'c ID CLIENT F A B' or 'r ID ok|fail VALUE', found {line[:60]!r}.", line=number
                )
        except ValueError as error:
            raise HistoryFormatError(source, f"{error}, in {line[:60]!r}.", line=number) from error
        except KeyError:
            raise HistoryFormatError(source, f"op {words[1]} returns, but is not under way.", line=number) from None


def _call(process: int, f: int, a: int, b: int) -> Op:
    if not 0 <= f < len(_FUNCTIONS):
        raise ValueError(f"expected F as 0, 1 or 2, found {f}")
    value = (None, _nil(a), [_nil(a), _nil(b)])[f]
    return Op(process=process, type="invoke", f=_FUNCTIONS[f], value=value)


def _return(op: Op, ok: bool, value: int) -> Op:
    if op.f == "cas" and not ok:
        return op.complete("ok", value=False)
    if not ok:
        return op.complete("fail")
    return op.complete("ok", _nil(value) if op.f == "read" else op.value)


def _nil(number: int) -> int | None:
    return None if number == -1 else number
