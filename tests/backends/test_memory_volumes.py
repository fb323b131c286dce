"""Data directories in memory, for plain users: they can be full, and say so where they cannot do more."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests import plain_user
from tests.backends.support import missing

PROGRAM = """
import errno, json, os, sys
from splitbrain.harness.backends.agent import syscalls
from splitbrain.harness.backends.agent.tools import AgentError
from splitbrain.harness.backends.agent.memory import MemoryVolume
user, group = os.geteuid(), os.getegid()
syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
open("/proc/self/setgroups", "w").write("deny")
open("/proc/self/uid_map", "w").write(f"0 {user} 1")
open("/proc/self/gid_map", "w").write(f"0 {group} 1")
path = sys.argv[1]
seen = {"user": user}
def tried(call):
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno]
    except AgentError as error:
        return str(error)
volume = MemoryVolume(path, {"seen": sys.argv[2]})
volume.mount()
wal = os.open(f"{path}/wal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(wal, bytes(10000))
with open(f"{path}/seen", "w") as file:
    file.write("telemetry")
seen["found"] = volume.spoil({"full": True})
seen["write"] = tried(lambda: os.write(wal, bytes(1 << 20)) == 1 << 20 or os.write(wal, b"x" * 4096))
seen["create"] = tried(lambda: open(f"{path}/new", "x"))
seen["healed"] = volume.heal()
seen["after"] = tried(lambda: os.write(wal, bytes(1 << 20)))
seen["others"] = [tried(lambda: volume.spoil({"read_only": True})), tried(volume.lose_power)]
os.close(wal)
volume.unmount()
seen["left"] = sorted(os.listdir(path))
print(json.dumps(seen))
"""


def test_a_plain_users_disk_can_be_full_and_keeps_its_data(tmp_path: Path) -> None:
    problem = plain_user.problem()
    if problem is not None:
        missing(problem)
    with plain_user.folder() as folder:
        (folder / "data").mkdir(mode=0o777)
        (folder / "data").chmod(0o777)
        done = subprocess.run(
            plain_user.as_plain_user(["-c", PROGRAM, str(folder / "data"), str(folder / "aside")]),
            cwd=plain_user.ROOT,
            env=plain_user.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if "Operation not permitted" in done.stderr and "unshare" in done.stderr:
            missing("a plain user may not make user namespaces here")
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout)
        assert seen["found"] == {"errno": "ENOSPC"}
        assert (seen["write"], seen["create"]) == ("ENOSPC", "ENOSPC")
        assert seen["healed"] == {"errno": "ENOSPC"}
        assert seen["after"] is None
        read_only, power = seen["others"]
        assert "can only be full, not read_only" in read_only
        assert "cannot lose only what was not synced" in power
        assert seen["left"] == ["seen", "wal"]
        assert (folder / "data" / "seen").read_text() == "telemetry"
