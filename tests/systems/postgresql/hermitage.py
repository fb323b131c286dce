"""Replay the schedules of Hermitage (Kleppmann, 2014) on a real PostgreSQL: what is expected, and what is seen.

usage: python -m tests.systems.postgresql.hermitage FOLDER      the folder has Hermitage's postgres.md and README.md

A schedule has statements of up to three sessions, one after the other, with remarks on what each shows. It is replayed
at the level for which it was written, where each remark must hold, and at the stronger levels, for which the summary of
README.md says whether the anomaly is prevented. It was prevented if the server refused a statement. It was also
prevented, in a schedule that shows an anomaly, if a remark does not hold; in one that shows that there is none, if no
read showed what another transaction had written and not committed.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import asyncpg

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.systems.postgresql.connection import connect

LEVELS: Final = ("read committed", "repeatable read", "serializable")
SETUP: Final = (
    "drop table if exists test",
    "create table test (id int primary key, value int)",
    "insert into test (id, value) values (1, 10), (2, 20)",
)
WAITS_AT_MOST_S: Final = 10.0

Rows = dict[int, int]


# --- the schedules ----------------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """A statement of a session, and the remark on it."""

    session: str
    statement: str
    remark: str

    @property
    def blocks(self) -> bool:
        """Whether it must wait for another transaction."""
        return "BLOCKS" in self.remark

    def refused(self) -> str | None:
        """The session in which something must be refused now; None if nothing."""
        if "ERROR" not in self.remark:
            return None
        named = re.match(r"T\d", self.remark)
        return named[0] if named else self.session

    def rows(self, inserted: Rows) -> Rows | None:
        """The rows that it must show, None if the remark does not say."""
        if re.search(r"returns nothing", self.remark, re.IGNORECASE):
            return {}
        if "newly inserted row" in self.remark:
            return inserted
        return {int(key): int(value) for key, value in re.findall(r"(\d+) => (\d+)", self.remark)} or None


@dataclass(frozen=True)
class Schedule:
    """A schedule.

    Attributes:
        title: what it shows.
        anomaly: its short name, as in the summary.
        level: the level for which it was written.
        prevents: whether that level prevents the anomaly.
        steps: in their order.
    """

    title: str
    anomaly: str
    level: str
    prevents: bool
    steps: tuple[Step, ...]

    def at(self, level: str) -> list[Step]:
        """The steps at another level."""
        return [step._replace(statement=step.statement.replace(self.level, level)) for step in self.steps]


def schedules(text: str) -> list[Schedule]:
    """The schedules of postgres.md."""
    found: list[Schedule] = []
    pattern = r'^Postgres "([a-z ]+)" (prevents|does not prevent) (.*?):?\n\n```sql\n(.*?)```'
    for level, verb, what, block in re.findall(pattern, text, re.MULTILINE | re.DOTALL):
        anomaly = re.search(r"\(([\w-]+)\)", what)
        assert anomaly is not None, what
        steps = tuple(step for line in block.strip().splitlines() for step in _steps(line))
        found.append(Schedule(f"{verb} {what}", anomaly[1], level, verb == "prevents", steps))
    return found


def _steps(line: str) -> list[Step]:
    statements, _, remark = line.partition("--")
    named = re.match(r"\s*(T\d|either)[.,]?\s*(.*)", remark, re.IGNORECASE)
    assert named is not None, line
    session = named[1] if named[1].startswith("T") else "T1"
    words = [word.strip() for word in statements.split(";") if word.strip()]
    return [Step(session, word, named[2] if word is words[-1] else "") for word in words]


def summary(text: str) -> dict[tuple[str, str], bool]:
    """Whether PostgreSQL prevents an anomaly at a level, by both, from README.md."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    anomalies = [cell.strip() for cell in lines[0].strip("|").split("|")][3:]
    begin = next(place for place, line in enumerate(lines) if line.startswith("| PostgreSQL"))
    found: dict[tuple[str, str], bool] = {}
    for line in lines[begin : begin + len(LEVELS)]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        level = next(level for level in LEVELS if f'"{level}"' in cells[1])
        found |= {(level, anomaly): cell == "✓" for anomaly, cell in zip(anomalies, cells[3:], strict=True)}
    return found


# --- a replay ---------------------------------------------------------------------------------------------------------


@dataclass
class Seen:
    """What a replay showed: remarks that did not hold, refusals, and reads of what was not committed."""

    contradicted: list[str]
    refused: list[str]
    dirty: list[str]


class Replay:
    """One schedule on one server."""

    def __init__(self, sessions: dict[str, asyncpg.Connection[asyncpg.Record]], watch: Any) -> None:
        self._sessions = sessions
        self._watch = watch
        self._pending: dict[str, asyncio.Task[Any]] = {}
        self._refused: dict[str, str] = {}
        self._inserted: Rows = {}
        self._uncommitted: dict[str, list[tuple[int, int]]] = {name: [] for name in sessions}
        self.seen = Seen([], [], [])

    async def run(self, steps: Sequence[Step]) -> Seen:
        """Carry the steps out."""
        for step in steps:
            await self._settle(step.session)
            await self._carry_out(step)
        for name in self._sessions:
            await self._settle(name)
        return self.seen

    async def _carry_out(self, step: Step) -> None:
        name = step.session
        before = dict(self._refused)
        task = asyncio.ensure_future(self._sessions[name].fetch(step.statement))
        self._pending[name] = task
        blocked = await self._blocks(name, task)
        self._note_writes(step)
        if blocked != step.blocks:
            self.seen.contradicted.append(f"{step.statement} of {name} {'waits' if blocked else 'does not wait'}")
        rows = None if blocked else await self._settle(name)
        if step.statement in ("commit", "abort"):
            self._uncommitted[name] = []
            for other in [each for each in self._pending if each != name]:
                await self._settle(other)
        self._compare(step, rows, [other for other in self._refused if other not in before])

    def _compare(self, step: Step, rows: list[Any] | None, refused: list[str]) -> None:
        wanted = step.refused()
        if refused != ([] if wanted is None else [wanted]):
            self.seen.contradicted.append(f"after {step.statement} of {step.session}: refused {refused}, not {wanted}")
        if rows is None or not step.statement.startswith("select"):
            return
        shown = {row["id"]: row["value"] for row in rows}
        expected = step.rows(self._inserted)
        if expected is not None and not (expected.items() <= shown.items() and (expected or not shown)):
            self.seen.contradicted.append(f"{step.statement} of {step.session} shows {shown}, not {expected}")
        for other, written in self._uncommitted.items():
            if other != step.session and set(written) & set(shown.items()):
                self.seen.dirty.append(f"{step.session} reads {shown}, which {other} did not commit")

    async def _blocks(self, name: str, task: asyncio.Task[Any]) -> bool:
        """Wait until the statement is done, or waits for another session."""
        pid = self._sessions[name].get_server_pid()
        async with asyncio.timeout(WAITS_AT_MOST_S):
            while not task.done():
                if await self._watch.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid):
                    return True
                await asyncio.sleep(0.005)
        return False

    async def _settle(self, name: str) -> list[Any] | None:
        """Wait for the statement of a session, if there is one."""
        task = self._pending.pop(name, None)
        if task is None:
            return None
        try:
            async with asyncio.timeout(WAITS_AT_MOST_S):
                return await task
        except asyncpg.SerializationError as error:
            self._refused[name] = str(error)
            self.seen.refused.append(f"{name}: {error}")
        except asyncpg.InFailedSQLTransactionError:
            pass
        return None

    def _note_writes(self, step: Step) -> None:
        inserted = re.search(r"values\s*\((\d+), (\d+)\)", step.statement)
        if inserted:
            self._inserted = {int(inserted[1]): int(inserted[2])}
        written = re.search(r"set value = (\d+) where id = (\d+)", step.statement)
        if written:
            self._uncommitted[step.session].append((int(written[2]), int(written[1])))


async def replay(deployment: Deployment, steps: Sequence[Step]) -> Seen:
    """Carry steps out on a fresh table, each session on its own connection."""
    names = sorted({step.session for step in steps})
    sessions = {name: await connect(deployment, "n1") for name in names}
    watch = await connect(deployment, "n1")
    try:
        for statement in SETUP:
            await watch.execute(statement)
        return await Replay(sessions, watch).run(steps)
    finally:
        for each in (*sessions.values(), watch):
            each.terminate()


# --- the table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """A schedule at a level: whether the anomaly should be prevented, and was, and which remarks do not hold."""

    schedule: Schedule
    level: str
    expected: bool
    prevented: bool
    contradicted: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether all of it is as Hermitage says."""
        return self.expected == self.prevented and not self.contradicted


async def lines(deployment: Deployment, folder: Path) -> list[Line]:
    """Every schedule at its level, and at the stronger ones."""
    prevents = summary((folder / "README.md").read_text())
    found: list[Line] = []
    for schedule in schedules((folder / "postgres.md").read_text()):
        for level in LEVELS[LEVELS.index(schedule.level) :]:
            seen = await replay(deployment, schedule.at(level))
            own = level == schedule.level
            if schedule.prevents:
                prevented = bool(seen.refused) or not seen.dirty
            else:
                prevented = bool(seen.refused) or bool(seen.contradicted)
            expected = schedule.prevents if own else prevents[level, schedule.anomaly]
            found.append(Line(schedule, level, expected, prevented, tuple(seen.contradicted) if own else ()))
    return found


async def _on_a_node(folder: Path) -> list[Line]:
    from tests.systems.postgresql.conftest import started

    with tempfile.TemporaryDirectory() as run_dir:
        deployment = await started(Path(run_dir))
        try:
            return await lines(deployment, folder)
        finally:
            await deployment.close()


def main() -> int:
    """Print the table; 1 if something is not as Hermitage says."""
    found = asyncio.run(_on_a_node(Path(sys.argv[1])))
    word = {True: "prevented", False: "occurs"}
    print(f"{'level':16} {'anomaly':9} {'expected':10} {'seen':10}  schedule")
    for line in found:
        written = "" if line.level == line.schedule.level else f" (written for {line.schedule.level})"
        print(
            f"{line.level:16} {line.schedule.anomaly:9} {word[line.expected]:10} {word[line.prevented]:10}  "
            f"{line.schedule.title}{written}"
        )
        for contradiction in line.contradicted:
            print(f"{'':49}  but: {contradiction}")
    wrong = sum(not line.agrees for line in found)
    print(f"{len(found)} replays, {wrong} not as Hermitage says")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
