"""What a loss of power would leave of a node's disk, looked at while the node goes on.

A promise of a node is only as good as what it has on disk at that moment. To show that one was none, the power has to
go in the milliseconds before the rest is written. So the system says here again and again what it would recover from a
copy of the disk (`splitbrain.harness.contract.embedding.Recoverable`), and the answer goes into the node's telemetry,
in the order of what the node said itself. The idea is that of ALICE (Pillai et al., OSDI 2014) and of CrashMonkey
(Mohan et al., OSDI 2018): each state that a crash may leave is a test.

Copies are taken behind changes of the disk and behind lines of telemetry, of each kind ever more seldom the more often
it happens in a node's life: what is rare is looked at always, what is common now and then. A change that failed begins
this anew: what a node makes of it shows in what it writes and says next, if it goes on at all.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.simulation.disk import FAILURE, Left, SimDisk, is_scratch

AT_ONCE: Final = 8
EVERY_NS: Final = 1_500_000_000
"""Copies in a life of a node: so many at its beginning, and one more after each such time (to recover from one takes a
millisecond or two)."""

_LINE: Final = "line"
_LINES_AS_OFTEN: Final = 4
"""Lines are looked at so many times as often as the rest: a promise is made in them."""
_KINDS: Final[tuple[Left, ...]] = ("nothing", "nothing", "drawn", "drawn", "all but a gap")

Recover: TypeAlias = Callable[["ImageDisk", Rng], Sequence[Mapping[str, Any]]]


class CrashImages:
    """Copies of one node's disk, and what they are good for.

    Args:
        disk: of the node.
        rng: a stream of its own, so that looking changes nothing else.
        now_ns: true time.
        wall_ns: the node's wall clock.
        say: takes a line of telemetry.
        log: takes a line of the node's log.
    """

    def __init__(
        self,
        disk: SimDisk,
        rng: Rng,
        now_ns: Callable[[], int],
        wall_ns: Callable[[], int],
        say: Callable[[bytes], None],
        log: Callable[[str], None],
    ) -> None:
        self._disk = disk
        self._rng = rng
        self._now_ns = now_ns
        self._wall_ns = wall_ns
        self._say = say
        self._log = log
        self._recover: Recover | None = None
        self._times: dict[str, int] = {}
        self._began_ns = 0
        self._anew_ns = 0
        self._looks = 0
        self._spoke = False

    def begins(self, recover: Recover) -> None:
        """A process begins: from its first line on, what it says is compared with what is on the disk."""
        self._recover = recover
        self._times = {}
        self._began_ns = self._now_ns()
        self._looks = 0
        self._spoke = False

    def ends(self) -> None:
        """The process has ended: what is on the disk shows at the next start."""
        self._recover = None

    def line(self) -> None:
        """The node has written a line of telemetry."""
        self._spoke = True
        self.passed(_LINE, _LINES_AS_OFTEN)

    def passed(self, what: str, as_often: int = 1) -> None:
        """Something of this kind has happened: now and then, look; `as_often` times as often as at most kinds."""
        recover = self._recover
        if recover is None or not self._spoke:
            return
        if what == FAILURE:
            self._begin_anew()
            return
        times = self._times[what] = self._times.get(what, 0) + 1
        if self._rng.random() * times < as_often and self._looks < self._allowed():
            self._looks += 1
            self._look(recover)

    def _begin_anew(self) -> None:
        """Look as often as at the beginning; where one failure follows the other, not for each."""
        now_ns = self._now_ns()
        if now_ns >= self._anew_ns:
            self._anew_ns = now_ns + EVERY_NS
            self._times = {}
            self._looks = min(self._looks, self._allowed() - AT_ONCE)

    def _allowed(self) -> int:
        return AT_ONCE + (self._now_ns() - self._began_ns) // EVERY_NS

    def _look(self, recover: Recover) -> None:
        image = ImageDisk(self._disk.image(self._rng, self._rng.choice(_KINDS)))
        for found in recover(image, self._rng):
            problem = found.get("problem")
            if problem is not None:
                self._log(f"after a loss of power at this moment it would not start: {problem}")
            fields = {name: value for name, value in found.items() if name != "problem"}
            self._say(msgspec.json.encode({"wall": self._wall_ns(), **fields}))


class ImageDisk:
    """A copy of a disk (`splitbrain.cluster.runtime.Disk`) on which nothing waits.

    Args:
        files: the files, by name.
    """

    def __init__(self, files: dict[str, bytearray]) -> None:
        self._files = files

    def names(self) -> list[str]:
        """Names of all files, sorted; without those of replacements that a crash interrupted."""
        return sorted(name for name in self._files if not is_scratch(name))

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return name in self._files

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if there is none."""
        content = self._files.get(name)
        return None if content is None else bytes(content)

    def open(self, name: str) -> ImageFile:
        """Open for appending; created if missing."""
        return ImageFile(self._files.setdefault(name, bytearray()))

    async def replace(self, name: str, data: bytes) -> None:
        """Give a file a new content."""
        self._files[name] = bytearray(data)

    def rename(self, source: str, target: str) -> None:
        """Name a file otherwise.

        Raises:
            FileNotFoundError: there is no such file.
        """
        if source not in self._files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", source)
        self._files[target] = self._files.pop(source)

    def remove(self, name: str) -> None:
        """Remove a file; no harm if there is none."""
        self._files.pop(name, None)

    async def sync_names(self) -> None:
        """Nothing: names are what they are."""


class ImageFile:
    """A file of a copy (`splitbrain.cluster.runtime.File`)."""

    def __init__(self, data: bytearray) -> None:
        self._data = data

    def append(self, data: bytes) -> None:
        """Write at the end."""
        self._data += data

    async def sync(self) -> None:
        """Nothing: the content is what it is."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or lengthen it with zeros."""
        del self._data[size:]
        self._data += bytes(size - len(self._data))

    def close(self) -> None:
        """Nothing."""
