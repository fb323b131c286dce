"""Every slow test is in one part, and a wrong part is refused."""

from __future__ import annotations

import pytest

from tests.slow_parts import is_in

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
