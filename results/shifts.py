"""Whether a figure has moved: values of two sides in strata, compared by ranks, with a bound that holds for any data.

The question is that of van Elteren's test (Bull. Inst. Internat. Statist. 37, 1960): within each stratum (a cell of a
matrix; a pair of runs with the same seed) the values of both sides are ranked together, and the rank sums of the one
side are added up over the strata, each weighted by 1 / (N + 1). If both sides were the same, any of the values of a
stratum might as well stand on the other side: by that alone the sum has a distribution, whatever the values are.

Its tail is not taken from the normal curve, which is far too small where most values are equal (one run of a hundred in
which a leader changed), but bounded: by Chernoff's bound with the moments of draws without replacement
(`splitbrain.results.sampling`). So the false-positive rate that is documented is an upper bound, with few values and
with ties as well; with few values no difference is large enough, which is an answer too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from splitbrain.results.sampling import log_mean_exp, variance

Values: TypeAlias = NDArray[np.float64]

SCREEN_Z: Final = 3.0
"""Below so many standard deviations no bound is computed: it would be greater than 0.01."""


_COARSE: Final = np.exp2(np.arange(-2.0, 8.0))
_FINE: Final = np.exp2(np.arange(-0.75, 1.0, 0.25))
"""Exponents that are tried, relative to that of a normal curve, and then to the best of those. Each gives a bound: one
that is not the best gives one that is a little larger than it must be.
"""

_ROUNDING: Final = 1e-9
"""What rounding may take from a bound, relative to it: more than that of a million additions."""

_PAIR: Final = 1.0 / 6.0
"""The weighted score of the greater one of a pair."""


class Stratum(msgspec.Struct, frozen=True):
    """Values that are comparable: of earlier runs, and of the later ones. An infinite value is the largest."""

    before: Values
    now: Values


class Strata(msgspec.Struct, frozen=True):
    """What is compared.

    Attributes:
        pairs: values of the same seeds on both sides; each pair is a stratum of its own.
        rest: the other strata; one without values on one side says nothing.
    """

    pairs: Stratum
    rest: tuple[Stratum, ...] = ()

    def side(self, name: str) -> Values:
        """All values of a side: "before" or "now"."""
        return np.concatenate([getattr(self.pairs, name), *(getattr(each, name) for each in self.rest)])


def joined(several: Iterable[Strata]) -> Strata:
    """All strata of several."""
    listed = list(several)
    pairs = Stratum(*(np.concatenate([getattr(each.pairs, side) for each in listed]) for side in ("before", "now")))
    return Strata(pairs, tuple(stratum for each in listed for stratum in each.rest))


class Shift(msgspec.Struct, frozen=True, kw_only=True):
    """How the later values lie to the earlier ones.

    Attributes:
        p: an upper bound of the probability of a difference as large, either way, if there was none.
        ratio: the median (or mean) of later values, each relative to that of the earlier values of its stratum; None
            where those are 0.
        greater: how often a later value is greater than an earlier one of its stratum, ties counted half, 0 to 1.
        before, now: how many values there are.
        pairs: how many strata are a pair.
    """

    p: float
    ratio: float | None
    greater: float
    before: int
    now: int
    pairs: int


def shift(strata: Strata, *, mean: bool = False) -> Shift:
    """Compare the later values with the earlier ones.

    Args:
        strata: what is compared.
        mean: the ratio is one of means: for counts that are mostly 0.
    """
    rest = [each for each in strata.rest if len(each.before) and len(each.now)]
    parts = [_part(each) for each in rest]
    signs = np.sign(_difference(strata.pairs))
    statistic = _PAIR * float(signs.sum())
    statistic += sum(float(scores[: len(each.now)].sum()) for each, scores in zip(rest, parts, strict=True))
    comparisons = len(signs) + sum(len(each.before) * len(each.now) for each in rest)
    wins = float((signs + 1.0).sum()) / 2.0
    wins += sum(_wins(each, scores) for each, scores in zip(rest, parts, strict=True))
    return Shift(
        p=_two_sided(_Drawn.of(signs, rest, parts), statistic),
        ratio=_ratio(strata.pairs, rest, mean=mean),
        greater=wins / comparisons if comparisons else 0.5,
        before=len(signs) + sum(len(each.before) for each in rest),
        now=len(signs) + sum(len(each.now) for each in rest),
        pairs=len(signs),
    )


def least_p(strata: Strata) -> float:
    """The bound if all later values were beyond all earlier ones: with few values it cannot be small."""
    rest = [each for each in strata.rest if len(each.before) and len(each.now)]
    parts = [_part(each) for each in rest]
    signs = np.sign(_difference(strata.pairs))
    most = _PAIR * float(np.abs(signs).sum())
    most += sum(float(np.sort(scores)[-len(each.now) :].sum()) for each, scores in zip(rest, parts, strict=True))
    return _two_sided(_Drawn.of(signs, rest, parts), most)


def _difference(pairs: Stratum) -> Values:
    """Later less earlier values; 0 where both are infinite."""
    same = pairs.now == pairs.before
    return np.where(same, 0.0, np.where(same, 0.0, pairs.now) - np.where(same, 0.0, pairs.before))


def _part(stratum: Stratum) -> Values:
    """Weighted, centred midranks: of the later values first, then of the earlier ones."""
    values = np.concatenate([stratum.now, stratum.before])
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = (ends - (counts - 1) / 2.0)[inverse]
    return (ranks - (len(values) + 1) / 2.0) / (len(values) + 1)


def _wins(stratum: Stratum, scores: Values) -> float:
    """How many pairs of a later and an earlier value have the greater one later (Mann and Whitney's U)."""
    later, every = len(stratum.now), len(scores)
    ranks = scores[:later] * (every + 1) + (every + 1) / 2.0
    return float(ranks.sum()) - later * (later + 1) / 2.0


# --- the tail ---------------------------------------------------------------------------------------------------------


class _Drawn(NamedTuple):
    """What is drawn by chance.

    Attributes:
        strata: scores of each, and how many of them are the later values'.
        pairs: pairs of values that are not equal: either one may be the later one.
    """

    strata: tuple[tuple[Values, int], ...]
    pairs: int

    @classmethod
    def of(cls, signs: Values, rest: Sequence[Stratum], parts: Sequence[Values]) -> _Drawn:
        listed = ((scores, len(each.now)) for each, scores in zip(rest, parts, strict=True) if scores.any())
        return cls(tuple(listed), int(np.abs(signs).sum()))

    def variance(self) -> float:
        """Of the sum of all that is drawn."""
        return self.pairs * _PAIR**2 + sum(variance(scores, drawn) for scores, drawn in self.strata)

    def log_mean_exp(self, exponents: Values) -> Values:
        """The logarithm of the mean of exp(exponent * sum), for each exponent."""
        arms = _PAIR * np.abs(exponents)
        found = self.pairs * (arms + np.log1p(np.exp(-2.0 * arms)) - math.log(2.0))
        for scores, drawn in self.strata:
            found = found + log_mean_exp(scores, drawn, exponents)
        return found


def _two_sided(drawn: _Drawn, statistic: float) -> float:
    """The bound of the probability of a sum that is as far from 0 as the statistic, at most 1."""
    spread = drawn.variance()
    if spread <= 0 or abs(statistic) < SCREEN_Z * math.sqrt(spread):
        return 1.0
    return min(1.0, (1.0 + _ROUNDING) * float(np.exp(_log_tails(drawn, abs(statistic), spread)).sum()))


def _log_tails(drawn: _Drawn, statistic: float, spread: float) -> Values:
    """Logarithms of bounds of the probabilities that the sum of what is drawn is so large, and that it is so small."""
    best, least = np.full((2, 1), statistic / spread), np.zeros(2)
    signs = np.asarray([[1.0], [-1.0]])
    for tried in (_COARSE, _FINE):
        exponents = best * tried
        means = drawn.log_mean_exp((signs * exponents).ravel()).reshape(exponents.shape)
        bounds = means - exponents * statistic
        best = np.take_along_axis(exponents, bounds.argmin(axis=1)[:, None], axis=1)
        least = np.minimum(least, bounds.min(axis=1))
    return least


# --- how large it is --------------------------------------------------------------------------------------------------


def _ratio(pairs: Stratum, rest: Sequence[Stratum], *, mean: bool) -> float | None:
    if mean:
        usual = float(pairs.before.sum()) + sum(len(each.now) * float(each.before.mean()) for each in rest)
        ratio = (float(pairs.now.sum()) + sum(float(each.now.sum()) for each in rest)) / usual if usual else math.inf
        return ratio if math.isfinite(ratio) else None
    usable = np.isfinite(pairs.before) & (pairs.before != 0)
    found = [pairs.now[usable] / pairs.before[usable]]
    for each in rest:
        middle = float(np.median(each.before))
        if middle and math.isfinite(middle):
            found.append(each.now / middle)
    ratios = np.concatenate(found)
    if not len(ratios):
        return None
    ratio = float(np.median(ratios))
    return ratio if math.isfinite(ratio) else None
