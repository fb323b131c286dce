"""Which of PostgreSQL's errors are definite."""

from __future__ import annotations

import asyncpg
import pytest

from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.systems.postgresql.errors import error_of, refuses

ABORTED = {
    "40001": "serialization failure",
    "40P01": "deadlock",
    "25006": "a write on a standby",
    "23505": "unique violation",
    "55P03": "a lock that was waited for too long",
    "53300": "too many connections",
    "42P01": "no such table",
}
UNKNOWN = {
    "40003": "statement completion unknown",
    "57P01": "the server is told to shut down, maybe after the commit record",
    "57P02": "another process of the server crashed",
    "08006": "connection failure",
    "53100": "disk full",
    "58030": "I/O error",
    "XX000": "internal error",
    "": "no error of the server",
}


@pytest.mark.parametrize("code", ABORTED)
def test_an_error_that_aborts_is_definite_even_in_answer_to_commit(code: str) -> None:
    assert refuses(code), ABORTED[code]
    error = asyncpg.PostgresError.new({"C": code, "M": "no", "S": "ERROR"})
    assert isinstance(error_of(error, may_have_committed=True), DefiniteError)


@pytest.mark.parametrize("code", UNKNOWN)
def test_any_other_error_in_answer_to_commit_is_indefinite(code: str) -> None:
    assert not refuses(code), UNKNOWN[code]


LOST = [ConnectionResetError("reset"), asyncpg.InterfaceError("closed"), asyncpg.ConnectionDoesNotExistError("gone")]


@pytest.mark.parametrize("error", LOST)
def test_a_lost_connection_is_definite_only_before_something_that_commits_was_sent(error: Exception) -> None:
    assert isinstance(error_of(error, may_have_committed=False), DefiniteError)
    assert isinstance(error_of(error, may_have_committed=True), IndefiniteError)


def test_an_error_is_named_by_its_code_and_message_in_one_line() -> None:
    error = asyncpg.PostgresError.new({"C": "40001", "M": "could not\nserialize", "S": "ERROR"})
    assert str(error_of(error, may_have_committed=True)) == "40001 could not serialize"
    assert str(error_of(OSError(), may_have_committed=True)) == "OSError"
