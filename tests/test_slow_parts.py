"""Every slow test is in one part, a wrong part is refused, and of a sampled test each n-th case is not slow."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.slow_parts import is_in

pytest_plugins = ["pytester"]

ROOT: Final = Path(__file__).parent.parent

TESTS = [f"tests/cli/test_hunt.py::test_it[{number}]" for number in range(300)]


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_every_test_is_in_one_part_and_parts_are_of_about_the_same_size(parts: int) -> None:
    found = [[test for test in TESTS if is_in(f"{part}/{parts}", test)] for part in range(parts)]
    assert sorted(test for part in found for test in part) == sorted(TESTS)
    assert min(map(len, found)) > len(TESTS) / parts / 2


@pytest.mark.parametrize("part", ["", "3/3", "0/0", "1", "a/b", "-1/3", "0/3/4"])
def test_a_wrong_part_is_refused(part: str) -> None:
    with pytest.raises(pytest.UsageError, match="give which part, from 0, of how many, for example 0/3"):
        is_in(part, TESTS[0])


def test_of_a_sampled_test_each_nth_case_stays_and_the_others_are_slow(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest
        from tests.slow_parts import mark_rest_of_samples

        @pytest.hookimpl(tryfirst=True)
        def pytest_collection_modifyitems(items):
            mark_rest_of_samples(items)
        """
    )
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.sampled(3)
        @pytest.mark.parametrize("case", range(7))
        def test_sampled(case): ...

        @pytest.mark.sampled(2)
        @pytest.mark.parametrize("case", ["x[0]", "y", "z"])
        def test_of_names(case): ...

        def test_other(): ...
        """
    )
    pytester.makeini("[pytest]\nmarkers = sampled\n slow")
    pytester.syspathinsert(ROOT)
    fast = pytester.runpytest_inprocess("-m", "not slow", "-v", "-p", "no:cacheprovider")
    fast.assert_outcomes(passed=3 + 2 + 1, deselected=4 + 1)
    fast.stdout.fnmatch_lines(["*test_sampled[[]0]*", "*test_sampled[[]3]*", "*test_sampled[[]6]*", "*test_other*"])
