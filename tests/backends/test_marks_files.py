"""Marks that real nodes write to files: read as they come, whole lines only, those of before the wait not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path

from splitbrain.harness.backends.shared.marks import FILE, MarksFiles
from splitbrain.harness.contract.moments import Moment, Passed
from splitbrain.harness.contract.nodes import NodeCommand

S = 1_000_000_000


def append(folder: Path, text: str) -> None:
    with (folder / FILE).open("a") as file:
        file.write(text)


def test_the_node_that_reports_the_mark_is_acted_on_once(tmp_path: Path) -> None:
    folders = {node: tmp_path / node for node in ("n1", "n2")}
    for folder in folders.values():
        folder.mkdir()
    append(folders["n1"], "vote\nvote\n")
    files, hit = MarksFiles("MARKS", folders), list[str]()
    wanted = Moment(mark="vote", occurrence=2)

    async def act(node: str) -> None:
        hit.append(node)

    async def main() -> Passed | None:
        waiting = asyncio.ensure_future(files.at_moment([wanted], act, 60 * S))
        await asyncio.sleep(0)
        append(folders["n1"], "vote\n")
        append(folders["n2"], "vote\nother\nvo")
        append(folders["n2"], "te\nvote\n")
        return await waiting

    assert asyncio.run(main()) == Passed(wanted, "n2")
    assert hit == ["n2"]


def test_what_does_not_come_in_time_does_nothing(tmp_path: Path) -> None:
    async def act(_: str) -> None:
        raise AssertionError

    files = MarksFiles("MARKS", {"n1": tmp_path})
    append(tmp_path, "vote\n")
    assert asyncio.run(files.at_moment([Moment(mark="vote")], act, S // 50)) is None


def test_a_node_is_started_with_the_name_of_its_file(tmp_path: Path) -> None:
    command = MarksFiles("MARKS", {"n1": tmp_path}).reported("n1", NodeCommand(("run",), env={"A": "b"}))
    assert command == NodeCommand(("run",), env={"A": "b", "MARKS": str(tmp_path / FILE)})
