"""A separate process runs every checker of a run. Each checker gets a verdict, even if that process ends.

What is judged is opened there, then each checker answers. If the process dies, the checker that was at work has broken
(`splitbrain.checkers.engine.stopped`), what the others found is kept, and a new process goes on behind it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from splitbrain.checkers import engine
from splitbrain.checkers.isolation.confined import Confined, Done, Say, Stopped
from splitbrain.checkers.isolation.errors import Carried
from splitbrain.checkers.isolation.limits import DEFAULT, Limits
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.summarized import SummarizedHistory

T = TypeVar("T")

CONCLUDING: Final = "what follows the verdicts"
"""The step after all checkers."""

_CHECKER: Final = "checker "


class Opened(ABC):
    """What is judged, in the process where it is judged.

    Attributes:
        specs: who judges it.
    """

    specs: tuple[CheckerSpec, ...]

    @abstractmethod
    def answers(self, position: int) -> Iterator[Verdict]:
        """The verdict of the checker at this position: the last one. Those before it are violations known by then."""

    def damaged(self, error: HistoryFormatError) -> Any:
        """What to answer instead of verdicts if a checker needs what cannot be read; it must be one for a pickle."""
        return Carried.of(error)

    def conclude(self, verdicts: Sequence[Verdict], say: Say) -> Any:
        """What is to be done there with all verdicts; the result must be one for a pickle."""
        return None


class Job(ABC):
    """What is to be judged; it travels to the process as a pickle."""

    @abstractmethod
    def open(self, step: Callable[[str], None]) -> Opened | Any:
        """Open it, or say why it cannot be judged: then that is the answer, and must be one for a pickle.

        Args:
            step: called with the name of what is read next, such as a file.
        """


class Judged(msgspec.Struct, frozen=True):
    """What became of a job.

    Attributes:
        verdicts: one per checker.
        concluded: what `Opened.conclude` returned; None if it did not come to its end.
        problem: why it did not.
    """

    verdicts: list[Verdict]
    concluded: Any = None
    problem: str | None = None


class _Task(msgspec.Struct, frozen=True):
    job: Job
    known: Mapping[int, bytes]
    """The verdicts of checkers that have judged, by position, as JSON."""


class _Call(msgspec.Struct, frozen=True):
    step: str
    function: Callable[..., Any]
    args: tuple[Any, ...]


class _Opened(msgspec.Struct, frozen=True):
    specs: tuple[CheckerSpec, ...]


class _Concluded(msgspec.Struct, frozen=True):
    value: Any


class _Answer(msgspec.Struct, frozen=True):
    position: int
    verdict: bytes


Judge: TypeAlias = Confined[Any, Any]
"""A process that judges job after job."""


def judge(limits: Limits = DEFAULT) -> Judge:
    """A process for jobs, which is forked with the first one."""
    return Confined(_work, limits)


@cache
def lasting(limits: Limits) -> Judge:
    """A process for jobs that lasts as long as this one: for workers of Spark, which come back with the next task."""
    return judge(limits)


def judged(
    by: Judge, job: Job, progress: Callable[[str], None] = lambda _: None, found: Callable[[Any], None] | None = None
) -> Judged | Stopped | Any:
    """Have a job judged.

    Args:
        by: the process.
        job: what to judge.
        progress: called with the name of each checker before it judges.
        found: called with what `Opened.conclude` says that it has found.

    Returns:
        The verdicts; or what opening it answered instead, or `Opened.damaged`; or what ended the process while it
        opened it.
    """
    course = _Course(job, progress, found)
    while True:
        ended = by.do(course.task(), course.found, course.stepped)
        if isinstance(ended, Done):
            return course.judged(ended.answer.value) if isinstance(ended.answer, _Concluded) else ended.answer
        if ended.step == CONCLUDING:
            return course.judged(None, ended.why)
        if not course.goes_on(ended):
            return ended


class _Course:
    """How far a job has come, over all the processes that it takes."""

    def __init__(self, job: Job, progress: Callable[[str], None], concluding: Callable[[Any], None] | None) -> None:
        self._job = job
        self._progress = progress
        self._concluding = concluding
        self._specs: tuple[CheckerSpec, ...] | None = None
        self._known: dict[int, bytes] = {}
        self._judges: int | None = None
        self._settled: set[int] = set()

    def task(self) -> _Task:
        """What is left to do."""
        return _Task(self._job, {position: self._known[position] for position in sorted(self._settled)})

    def stepped(self, step: str) -> None:
        """A step has begun: the checker before it is done."""
        self._settle()
        if step.startswith(_CHECKER) and self._specs is not None:
            self._judges = int(step.removeprefix(_CHECKER))
            self._progress(self._specs[self._judges].name)

    def found(self, value: Any) -> None:
        """Something was found."""
        if isinstance(value, _Opened):
            self._specs = value.specs
        elif isinstance(value, _Answer):
            self._known[value.position] = value.verdict
        elif self._concluding is not None:
            self._concluding(value)

    def goes_on(self, ended: Stopped) -> bool:
        """Note the verdict of the checker that was at work; False if there are no checkers yet."""
        if self._specs is None:
            return False
        if self._judges is None:  # what was open once could not be opened once more
            self._judges = min(set(range(len(self._specs))) - self._settled)
        known = self._known.get(self._judges)
        name, before = self._specs[self._judges].name, None if known is None else engine.decode(known)
        self._known[self._judges] = engine.encode(engine.stopped(name, ended.why, ended.details, before))
        self._settle()
        return True

    def judged(self, concluded: Any, problem: str | None = None) -> Judged:
        """All verdicts."""
        self._settle()
        verdicts = [engine.decode(self._known[position]) for position in sorted(self._known)]
        return Judged(verdicts, concluded, problem)

    def _settle(self) -> None:
        if self._judges is not None:
            self._settled.add(self._judges)
            self._judges = None


def called(by: Judge, step: str, function: Callable[..., T], *args: Any) -> Done[T] | Stopped:
    """Have a function of a module called in the process of a judge, as a step of this name."""
    return by.do(_Call(step, function, args))


def judge_recorded(
    history: pa.Table | SummarizedHistory,
    specs: Sequence[CheckerSpec],
    telemetry: pa.Table | None = None,
    *,
    limits: Limits = DEFAULT,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Verdict]:
    """As `splitbrain.checkers.engine.judge_each`, in a process that is forked for it and has what was read here.

    Raises:
        HistoryFormatError: a table is not what it should be, or cannot be read.
    """
    recorded = engine.Recorded(history, telemetry)

    def work(task: _Task, say: Say) -> Any:
        return _answered(_Recorded(recorded, tuple(specs)), task, say)

    with Confined(work, limits) as by:
        found = judged(by, _Inherited(), progress)
    if isinstance(found, Carried):
        raise found.error()
    if isinstance(found, Stopped):  # it died before it began
        return [engine.stopped(spec.name, found.why, found.details, None) for spec in specs]
    assert isinstance(found, Judged)
    return found.verdicts


class _Inherited(Job):
    """What the process has from the one that forked it."""

    def open(self, step: Callable[[str], None]) -> Opened:
        raise AssertionError("it is open")


class _Recorded(Opened):
    def __init__(self, recorded: engine.Recorded, specs: tuple[CheckerSpec, ...]) -> None:
        self._recorded = recorded
        self.specs = specs

    def answers(self, position: int) -> Iterator[Verdict]:
        return engine.or_set_up(self._recorded, self.specs[position])


# --- in the process -------------------------------------------------------------------------------------------------


def _work(task: _Task | _Call, say: Say) -> Any:
    if isinstance(task, _Call):
        say.step(task.step)
        return task.function(*task.args)
    opened = task.job.open(say.step)
    return _answered(opened, task, say) if isinstance(opened, Opened) else opened


def _answered(opened: Opened, task: _Task, say: Say) -> Any:
    say.found(_Opened(opened.specs))
    known = dict(task.known)
    for position in range(len(opened.specs)):
        if position in known:
            continue
        say.step(f"{_CHECKER}{position}")
        try:
            for verdict in opened.answers(position):
                known[position] = engine.encode(verdict)
                say.found(_Answer(position, known[position]))
        except engine.DamagedError as damaged:
            return opened.damaged(damaged.error)
    say.step(CONCLUDING)
    return _Concluded(opened.conclude([engine.decode(known[each]) for each in range(len(opened.specs))], say))
