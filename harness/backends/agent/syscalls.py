"""System calls that the `os` module of Python 3.11 lacks, and the status of processes from /proc."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Generator

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 0x2, 0x4, 0x8
_MS_REC, _MS_PRIVATE = 0x4000, 0x4_0000
MS_REMOUNT, MS_NOATIME, MS_BIND = 0x20, 0x400, 0x1000
MNT_DETACH = 0x2
CAP_SYS_ADMIN = 21

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

# The calls that are newer than 2018 have the same numbers on every architecture.
_SYS_FSOPEN, _SYS_FSCONFIG, _SYS_FSMOUNT = 430, 431, 432
_CLOEXEC, _SET_FLAG, _SET_STRING, _CREATE, _ATTR_NOATIME = 1, 0, 1, 6, 0x10

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def call(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call by its number, syscall(2)."""
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    result = _libc.syscall(ctypes.c_long(number), *words)
    if result < 0:
        _check(result, f"system call {number}")
    return result


def signal_on_parent_death(signal_number: int) -> None:
    """Have the kernel send this process a signal when the thread that forked it ends (prctl(2), PR_SET_PDEATHSIG)."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal_number), 0, 0, 0), "prctl")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0), "prctl")


def unshare(flags: int) -> None:
    """Move this process into new namespaces; a new PID namespace holds only its future children."""
    _check(_libc.unshare(flags), "unshare")


def set_network_namespace(descriptor: int) -> None:
    """Move this process into an existing network namespace."""
    _check(_libc.setns(descriptor, CLONE_NEWNET), "setns")


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, options: str = "") -> None:
    """Mount a file system, mount(2)."""
    encoded = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    _check(_libc.mount(*encoded, ctypes.c_ulong(flags), os.fsencode(options) or None), f"mount {target}")


def mount_apart(source: str, kind: str, *flags: str) -> int:
    """Mount a file system in no mount namespace, fsopen(2) and fsmount(2).

    Returns:
        A descriptor of its root directory (O_PATH). It stays mounted for as long as that or a file in it is open.
    """
    context = call(_SYS_FSOPEN, os.fsencode(kind), _CLOEXEC)
    try:
        call(_SYS_FSCONFIG, context, _SET_STRING, b"source", os.fsencode(source), 0)
        for flag in flags:
            call(_SYS_FSCONFIG, context, _SET_FLAG, os.fsencode(flag), None, 0)
        call(_SYS_FSCONFIG, context, _CREATE, None, None, 0)
        return call(_SYS_FSMOUNT, context, _CLOEXEC, _ATTR_NOATIME)
    finally:
        os.close(context)


def unmount(target: str, flags: int = 0) -> None:
    """Unmount what is mounted on top at a place, umount2(2)."""
    _check(_libc.umount2(os.fsencode(target), flags), f"unmount {target}")


def has_capability(number: int) -> bool:
    """Whether this process has a capability (capabilities(7))."""
    with open("/proc/self/status") as file:
        found = next(line.split()[1] for line in file if line.startswith("CapEff:"))
    return bool(int(found, 16) >> number & 1)


def sync_file_system(descriptor: int) -> None:
    """Make durable what is on the file system of an open file, syncfs(2)."""
    _check(_libc.syncfs(descriptor), "syncfs")


def keep_mounts_private() -> None:
    """Move into a mount namespace of this process's own: what is mounted there ends with the last process in it."""
    unshare(CLONE_NEWNS)
    _check(_libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None), "mount --make-rprivate /")


def mount_own_proc() -> None:
    """Show the processes of this PID namespace under /proc, and keep later mounts from reaching other namespaces."""
    _check(_libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None), "mount --make-rprivate /")
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _check(_libc.mount(b"proc", b"/proc", b"proc", flags, None), "mount /proc")


def mount_own_shared_memory() -> None:
    """Give this mount namespace a /dev/shm that ends with it. Call it after `mount_own_proc`.

    libfaketime keeps files there under its process's pid, which a process that is killed leaves; and pids of this
    namespace mean others outside. Where the kernel refuses, processes share what there is.
    """
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV)
    _libc.mount(b"splitbrain", b"/dev/shm", b"tmpfs", flags, b"mode=1777")


@contextlib.contextmanager
def inside(namespace: int, home: int) -> Generator[None, None, None]:
    """Work in another network namespace. Sockets opened meanwhile stay there."""
    set_network_namespace(namespace)
    try:
        yield
    finally:
        set_network_namespace(home)


def process_state(pid: int) -> tuple[str, int] | None:
    """(state letter, session) of a process from /proc/PID/stat; None if there is none."""
    fields = _stat(pid)
    return None if fields is None else (fields[0].decode(), int(fields[3]))


def family(session: int) -> dict[int, str]:
    """State letter by pid of every process of a session and of their descendants, zombies left out.

    A descendant may lead a session of its own: so does every server process of PostgreSQL.
    """
    found: dict[int, list[bytes]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _stat(int(name))) is not None:
            found[int(name)] = fields
    members = {pid for pid, fields in found.items() if pid == session or int(fields[3]) == session}
    born = members
    while born:
        born = {pid for pid, fields in found.items() if int(fields[1]) in born} - members
        members |= born
    return {pid: found[pid][0].decode() for pid in sorted(members) if found[pid][0] not in (b"Z", b"X")}


def began(pid: int) -> int | None:
    """When a process began, in clock ticks since the machine did; None if there is none. A pid may be used again."""
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def _stat(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat behind the name: state, parent, group, session, ...; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return stat[stat.rindex(b")") + 2 :].split()


def listens(pid: int, port: int) -> bool:
    """Whether some TCP socket listens on a port in the network namespace of a process."""
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{table}", "rb") as file:
                rows = file.read().splitlines()[1:]
        except OSError:
            continue
        wanted = b":%04X" % port
        if any(fields[1].endswith(wanted) and fields[3] == b"0A" for fields in map(bytes.split, rows)):
            return True
    return False
