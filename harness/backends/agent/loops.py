"""Loop devices: files as block devices (loop(4)), let go by the kernel with the last mount that uses them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct

from .tools import AgentError

CONTROL = "/dev/loop-control"
SYS_BLOCK = "/sys/block"

_LOOP_GET_FREE = 0x4C82
_LOOP_CONFIGURE = 0x4C0A
_LOOP_GET_STATUS64 = 0x4C05
_LOOP_SET_STATUS64 = 0x4C04
_AUTOCLEAR, _DIRECT_IO = 4, 16
_STATUS_BYTES = 232
_SIZE_LIMIT_AT = 32
_FLAGS_AT = 52
_CONFIG_BYTES = 8 + _STATUS_BYTES + 64
_LOOP_MAJOR = 7
_ATTEMPTS = 50
_LEAST = 512
"""Of a device's size: a sector."""
_FLUSHES_FIELD = 15


def attach(backing: int, image: str, *, direct: bool = False) -> tuple[str, int]:
    """Make an open file a block device that the kernel detaches after its last use.

    Args:
        backing: the file, open for reading and writing.
        image: its name, for errors.
        direct: pass the page cache of the file by, so that what its own device refuses fails at once.

    Returns:
        The device's path, and a descriptor of it that keeps it until it is mounted: the caller closes it.

    Raises:
        AgentError: there are no loop devices here, or none that pass by a page cache.
    """
    flags = _AUTOCLEAR | (_DIRECT_IO if direct else 0)
    config = bytearray(_CONFIG_BYTES)
    struct.pack_into("<I", config, 0, backing)
    struct.pack_into("<I", config, 8 + _FLAGS_AT, flags)
    try:
        for _ in range(_ATTEMPTS):
            device = _free_device()
            descriptor = os.open(device, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(descriptor, _LOOP_CONFIGURE, bytes(config))
                given = struct.unpack_from("<I", _status(descriptor), _FLAGS_AT)[0]
            except OSError as error:
                os.close(descriptor)
                if error.errno == errno.EBUSY:  # another process was faster
                    continue
                raise
            if direct and not given & _DIRECT_IO:
                os.close(descriptor)
                raise AgentError(f"the kernel refuses direct writes from {device} to {image}")
            return device, descriptor
    except OSError as error:
        raise AgentError(
            f"no loop device for {image}: {error.strerror} (is this root, and not in a container?)"
        ) from None
    raise AgentError(f"no loop device for {image}: others took each one that was free")


def attach_image(image: str) -> tuple[str, int]:
    """`attach` a file by its path."""
    backing = os.open(image, os.O_RDWR | os.O_CLOEXEC)
    try:
        return attach(backing, image)
    finally:
        os.close(backing)


def _free_device() -> str:
    control = os.open(CONTROL, os.O_RDWR | os.O_CLOEXEC)
    try:
        number = fcntl.ioctl(control, _LOOP_GET_FREE)
    finally:
        os.close(control)
    device = f"/dev/loop{number}"
    if not os.path.exists(device):  # a /dev that the kernel does not keep
        os.mknod(device, 0o660 | stat.S_IFBLK, os.makedev(_LOOP_MAJOR, number))
    return device


def limit(device: str, size: int) -> None:
    """Let the device end after this number of bytes (0: at the file's end): I/O behind it fails with EIO.

    What is mounted stays mounted, but for what it does then when it meets the end see `drives`.
    """
    descriptor = os.open(device, os.O_RDWR | os.O_CLOEXEC)
    try:
        status = _status(descriptor)
        struct.pack_into("<Q", status, _SIZE_LIMIT_AT, size)
        fcntl.ioctl(descriptor, _LOOP_SET_STATUS64, bytes(status))
    finally:
        os.close(descriptor)


def cut_off(device: str) -> None:
    """Write to the file what the device's page cache holds, and let nothing follow, however long the device lives."""
    limit(device, _LEAST)


def _status(descriptor: int) -> bytearray:
    status = bytearray(_STATUS_BYTES)
    fcntl.ioctl(descriptor, _LOOP_GET_STATUS64, status, True)
    return status


def flushes(device: str) -> int:
    """How many flushes the device has carried out; every sync of a file ends with one (/sys/block/*/stat)."""
    with open(f"{SYS_BLOCK}/{os.path.basename(device)}/stat", "rb") as file:
        return int(file.read().split()[_FLUSHES_FIELD])


def images() -> dict[str, str]:
    """The file behind each loop device in use, by the device's path."""
    found: dict[str, str] = {}
    for name in os.listdir(SYS_BLOCK):
        if name.startswith("loop"):
            try:
                with open(f"{SYS_BLOCK}/{name}/loop/backing_file", "rb") as file:
                    found[f"/dev/{name}"] = os.fsdecode(file.read().rstrip(b"\n")).removesuffix(" (deleted)")
            except OSError:  # not in use
                continue
    return found
