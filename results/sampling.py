"""How likely a sum of values that are drawn without replacement is large: what permutation tests stand on.

The moment generating function of such a sum is a mean over all subsets of one size, an elementary symmetric polynomial
of the exponentials divided by the number of subsets. It is computed value by value, exactly but for rounding: a subset
of `k` of the first `i` values has the `i`-th one with probability k / i.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = NDArray[np.float64]

EXACT_MAX: Final = 2_000_000
"""The largest number of values, times how many are drawn, for which the mean over subsets is computed: in seconds."""


def log_mean_exp(values: Values, drawn: int, exponents: Values) -> Values:
    """The logarithm of the mean of exp(exponent * sum) over all subsets of one size, for each exponent.

    If there are too many subsets, that of draws with replacement, which is never less (Hoeffding, J. Amer. Statist.
    Assoc. 58, 1963, theorem 4).

    Args:
        values: from which is drawn.
        drawn: how many are drawn, at most as many as there are.
        exponents: any number of them.
    """
    if 2 * drawn > len(values):  # the sum of what is left is that of all, less that of what is drawn
        rest = log_mean_exp(values, len(values) - drawn, -exponents)
        return rest + exponents * float(values.sum())
    if len(values) * drawn > EXACT_MAX:
        return drawn * _log_mean(exponents[:, None] * values)
    found = np.full((len(exponents), drawn + 1), -np.inf)
    found[:, 0] = 0.0
    sizes = np.arange(1, drawn + 1)
    with np.errstate(divide="ignore"):
        for number, value in enumerate(values.tolist(), 1):
            share = np.minimum(sizes / number, 1.0)
            with_it = np.log(share) + found[:, :-1] + exponents[:, None] * value
            found[:, 1:] = np.logaddexp(np.log1p(-share) + found[:, 1:], with_it)
    return found[:, -1]


def _log_mean(exponents: Values) -> Values:
    """The logarithm of the mean exponential along the last axis."""
    largest = exponents.max(axis=-1)
    return largest + np.log(np.exp(exponents - largest[..., None]).mean(axis=-1))


def variance(values: Values, drawn: int) -> float:
    """The variance of the sum of what is drawn."""
    every = len(values)
    return drawn * (every - drawn) / (every - 1) * float(values.var()) if every > 1 else 0.0
