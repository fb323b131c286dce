from __future__ import annotations

from typing import cast

import pytest

from harness.backends.local import Links
from harness.backends.local.backend import namespaces_problem


@pytest.fixture(params=["namespaces", "proxy"])
def links(request: pytest.FixtureRequest) -> Links:
    """Both ways of cutting links, where namespaces work."""
    wanted = cast(Links, request.param)
    if wanted == "namespaces" and (problem := namespaces_problem()) is not None:
        pytest.skip(f"namespaces do not work here: {problem}")
    return wanted
