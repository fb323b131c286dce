"""A simulated machine: a disk and a clock that outlive the processes which run on it, one after the other."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from splitbrain.harness.contract.faults import ClockFault, DiskFault
from splitbrain.harness.contract.nodes import NodeId, NodeStatus
from splitbrain.harness.contract.rng import Rng, Streams
from splitbrain.harness.simulation.clock import EPOCH_NS, Oscillator
from splitbrain.harness.simulation.cpu import CpuLimit
from splitbrain.harness.simulation.disk import MountedDisk, SimDisk
from splitbrain.harness.simulation.images import CrashImages
from splitbrain.harness.simulation.network import ProcessNetwork, SimNetwork
from splitbrain.harness.simulation.process import ProcessClock, SimProcess, resolve
from splitbrain.harness.simulation.worlds import Costs, World
from splitbrain.results.errors import HarnessError

if TYPE_CHECKING:
    from splitbrain.harness.simulation.loop import SimLoop, SimTimer
    from splitbrain.harness.simulation.trace import Trace

_MS = 1_000_000

DATA_DIR: Final = "data"
"""The directory of a node, as its command names it."""


class Outputs(Protocol):
    """Where what nodes say goes."""

    def telemetry(self, node: NodeId, time_ns: int, line: bytes) -> None:
        """Take a line of telemetry; `time_ns` is true time since the simulation began."""
        ...

    def log(self, node: NodeId, time_ns: int, line: str) -> None:
        """Take a line of a node's log."""
        ...


class ProcessWorld(msgspec.Struct, frozen=True):
    """The world of a process (`NodeWorld`), and the process itself for code that runs programs on it."""

    process: SimProcess
    clock: ProcessClock
    rng: Rng
    network: ProcessNetwork
    disk: MountedDisk
    spawn: Callable[[Awaitable[None], str], None]
    telemetry: Callable[[bytes], None]
    log: Callable[[str], None]
    last_words: Callable[[Callable[[], bytes]], None]
    stops: Callable[[Callable[[], Awaitable[None]]], None]
    applied: Callable[[int], None]
    waker: Callable[[Callable[[], None]], Callable[[], None]]
    resume: Callable[[Future[Any], Any], None]


class SimHost:
    """The machine of one node.

    Attributes:
        node: its name.
        process: the process that runs on it, or ran last; None before the first.
        oscillator: its clock.
        disk: its disk.
        images: looks at what would be left of the disk; None unless `watch_disk` was called.
    """

    def __init__(
        self,
        loop: SimLoop,
        node: NodeId,
        network: SimNetwork,
        streams: Streams,
        world: World,
        outputs: Outputs,
        trace: Trace | None,
        process: type[SimProcess] = SimProcess,
    ) -> None:
        rng = streams[f"host/{node}"]
        offset_ns = rng.between(-world.clock_offset_ms, world.clock_offset_ms) * _MS
        drift_ppm = rng.between(-world.clock_drift_ppm, world.clock_drift_ppm)
        self._loop = loop
        self._network = network
        self._streams = streams
        self._outputs = outputs
        self._trace = trace
        self._costs = world.costs or Costs(0, 0, 0)
        self._nature = (drift_ppm, offset_ns)
        self._strobe: SimTimer | None = None
        self._strobed = 0
        self._cpu: CpuLimit | None = None
        self._last_line = ""
        self._last_words: list[Callable[[], bytes]] = []
        self._at_stop: Callable[[], Awaitable[None]] | None = None
        self._stops: list[Future[bool]] = []
        self._process_type = process
        self.node = node
        self.process: SimProcess | None = None
        self.oscillator = Oscillator(loop, drift_ppm, offset_ns)
        self.disk = SimDisk(streams[f"disk/{node}"], world.disk)
        self.images: CrashImages | None = None

    def watch_disk(self) -> CrashImages:
        """Let what would be left of the disk be looked at, in each life from `CrashImages.begins` on."""
        images = self.images = CrashImages(
            self.disk,
            self._streams[f"images/{self.node}"],
            lambda: self._loop.now_ns,
            self.oscillator.wall_ns,
            self._tell,
            self._say,
        )
        self.disk.watch = images.passed
        return images

    def boot(self) -> tuple[SimProcess, ProcessWorld]:
        """A new process, and its world; the one before must have ended."""
        life = 1 if self.process is None else self.process.life + 1
        process = self.process = self._process_type(self._loop, life, self._ended, self._costs.message_ns)
        process.limit(self._cpu)
        self._last_words = []
        self._at_stop = None
        self._network.process_started(self.node)
        self._note("process", f"start {life}")
        clock = ProcessClock(self._loop, self.oscillator, process)

        images = self.images

        def telemetry(line: bytes) -> None:
            if process.alive():
                self._tell(line)
                if images is not None:
                    images.line()

        def log(line: str) -> None:
            if process.alive():
                self._say(line)

        def stops(act: Callable[[], Awaitable[None]]) -> None:
            if process.alive():
                self._at_stop = act

        async def synced(delay_ns: int) -> None:
            process.compute(self._costs.sync_ns)
            await clock.sleep(delay_ns)

        def applied(entries: int) -> None:
            if self._costs.apply_ns:
                process.compute(entries * self._costs.apply_ns)

        return process, ProcessWorld(
            process=process,
            clock=clock,
            # A stream for each life: how much one life drew does not change the next one.
            rng=self._streams[f"node/{self.node}/{life}"],
            network=self._network.of(self.node, process),
            disk=self.disk.mount(synced if self._costs.sync_ns else clock.sleep, process.alive),
            spawn=process.spawn,
            telemetry=telemetry,
            log=log,
            last_words=self._last_words.append,
            stops=stops,
            applied=applied,
            waker=process.waker,
            resume=self._loop.resume,
        )

    def kill(self) -> None:
        """End the process; what it wrote stays in the machine's cache."""
        if self.process is not None:
            self._break_off(self.process)

    def _break_off(self, process: SimProcess) -> None:
        if process.alive():
            self.disk.take_back()
            self._end(process)

    def _end(self, process: SimProcess, failure: Exception | None = None) -> None:
        if process.alive():  # else a later one may run already
            self.disk.process_died()
            process.end(failure)

    async def stop(self, grace_ns: int) -> bool:
        """End the process in good order, with what it does at a stop; what it wrote stays in the machine's cache.

        Returns:
            Whether the grace passed, and it was killed.
        """
        process, act = self.process, self._at_stop
        if process is not None:
            process.resume()
        if process is None or not process.alive() or act is None:
            self.kill()
            return False
        over = Future[bool](loop=self._loop)

        def grace_passed() -> None:
            resolve(over, True)
            self._break_off(process)

        timer = self._loop.after(grace_ns, grace_passed)
        self._stops.append(over)
        if len(self._stops) == 1:  # else it is at it already
            process.spawn(self._stop(process, act), "stop")
        killed = await over  # given up meanwhile, the grace is in force all the same
        timer.cancel()
        return killed

    async def _stop(self, process: SimProcess, act: Callable[[], Awaitable[None]]) -> None:
        """What a process does at a stop, and in the same step its end: nothing of it happens in between."""
        try:
            await act()
            self._end(process)
        except Exception as error:
            self._end(process, error)

    @property
    def syncs_by_blocking(self) -> bool:
        """Whether its process runs, and is blocked while it syncs."""
        process = self.process
        return process is not None and process.state == "running" and self.disk.blocks

    def power_off(self) -> dict[str, int]:
        """End the process, and lose what was not synced; what was lost."""
        process = self.process
        if process is None:
            return {}
        # Before it ends: the network asks then whether peers get notice.
        process.silent = True
        if process.alive():
            self.disk.take_back()
            process.end()
        else:
            self._network.process_ended(self.node, process)
        lost = self.disk.power_loss()
        self._note("power", f"lost {sorted(lost.items())}")
        return lost

    def spoil(self, fault: DiskFault | None) -> dict[str, Any]:
        """Give the disk a fault, or none; the evidence.

        Raises:
            HarnessError: it shall be wiped while the node runs.
        """
        if fault is not None and fault.wipe and self.process is not None and self.process.alive():
            raise HarnessError(f"the disk of {self.node} cannot be wiped while the node runs: stop it before.")
        return self.disk.give(fault)

    def skew(self, fault: ClockFault | None) -> dict[str, Any]:
        """Give the clock a fault, or none; what it showed before and after, and how often a strobe that ends jumped."""
        before = self._clock_shown()
        evidence: dict[str, Any] = {}
        if self._strobe is not None:
            self._strobe.cancel()
            evidence["jumps"] = self._strobed
        self._strobe, self._strobed = None, 0
        drift_ppm, offset_ns = self._nature
        if fault is not None:
            drift_ppm += round(fault.drift_ppm)
            offset_ns += round(fault.offset_ms * _MS)
        self.oscillator.set(drift_ppm, offset_ns)
        if fault is not None and fault.strobe_ms > 0:
            self._jump_later(round(fault.strobe_ms * _MS), drift_ppm, (self._nature[1], offset_ns))
        return {"before": before, "after": self._clock_shown(), **evidence}

    def _jump_later(self, every_ns: int, drift_ppm: int, offsets_ns: tuple[int, int]) -> None:
        def jump() -> None:
            self._strobed += 1
            self.oscillator.set(drift_ppm, offsets_ns[0])
            self._jump_later(every_ns, drift_ppm, (offsets_ns[1], offsets_ns[0]))

        self._strobe = self._loop.after(every_ns, jump)

    def throttle(self, share: float | None) -> dict[str, Any]:
        """Give the node's processes this share of a CPU, or all of one; what the limit so far did."""
        did = {} if self._cpu is None else {"throttled": self._cpu.throttled}
        self._cpu = None if share is None else CpuLimit(self._loop, share)
        if self.process is not None and self.process.alive():
            self.process.limit(self._cpu)
        return did

    def status(self) -> NodeStatus:
        """The state of its process."""
        process = self.process
        if process is None:
            return NodeStatus("stopped", 0)
        if process.alive():
            return NodeStatus("paused" if process.state == "paused" else "running", process.life)
        evidence: dict[str, Any] = {}
        if process.failure is not None:
            evidence = {"exit": f"{type(process.failure).__name__}: {process.failure}", "log": self._last_line}
        return NodeStatus("stopped", process.life, evidence)

    def _clock_shown(self) -> dict[str, float]:
        offset_ns = self.oscillator.wall_ns() - EPOCH_NS - self._loop.now_ns
        return {"offset_ms": round(offset_ns / _MS, 3), "drift_ppm": self.oscillator.drift_ppm}

    def _ended(self) -> None:
        process = self.process
        assert process is not None, "a process ended that never began"
        if self.images is not None:
            self.images.ends()
        if process.failure is not None:
            self._say(f"stops: {type(process.failure).__name__}: {process.failure}")
        # What the rest of the step adds is not said: nothing that it does has an effect.
        words, self._last_words = tuple(self._last_words), []
        if process.ended_at_work:
            # In the middle of a step what it holds may contradict itself: an entry half applied, one not counted yet.
            self._loop.call_soon(self._say_at_the_end, words)
        else:
            self._say_at_the_end(words)
        stops, self._stops = self._stops, []
        for over in stops:
            resolve(over, False)
        self._note("process", f"end {process.life}")
        self._network.process_ended(self.node, process)

    def _say_at_the_end(self, words: Sequence[Callable[[], bytes]]) -> None:
        for each in words:
            self._tell(each())

    def _tell(self, line: bytes) -> None:
        self._outputs.telemetry(self.node, self._loop.now_ns, line)

    def _say(self, line: str) -> None:
        self._last_line = line
        self._outputs.log(self.node, self._loop.now_ns, line)

    def _note(self, kind: str, what: str) -> None:
        if self._trace is not None:
            self._trace.event(self._loop.now_ns, kind, f"{self.node} {what}")
