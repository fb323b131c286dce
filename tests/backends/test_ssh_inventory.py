"""What `--hosts` and its companions say, and how a mistake in them is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbrain.harness.backends.ssh.inventory import Host, Inventory, parse_hosts
from splitbrain.harness.campaigns.compose import RunOptions, backend_of, command_line
from splitbrain.results.errors import UsageError
from tests.cli.test_arguments import OPTIONS


def test_hosts_are_read_with_and_without_user_and_port() -> None:
    assert parse_hosts("n1=admin@10.0.0.1:2222, n2=lab-2.example ,n3=root@[fd00::3]") == (
        Host("n1", "10.0.0.1", 2222, "admin"),
        Host("n2", "lab-2.example", 22, None),
        Host("n3", "fd00::3", 22, "root"),
    )


def test_a_file_of_hosts_may_have_comments(tmp_path: Path) -> None:
    path = tmp_path / "lab"
    path.write_text("# the lab\nn1=10.0.0.1\n\n  n2=10.0.0.2:23\n")
    assert parse_hosts(f"@{path}") == (Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2", 23))


@pytest.mark.parametrize(
    ("hosts", "says"),
    [
        ("", "--hosts has no host"),
        ("n1", "--hosts: 'n1' is not a host: give NODE="),
        ("n1=", "'n1=' is not a host"),
        ("n1=a@b@c", "'n1=a@b@c' is not a host"),
        ("n-1=host", "'n-1=host' is not a host"),
        ("n1=host:70000", "a port is 1 to 65535"),
        ("n1=host,n1=other", "has the node 'n1' twice"),
        ("n1=host,n2=host", "has the host 'host' twice"),
        ("@/no/such/file", "the file cannot be read"),
    ],
)
def test_a_mistake_in_hosts_is_told(hosts: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_hosts(hosts)


def test_a_mistake_in_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "lab"
    path.write_text("n1=10.0.0.1\nnonsense\n")
    with pytest.raises(UsageError, match=f"{path}:2: 'nonsense' is not a host"):
        parse_hosts(f"@{path}")


def test_files_that_are_not_there_are_told(tmp_path: Path) -> None:
    known = tmp_path / "known"
    with pytest.raises(UsageError, match=f"--known-hosts {known}: No such file"):
        Inventory.of("n1=host", str(known))
    known.write_text("")
    with pytest.raises(UsageError, match="--ssh-key /no/key: No such file"):
        Inventory.of("n1=host", str(known), "/no/key")


def test_nodes_are_those_with_hosts_and_the_command_repeats_them() -> None:
    given = {**OPTIONS, "backend": "ssh", "nodes": None, "hosts": "a=10.0.0.1,b=10.0.0.2", "ssh_key": "lab.key"}
    options = RunOptions.of(**given)
    assert options.nodes == "a,b"
    assert "--nodes a,b" in command_line(options)
    assert "--hosts a=10.0.0.1,b=10.0.0.2 --ssh-key lab.key" in command_line(options)
    assert RunOptions.of(**{**OPTIONS, "nodes": None}).nodes == "5"


def test_the_backend_without_hosts_is_refused() -> None:
    with pytest.raises(UsageError, match="--backend ssh has no hosts"):
        backend_of(RunOptions.of(**{**OPTIONS, "backend": "ssh"}))
