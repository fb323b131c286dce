"""Which of etcd's errors are definite."""

from __future__ import annotations

import json

import pytest

from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.systems.etcd.errors import error_of

REFUSED = [
    (3, "etcdserver: key is not provided"),
    (3, "etcdserver: request is too large"),
    (5, "etcdserver: requested lease not found"),
    (7, "etcdserver: permission denied"),
    (8, "etcdserver: too many requests"),
    (2, "etcdserver: too many requests"),  # etcd hands it on without its code
    (9, "etcdserver: not capable"),
    (11, "etcdserver: mvcc: required revision has been compacted"),
    (12, "unknown service"),
    (14, "etcdserver: no leader"),
    (2, "raft proposal dropped"),
]
UNKNOWN = [
    (1, "context canceled"),
    (2, "raft: stopped"),
    (2, "something new"),
    (4, "context deadline exceeded"),
    (8, "grpc: received message larger than max"),
    (8, "etcdserver: mvcc: database space exceeded"),
    (13, "transport is closing"),
    (14, "etcdserver: leader changed"),
    (14, "etcdserver: request timed out"),
    (14, "etcdserver: request timed out, possibly due to previous leader failure"),
    (14, "etcdserver: request timed out, possibly due to connection lost"),
    (14, "etcdserver: server stopped"),
    (14, "all SubConns are in TransientFailure"),
    (15, "etcdserver: corrupt cluster"),
    (99, "from the future"),
]


def answered(code: int, message: str) -> DefiniteError | IndefiniteError | None:
    return error_of(503, json.dumps({"code": code, "message": message}).encode())


@pytest.mark.parametrize(("code", "message"), REFUSED)
def test_what_is_refused_before_it_is_proposed_or_by_every_node_is_definite(code: int, message: str) -> None:
    error = answered(code, message)
    assert isinstance(error, DefiniteError)
    assert message in str(error)


@pytest.mark.parametrize(("code", "message"), UNKNOWN)
def test_what_may_still_happen_is_indefinite(code: int, message: str) -> None:
    error = answered(code, message)
    assert isinstance(error, IndefiniteError)
    assert message in str(error)


def test_an_error_names_its_code_as_grpc_does() -> None:
    assert str(answered(14, "etcdserver: request timed out")) == "UNAVAILABLE: etcdserver: request timed out"
    assert str(answered(99, "odd")) == "code 99: odd"


def test_a_result_is_no_error_whatever_it_holds() -> None:
    assert error_of(200, b'{"code":14,"message":"x"}') is None
