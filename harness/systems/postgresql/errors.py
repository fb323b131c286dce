"""What PostgreSQL's errors mean for a statement: it certainly changed nothing, or its outcome is unknown.

Before COMMIT is sent nothing of a transaction can be seen: the server aborts a transaction whose connection is lost.
After that, only an error of the server says that the transaction was aborted, and not every one does: a server that
shuts down, or crashes, may end connections with errors of class 57P after it has written the commit record, while it
waits for a standby (`SyncRepWaitForLSN` in `syncrep.c`). The same holds for a statement outside of a transaction, which
commits by itself.

Source: the appendix "PostgreSQL Error Codes" of the manual, 12 to 17; class 40 is "transaction rollback".
"""

from __future__ import annotations

from typing import Final

import asyncpg

from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError

_REFUSING_CLASSES: Final = {
    "0A": "feature not supported",
    "21": "cardinality violation",
    "22": "data exception",
    "23": "integrity constraint violation",
    "25": "invalid transaction state, such as a write on a standby",
    "28": "invalid authorization",
    "40": "transaction rollback: serialization failure, deadlock",
    "42": "syntax error or access rule violation",
    "54": "program limit exceeded",
    "55": "object not in prerequisite state, such as a lock that was waited for too long",
}
"""Classes of errors after which the transaction is aborted."""

_UNKNOWN: Final = frozenset({"40003"})
"""Of these classes: statement completion unknown."""

_REFUSING: Final = frozenset({"53300"})
"""Of other classes: too many connections."""

_SHOWN: Final = 200


def error_of(error: Exception, *, may_have_committed: bool) -> DefiniteError | IndefiniteError:
    """What an error of the driver must be raised as.

    Args:
        error: what the driver raised, or the connection.
        may_have_committed: whether what was sent commits, alone or together with what came before it.
    """
    code = str(getattr(error, "sqlstate", "") or "") if isinstance(error, asyncpg.PostgresError) else ""
    text = " ".join(f"{code} {str(error) or type(error).__name__}".split())[:_SHOWN]
    return DefiniteError(text) if not may_have_committed or refuses(code) else IndefiniteError(text)


def refuses(code: str) -> bool:
    """Whether an error with this SQLSTATE, in answer to what commits, says that nothing was committed."""
    return code in _REFUSING or (code[:2] in _REFUSING_CLASSES and code not in _UNKNOWN)
