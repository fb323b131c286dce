"""A look at a host, run there by its own interpreter (`python3 -I - PATTERN NAME...`), of any version.

It prints a report.

This file is sent as it is. It uses no syntax that is newer than Python 3.6 and changes nothing.
"""

import fcntl
import glob
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time


def sudo_problem() -> str:
    """Why sudo asks for a password, or does not work at all; empty if it does."""
    if os.geteuid() == 0:
        return ""
    if shutil.which("sudo") is None:
        return "there is no sudo"
    done = subprocess.run(["sudo", "-n", "true"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=10)
    if done.returncode == 0:
        return ""
    return " ".join(done.stderr.decode(errors="replace").split())[-200:] or f"exit code {done.returncode}"


def is_locked(path: str) -> bool:
    """Whether a process holds the lock of a directory. Others who look at the same time do not count."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def owner_of(path: str) -> str:
    """Who made a directory; empty if it does not say so, because laying it out, or removing it, broke off.

    Without that word it is taken for one of a run only if it has the name that mktemp gave, and belongs to this user.
    """
    try:
        with open(os.path.join(path, "owner")) as file:
            return file.read().strip()
    except FileNotFoundError:
        if not re.search(r"/splitbrain-[A-Za-z0-9]{10}$", path) or os.stat(path).st_uid != os.getuid():
            raise
        return ""


def leftovers(pattern: str) -> "list[dict[str, object]]":
    """Directories of earlier runs: path, who made it, whether an agent lives in it, and its age."""
    found: list[dict[str, object]] = []
    for path in sorted(glob.glob(pattern)):
        try:
            owner = owner_of(path)
            age_s = time.time() - os.stat(path).st_mtime
            found.append({"path": path, "owner": owner, "in_use": is_locked(path), "age_s": age_s})
        except OSError:
            continue  # another user's, or none of ours
    return found


def has_program(name: str) -> bool:
    """Whether there is such a program, or the file that is named by its path."""
    return os.path.exists(name) if os.path.isabs(name) else shutil.which(name) is not None


def has_module(name: str) -> bool:
    """Whether this interpreter finds a module."""
    return not os.path.isabs(name) and importlib.util.find_spec(name) is not None


def main(pattern: str, names: "list[str]") -> None:
    """Print the report, in JSON: of these names also which are programs, and which are modules."""
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
    report = {
        "time_s": time.time(),
        "python": list(sys.version_info[:3]),
        "system": sys.platform,
        "sudo": sudo_problem(),
        "tools": [name for name in ["nft", "iptables", "ip", "tar", *names] if has_program(name)],
        "modules": [name for name in names if has_module(name)],
        "leftovers": leftovers(pattern),
    }
    print(json.dumps(report))


main(sys.argv[1], sys.argv[2:])
