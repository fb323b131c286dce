"""One service for the folder; every test has a prefix of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .s3 import CREDENTIALS, address, serving


@pytest.fixture(scope="session")
def service() -> Iterator[int]:
    """The port of a service."""
    with serving() as port:
        yield port


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def there(service: int, request: pytest.FixtureRequest) -> str:
    """The address of a store that is not there yet."""
    name = request.node.name.translate({ord("["): "-", ord("]"): None})
    return address(service, f"nights/{name[:40]}{name[-20:]}")
