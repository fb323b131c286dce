from __future__ import annotations

from typing import cast

import pytest

from splitbrain.harness.backends.local import Links
from tests.backends.support import skip_without_namespaces


@pytest.fixture(params=["namespaces", "proxy"])
def links(request: pytest.FixtureRequest) -> Links:
    """Both ways of cutting links, where namespaces work."""
    wanted = cast(Links, request.param)
    if wanted == "namespaces":
        skip_without_namespaces()
    return wanted
