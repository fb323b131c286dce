"""The rows of the suite as a fixture, and an order of the tests in which each row is made once."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.backends.conformance.adapters import ALL, FOREIGN, ROWS, Adapter, Ssh
from tests.backends.conformance.rows import Row
from tests.backends.docker_support import engine
from tests.backends.ssh_support import running_hosts
from tests.backends.support import skip_without_namespaces

__all__ = ["engine"]

_HOSTS = 4
"""Three for the nodes of a row, and one for deployments apart."""


@contextmanager
def _adapter(name: str, request: pytest.FixtureRequest, folder: Path) -> Generator[Adapter, None, None]:
    """The backend of a row, with what it needs."""
    if name == "local":
        skip_without_namespaces()
    if name == "docker":
        request.getfixturevalue("engine")
    if name != "ssh":
        yield ROWS[name]()
        return
    with running_hosts(_HOSTS, folder) as hosts:
        hosts.on(2, f"nft '{FOREIGN}'")
        before = hosts.on(2, "nft list table inet somebody")
        yield Ssh(hosts)
        assert hosts.wait_until_clear() == []
        assert hosts.on(2, "nft list table inet somebody") == before


@pytest.fixture(scope="session", params=ALL)
def row(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Row, None, None]:
    """Each backend in turn. Its nodes are deployed by the first test that measures something on them."""
    with _adapter(request.param, request, tmp_path_factory.mktemp("hosts")) as adapter:
        found = Row(adapter, tmp_path_factory.mktemp("row"))
        try:
            yield found
        finally:
            found.close()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of a row side by side, so that no test for few rows ends a row that is needed again."""
    order = list(ROWS)
    places = [place for place, item in enumerate(items) if _row_of(item) is not None]
    tests = sorted((items[place] for place in places), key=lambda item: order.index(_row_of(item) or ""))
    for place, item in zip(places, tests, strict=True):
        items[place] = item


def _row_of(item: pytest.Item) -> str | None:
    """The row of a test of this suite."""
    if Path(__file__).parent not in item.path.parents or not isinstance(item, pytest.Function):
        return None
    call = getattr(item, "callspec", None)
    return None if call is None else call.params.get("row")
