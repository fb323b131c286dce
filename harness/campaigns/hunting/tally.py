"""What a hunt has tried so far, added up: outcomes, kinds of what was found, coverage marks, and how fast it went."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.hunting.trial import Trial

if TYPE_CHECKING:
    from splitbrain.harness.campaigns.answers import HuntFigures, HuntTally

SECONDS_PER_HOUR = 3600.0


@dataclass
class Tally:
    """Sums over trials.

    Attributes:
        outcomes: how many trials ended in each way.
        kinds: how often each kind of violation and of harness error was found (`Trial.kind`), in the order in which
            they were found first.
        firsts: the first trial of each kind.
        reasons: how many inconclusive trials had each root cause, by its code (`splitbrain.results.reasons.Code`).
        marks: how often each coverage mark was reached, in all trials; zeros included.
        inconclusive: seeds of inconclusive trials.
        seeds: of the trials, in the order in which they were begun.
    """

    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    kinds: dict[str, int] = field(default_factory=dict[str, int])
    firsts: dict[str, Trial] = field(default_factory=dict[str, Trial])
    reasons: Counter[str] = field(default_factory=Counter[str])
    inconclusive: list[int] = field(default_factory=list[int])
    marks: Counter[str] = field(default_factory=Counter[str])
    seeds: list[int] = field(default_factory=list[int])
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    ops: int = 0

    def add(self, trial: Trial) -> None:
        """Take note of a trial."""
        self.outcomes[trial.outcome] += 1
        self.seeds.append(trial.options.seed)
        self.simulated_s += trial.simulated_s
        self.cpu_s += trial.cpu_s
        self.ops += trial.ops
        self.marks.update(trial.marks)
        if trial.outcome is Outcome.INCONCLUSIVE:
            self.inconclusive.append(trial.options.seed)
        if trial.reason:
            self.reasons[trial.reason] += 1
        if trial.kind:
            self.kinds[trial.kind] = self.kinds.get(trial.kind, 0) + 1
            self.firsts.setdefault(trial.kind, trial)

    @property
    def runs(self) -> int:
        """How many trials there were."""
        return len(self.seeds)

    @property
    def outcome(self) -> Outcome:
        """What a hunt adds up to: the worst that was found.

        Short random runs often test too little to prove anything. They decide only if no run proved anything; so does
        a hunt without a run.
        """
        for worst in (Outcome.VIOLATION, Outcome.HARNESS_ERROR, Outcome.PASS):
            if self.outcomes[worst]:
                return worst
        return Outcome.INCONCLUSIVE

    @property
    def reached(self) -> int:
        """How many coverage marks were reached."""
        return sum(1 for count in self.marks.values() if count)

    @property
    def never(self) -> list[str]:
        """The coverage marks that no trial reached, sorted."""
        return sorted(mark for mark, count in self.marks.items() if not count)

    def found(self, outcome: Outcome) -> list[Trial]:
        """The first trial of each kind that ended so, in the order in which they were found."""
        return [trial for trial in self.firsts.values() if trial.outcome is outcome]

    def figures(self, wall_s: float) -> HuntFigures:
        """How fast it went; `wall_s` is how long it took."""
        return {
            "wall_s": round(wall_s, 3),
            "cpu_s": round(self.cpu_s, 3),
            "simulated_s": round(self.simulated_s, 3),
            "ops": self.ops,
            "runs": self.runs,
            "runs_per_s": _ratio(self.runs, wall_s),
            "simulated_s_per_cpu_s": _ratio(self.simulated_s, self.cpu_s),
        }

    def document(self, wall_s: float) -> HuntTally:
        """All of it as JSON."""
        return {
            "outcome": self.outcome.value,
            "seeds": ranges(self.seeds),
            "outcomes": {outcome.value: self.outcomes[outcome] for outcome in Outcome},
            "reasons": dict(self.reasons.most_common()),
            "inconclusive_seeds": sorted(self.inconclusive),
            "kinds": dict(self.kinds),
            "figures": self.figures(wall_s),
            "marks": dict(sorted(self.marks.items())),
            "never_reached": self.never,
        }


def ranges(numbers: list[int]) -> list[list[int]]:
    """[first, last] of each stretch of whole numbers without a gap, in ascending order."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def _ratio(a: float, b: float) -> float | None:
    return round(a / b, 3) if b else None
