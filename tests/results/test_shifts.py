"""Shifts of figures: a bound that holds for any data, checked against enumeration; and that shifts are found."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.results.shifts import Strata, Stratum, joined, least_p, shift

NONE = Stratum(np.empty(0), np.empty(0))


def _strata(*rest: tuple[list[float], list[float]], pairs: tuple[list[float], list[float]] = ([], [])) -> Strata:
    found = tuple(Stratum(np.asarray(before, float), np.asarray(now, float)) for before, now in rest)
    return Strata(Stratum(np.asarray(pairs[0], float), np.asarray(pairs[1], float)), found)


def _statistic(before: list[float], now: list[float]) -> float:
    """The weighted, centred rank sum of the later values, by counting."""
    every = [*before, *now]
    ranks = [sum(other < value for other in every) + (sum(other == value for other in every) + 1) / 2 for value in now]
    return sum(rank - (len(every) + 1) / 2 for rank in ranks) / (len(every) + 1)


def _exact(strata: Strata) -> float:
    """How often the statistic is as far from 0, of all ways to say which values are the later ones."""
    parts = [each for each in strata.rest if len(each.before) and len(each.now)]
    parts += [
        Stratum(np.asarray([a]), np.asarray([b])) for a, b in zip(strata.pairs.before, strata.pairs.now, strict=True)
    ]
    sums = np.zeros(1)
    seen = 0.0
    for part in parts:
        every = [*part.before.tolist(), *part.now.tolist()]
        own = [
            _statistic([v for i, v in enumerate(every) if i not in drawn], [every[i] for i in drawn])
            for drawn in itertools.combinations(range(len(every)), len(part.now))
        ]
        sums = (sums[:, None] + np.asarray(own)[None, :]).ravel()
        seen += _statistic(part.before.tolist(), part.now.tolist())
    return float((np.abs(sums) >= abs(seen) - 1e-9).mean())


_values = st.lists(st.sampled_from([0.0, 1.0, 1.5, 2.0, 7.0, math.inf]), max_size=4)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(_values, _values), min_size=1, max_size=2), st.lists(st.tuples(_values, _values), max_size=1))
def test_the_bound_is_never_less_than_what_counting_all_cases_gives(
    rest: list[tuple[list[float], list[float]]], pairs: list[tuple[list[float], list[float]]]
) -> None:
    both = [(a, b) for one, other in pairs for a, b in zip(one, other, strict=False)]
    strata = _strata(*rest, pairs=([a for a, _ in both], [b for _, b in both]))
    found, exact = shift(strata), _exact(strata)
    assert found.p >= exact - 1e-9
    assert least_p(strata) <= 1.0


def test_many_equal_values_and_a_single_other_one_are_no_sign_of_anything() -> None:
    """The normal curve would give p = 7e-6 here; the one run might as well have been any of the 105."""
    assert shift(_strata(([0.0] * 100, [0.0] * 4 + [1.0]))).p > 5 / 105


def test_the_bound_is_small_where_all_values_are_beyond_all_others() -> None:
    apart = _strata((list(range(100)), list(range(200, 240))))
    assert shift(apart).p < 1e-12
    assert least_p(apart) == pytest.approx(shift(apart).p)
    few = _strata(([1.0, 2.0, 3.0], [7.0, 8.0]))
    assert shift(few).p > 0.01


@given(st.lists(st.floats(0.1, 100), min_size=30, max_size=60), st.floats(1.2, 3.0), st.integers(0, 2**31))
@settings(max_examples=20, deadline=None)
def test_the_ratio_is_that_of_the_medians_and_does_not_depend_on_how_cells_differ(
    values: list[float], factor: float, seed: int
) -> None:
    order = np.random.default_rng(seed)
    some = order.permutation(values).tolist()
    once = shift(_strata((some, [factor * value for value in some])))
    scaled = [1024 * value for value in some]  # exact: what is equal, or is not, stays so
    twice = shift(_strata((some, [factor * value for value in some]), (scaled, [factor * value for value in scaled])))
    assert once.ratio == pytest.approx(factor)
    assert twice.ratio == pytest.approx(factor)
    assert twice.greater == pytest.approx(once.greater)


@pytest.mark.slow
@given(st.floats(1.35, 2.0), st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_a_shift_of_the_median_is_found_in_either_direction(factor: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    before, now = draw.lognormal(0, 0.15, 200), factor * draw.lognormal(0, 0.15, 80)
    slower, faster = (shift(Strata(NONE, (Stratum(*sides),))) for sides in ((before, now), (now, before)))
    assert max(slower.p, faster.p) < 1e-5
    assert slower.greater > 0.75 > 0.25 > faster.greater
    assert slower.greater == pytest.approx(1 - faster.greater)


def test_pairs_of_equal_values_say_nothing_and_others_are_a_sign_test() -> None:
    assert shift(_strata(pairs=([1.0] * 50, [1.0] * 50))).p == 1.0
    up = shift(_strata(pairs=([1.0] * 40, [2.0] * 40)))
    assert 2 * 0.5**40 <= up.p < 1e-11
    assert (up.ratio, up.greater, up.pairs) == (2.0, 1.0, 40)
    mixed = shift(_strata(pairs=([1.0] * 40, [2.0] * 20 + [0.5] * 20)))
    assert mixed.p == 1.0


def test_cells_that_differ_are_no_shift_and_joined_strata_are_those_of_all() -> None:
    slow = _strata(([100.0, 101, 102, 103] * 10, [100.0, 101, 102, 103]))
    fast = _strata(([1.0, 2, 3, 4], [1.0, 2, 3, 4] * 10))
    found = shift(joined([slow, fast]))
    assert found.p == 1.0
    assert (found.before, found.now) == (44, 44)
    assert found.ratio == pytest.approx(1.0)
    assert found.greater == pytest.approx(0.5)


@pytest.mark.slow
def test_the_rate_of_false_answers_is_below_what_is_asked_for_with_ties_and_skew() -> None:
    draw = np.random.default_rng(5)
    for kind in ("lognormal", "counts", "mostly none"):
        false = 0
        for _ in range(2000):
            strata: list[Strata] = []
            for cell in range(3):
                sides = [
                    {
                        "lognormal": draw.lognormal(cell, 1.0, size),
                        "counts": draw.poisson(0.3, size).astype(float),
                        "mostly none": (draw.random(size) < 0.03).astype(float),
                    }[kind]
                    for size in (40, 8)
                ]
                strata.append(Strata(NONE, (Stratum(*sides),)))
            false += shift(joined(strata)).p < 0.02
        assert false <= 2000 * 0.02, kind
