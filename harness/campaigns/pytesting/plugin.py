"""pytest's hooks: options, the marker, and the fixture `splitbrain`. Loaded by every pytest where splitbrain is
installed: so only pytest is imported here, and the rest once a test asks for the fixture.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from splitbrain.harness.campaigns.pytesting.runs import Splitbrain

MARKER = (
    "splitbrain(matrix=FILE, seeds=N or [N, ...], budget=TIME, inconclusive='skip' or 'fail', **options): what the "
    "fixture `splitbrain` runs; options are those of `splitbrain run`, and a list of values makes a test for each."
)

BEGAN = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options; docs/nightly.md describes them."""
    group = parser.getgroup("splitbrain", "consistency tests")
    group.addoption("--splitbrain-seed", metavar="N[,N...]", help="Run each test with these seeds.")
    group.addoption("--splitbrain-seeds", type=int, metavar="N", help="Run each test with so many seeds of its own.")
    group.addoption("--splitbrain-backend", metavar="NAME", help="Where nodes run, instead of what tests say.")
    group.addoption(
        "--splitbrain-budget",
        metavar="TIME",
        help="Skip tests that begin later than so long (90s, 30m, 8h) after this process of pytest.",
    )
    group.addoption("--splitbrain-store", metavar="DIR", help="The folder of stored runs.  [default: store]")
    group.addoption(
        "--splitbrain-inconclusive",
        choices=["skip", "fail"],
        help="What an inconclusive run does to its test.  [default: skip]",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and note when this process began."""
    config.addinivalue_line("markers", MARKER)
    config.stash[BEGAN] = time.monotonic()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each combination of options and each seed."""
    if "splitbrain" not in metafunc.fixturenames:
        return
    from splitbrain.harness.campaigns.pytesting.combining import combinations
    from splitbrain.results.errors import UsageError

    markers = list(metafunc.definition.iter_markers("splitbrain"))
    try:
        found = combinations(markers, metafunc.config.option, metafunc.definition.nodeid, metafunc.config.rootpath)
    except UsageError as error:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: {error}") from None
    if found is not None:
        ids = [each.id for each in found]
        metafunc.parametrize("splitbrain", found, indirect=True, ids=ids)


@pytest.fixture
def splitbrain(request: pytest.FixtureRequest) -> Splitbrain:
    """Runs consistency tests: `splitbrain.run(workload="register", nemesis="kill")`, `splitbrain.run(test, backend)`.

    A violation fails the test with the verdict's sentence, its witness, and commands that repeat it.
    """
    from splitbrain.harness.campaigns.pytesting.combining import Combination, combinations
    from splitbrain.harness.campaigns.pytesting.runs import Splitbrain

    config: Any = request.config
    chosen = getattr(request, "param", None)
    if not isinstance(chosen, Combination):
        markers = list(request.node.iter_markers("splitbrain"))
        [chosen] = combinations(markers, config.option, request.node.nodeid, config.rootpath, always=True) or [None]
    assert isinstance(chosen, Combination)
    return Splitbrain(chosen, config.option, request.node, config.rootpath, config.stash[BEGAN])
