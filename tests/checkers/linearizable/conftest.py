from __future__ import annotations

import pytest

from splitbrain.checkers import linearizable


@pytest.fixture(scope="session", autouse=True)
def _compiled_kernels() -> None:
    """Compilation belongs to set-up, not to a test's time."""
    linearizable.warm_up()
