"""What would be without effect, or contradicts itself, is refused: one line, 254, before anything starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from splitbrain.harness.cli.main import main
from tests.cli.support import lines

SIM = ["run", "--backend", "sim"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        # lists
        (["run", "--nodes", "n1,,n3"], "--nodes 'n1,,n3' has an empty name between two commas"),
        (["run", "--nodes", "n1,n2,"], "has an empty name between two commas, or at an end"),
        (["run", "--bug", "M23,"], "--bug 'M23,' has an empty name"),
        (["run", "--bug", "M23,M23"], "names 'M23' twice"),
        (["run", "--nemesis", "kill,,pause"], "--nemesis 'kill,,pause' has an empty name"),
        (["run", "--nemesis", "kill:2,kill"], "has kill twice"),
        (["hunt", "--workload", "register,"], "--workload 'register,' has an empty name"),
        (["hunt", "--nemesis", ",kill"], "--nemesis ',kill' has an empty name"),
        (["hunt", "--nodes", "3,,5"], "--nodes '3,,5' has an empty name"),
        (["hunt", "--nodes", "3,3"], "names '3' twice"),
        (["cluster", "up", "--nodes", "n1,,n3"], "--nodes 'n1,,n3' has an empty name"),
        (["cluster", "up", "--bug", ",M23"], "--bug ',M23' has an empty name"),
        (["run", "--backend", "ssh", "--hosts", "n1=10.0.0.1,,n2=10.0.0.2"], "has an empty name between two commas"),
        (["prune", "--keep", "1", "--outcome", "pass,,pass"], "--outcome 'pass,,pass' has an empty name"),
        (["prune", "--keep", "1", "--test", ""], "--test '' is empty"),
        # none, and others beside it
        (["run", "--nemesis", "none,partition"], "none means no faults: give it alone"),
        (["run", "--nemesis", "none:2"], "none means no faults: give it alone"),
        (["hunt", "--nemesis", "kill,none"], "none means no faults: give it alone"),
        # seeds
        (["run", "--seed", "-1"], "the seed must be a whole number from 0 to 2^63 - 1"),
        (["demo", "--seed", "-1"], "the seed must be a whole number from 0 to 2^63 - 1"),
        (["hunt", "--seed", "-1"], "--seed -1"),
        # stores
        ([*SIM, "--store", ""], "--store names no folder"),
        ([*SIM, "--store", "/dev/null"], "/dev/null is no folder"),
        ([*SIM, "--store", "file/below"], "file is no folder"),
        ([*SIM, "--store", "/proc/store"], "cannot write to the store /proc/store"),
        (["demo", "--store", "file"], "file is no folder"),
        (["hunt", "--store", "/dev/null/x"], "/dev/null is no folder"),
        *(
            ([*command, "--store", store], says)
            for command in (
                ["serve"],
                ["analyze"],
                ["report"],
                ["compare", "a", "b"],
                ["prune", "--keep", "1"],
                ["compact"],
                ["manifest"],
                ["clean"],
            )
            for store, says in (("nope", "there is no such store"), ("", "names no folder"), ("file", "is no folder"))
        ),
        (["serve"], "there is no such store"),
        (["replay", "latest", "--store", "nope"], "there is no run in the store nope"),
        (["shrink", "latest", "--store", ""], "names no folder"),
        # what is for another engine or backend
        ([*SIM, "--master", "local[2]"], "--master is for Spark, and the engine is inline"),
        (["analyze", "--engine", "inline", "--master", "local[2]"], "--master is for Spark"),
        ([*SIM, "--ssh-key", "file"], "--ssh-key file: it is for --backend ssh, not sim"),
        (["run", "--ssh-user", "me"], "--ssh-user me: it is for --backend ssh, not local"),
        (["run", "--known-hosts", "file"], "--known-hosts file: it is for --backend ssh, not local"),
        (["run", "--hosts", "n1=h"], "--hosts n1=h: it is for --backend ssh, not local"),
        (["doctor", "--ssh-key", "file"], "it needs --hosts: add --hosts"),
        (["clean", "--ssh-user", "me"], "it needs --hosts: add --hosts"),
        (["run", "--system", "etcd", "--backend", "sim"], "system 'etcd' cannot be simulated"),
        # too few nodes
        ([*SIM, "--nodes", "1", "--nemesis", "kill-minority"], "fault 'kill' needs more nodes than 1"),
        ([*SIM, "--nodes", "2", "--nemesis", "pause-minority"], "fault 'pause' needs more nodes than 2"),
        ([*SIM, "--nodes", "3", "--nemesis", "power-minority-third"], "fault 'power' needs more nodes than 3"),
        ([*SIM, "--nodes", "1", "--nemesis", "kill-follower"], "fault 'kill' needs more nodes than 1"),
        ([*SIM, "--nodes", "2", "--schedule", "minority.schedule"], "the node spec 'minority' needs 3 nodes"),
    ],
)
def test_it_is_refused_before_anything_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    says: str,
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "minority.schedule").write_text('[2.5, "kill", {"spec": "minority"}]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capfd.readouterr()
    assert ended.value.code == 254, said.err
    assert says in said.err
    assert len(lines(said.err)) == 1
    assert said.out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "minority.schedule"]
