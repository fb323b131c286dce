"""The moments of sums without replacement are those of counting all subsets."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.results import sampling
from splitbrain.results.sampling import log_mean_exp, variance


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=8), st.data())
@settings(max_examples=100, deadline=None)
def test_mean_and_variance_are_those_of_all_subsets(values: list[float], data: st.DataObject) -> None:
    drawn = data.draw(st.integers(0, len(values)))
    exponents = [-3.0, -0.5, 0.0, 1.0, 5.0]
    sums = [math.fsum(each) for each in itertools.combinations(values, drawn)]
    counted = [math.log(math.fsum(math.exp(each * one) for one in sums) / len(sums)) for each in exponents]
    found = log_mean_exp(np.asarray(values), drawn, np.asarray(exponents))
    assert found.tolist() == pytest.approx(counted, abs=1e-9)
    assert variance(np.asarray(values), drawn) == pytest.approx(float(np.var(sums)), abs=1e-9)


def test_of_too_many_subsets_the_bound_with_replacement_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    values, exponents = np.linspace(-0.5, 0.5, 60), np.asarray([0.5, 4.0, 40.0])
    exact = log_mean_exp(values, 20, exponents)
    monkeypatch.setattr(sampling, "EXACT_MAX", 100)
    bound = log_mean_exp(values, 20, exponents)
    assert (bound > exact).all()
    assert bound[0] == pytest.approx(20 * math.log(np.exp(0.5 * values).mean()))


def test_the_largest_exponents_leave_the_share_of_the_greatest_subset() -> None:
    found = log_mean_exp(np.arange(10.0), 3, np.asarray([1000.0]))
    assert found[0] == pytest.approx(1000.0 * (7 + 8 + 9) - math.log(math.comb(10, 3)))
