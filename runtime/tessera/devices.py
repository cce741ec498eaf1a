"""The devices of this machine: by name for people, as contexts for calls.

Enters: `"cpu"`, `"cuda"` or `"cuda:1"`. Leaves: None for the CPU, or a `Gpu`. Whatever is wrong with a GPU is a
`TesseraError`; nothing is ever run on the CPU instead. A GPU whose context a fault has broken says so to every later
call, and the CPU's functions go on.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from tessera.cuda_driver import (
    COMPUTE_MAJOR,
    COMPUTE_MINOR,
    MULTIPROCESSORS,
    Driver,
    DriverError,
    Unavailable,
    installed_driver,
)
from tessera.errors import (
    BROKEN_GPU,
    GPU_FAILED,
    NO_GPU,
    NO_SUCH_DEVICE,
    NO_SUCH_GPU,
    OLD_GPU,
    WRONG_GPU,
    TesseraError,
    failure,
    kind_of,
)

if TYPE_CHECKING:
    from tessera.gpu_checks import Checks
    from tessera.gpu_memory import Memory
    from tessera.gpu_recording import Recordings
    from tessera.gpu_staging import Staging

CPU = "cpu"
_GPU_NAME = re.compile(r"cuda(?::(0|[1-9]\d{0,3}))?")

STICKY = frozenset({700, 702, 710, 714, 715, 716, 717, 718, 719, 720, 999})
"""Statuses of the driver after which a context does nothing more: illegal addresses and instructions, traps, and
launches that failed or took too long."""

ARCHES = ("sm_100a", "sm_90a", "sm_89", "sm_86", "sm_80")
"""What code is made for, best first. One with suffix `a` is for that generation only, others also for later ones."""


class Gpu:
    """One device, in its primary context, which all libraries of the process share. `lock` is held while work is
    started: one call after another."""

    def __init__(self, driver: Driver, index: int) -> None:
        self.driver = driver
        self.index = index
        self.name = f"cuda:{index}"
        self.lock = threading.RLock()
        self.broken = ""
        self.streams: list[int] = []
        """All that were made for users; `idle_streams` are those that nobody holds any more, as `idle_events` are."""
        self.idle_streams: deque[int] = deque()
        self.idle_events: deque[int] = deque()
        try:
            self.context = driver.retain_context(index)
        except DriverError as error:
            raise failure(NO_GPU, f"{self.name} cannot be used: {error}") from None

    @cached_property
    def memory(self) -> Memory:
        from tessera.gpu_memory import Memory

        return Memory(self)

    @cached_property
    def checks(self) -> Checks:
        from tessera.gpu_checks import Checks

        return Checks(self)

    @cached_property
    def staging(self) -> Staging:
        from tessera.gpu_staging import Staging

        return Staging(self)

    @cached_property
    def recordings(self) -> Recordings:
        from tessera.gpu_recording import Recordings

        return Recordings(self)

    def take_stream(self) -> int:
        """A stream that nobody holds. Needs the lock."""
        if self.idle_streams:
            return self.idle_streams.popleft()
        with self.entered() as driver:
            self.streams.append(driver.make_stream())
        return self.streams[-1]

    @cached_property
    def recording(self) -> int:
        """A stream on which nothing waits, for recording graphs and for copies beside them."""
        with self.entered() as driver:
            return driver.make_stream()

    @cached_property
    def capability(self) -> tuple[int, int]:
        major, minor = (self.driver.attribute(self.index, which) for which in (COMPUTE_MAJOR, COMPUTE_MINOR))
        return major, minor

    @cached_property
    def multiprocessors(self) -> int:
        return self.driver.attribute(self.index, MULTIPROCESSORS)

    @cached_property
    def title(self) -> str:
        """What its maker calls it."""
        return f"{self.driver.device_name(self.index)}, {self.arch}"

    @property
    def arch(self) -> str:
        """The architecture, such as `sm_90a`."""
        major, minor = self.capability
        return f"sm_{major}{minor}" + ("a" if major >= 9 else "")

    @cached_property
    def code_arches(self) -> tuple[str, ...]:
        """The architectures whose code runs here, best first."""
        found = tuple(arch for arch in ARCHES if runs(arch, self.arch))
        if not found:
            note = f"code is made for {ARCHES[-1]} and later"
            raise failure(OLD_GPU, f"{self.name} is {self.arch}, for which there is no code", (note,))
        return found

    def check_arch(self, function: str, arch: str) -> None:
        if not runs(arch, self.arch):
            raise failure(WRONG_GPU, f"`{function}` was built for {arch}, but the GPU is {self.arch}")

    @contextmanager
    def entered(self) -> Iterator[Driver]:
        """The context is current inside, on this thread, and what was current before is so again behind it."""
        self.enter()
        try:
            yield self.driver
        except DriverError as error:
            raise self.failed(error) from None
        finally:
            self.driver.pop()

    def enter(self) -> None:
        """As `entered` begins; `driver.pop` ends it."""
        if self.broken:
            raise self._is_broken()
        try:
            self.driver.push(self.context)
        except DriverError as error:
            raise self.failed(error) from None

    def failed(self, error: DriverError, what: str = "") -> TesseraError:
        """The error for a user; a fault that breaks the context is kept in mind."""
        if error.status in STICKY:
            self.broken = self.broken or str(error)
            return self._is_broken(what)
        return failure(GPU_FAILED, f"{what or self.name} failed on the GPU: {error}")

    def _is_broken(self, what: str = "") -> TesseraError:
        notes = (
            "no call on this GPU works in this process any more; functions on the CPU do",
            "a new process starts anew",
        )
        whose = f" of {what}" if what else ""
        return failure(BROKEN_GPU, f"{self.name} is broken by a fault{whose}: {self.broken}", notes)

    def __repr__(self) -> str:
        return f"<{self.name}, {self.arch}>"


def runs(built: str, here: str) -> bool:
    """Whether code for one architecture runs on another."""
    newer = not built.endswith("a") and int(here.strip("sma_")) >= int(built.strip("sma_"))
    return built == here or newer


_lock = threading.RLock()
_drivers: list[Driver] = []
_gpus: dict[int, Gpu] = {}


def use_driver(driver: Driver | None) -> None:
    """Puts a driver in place of that of the machine, or takes it away again: for tests."""
    with _lock:
        _drivers[:] = [] if driver is None else [driver]
        _gpus.clear()


def driver() -> Driver:
    """Raises TesseraError where there is none."""
    with _lock:
        if not _drivers:
            try:
                _drivers.append(installed_driver())
            except Unavailable as error:
                note = "a GPU needs NVIDIA's driver, of CUDA 12.0 or later, and nothing else"
                raise failure(NO_GPU, f"no NVIDIA GPU can be used: {error}", (note,)) from None
        return _drivers[0]


def gpu(index: int) -> Gpu:
    """A GPU by its number. Raises TesseraError where there is none."""
    with _lock:
        if index not in _gpus:
            found = driver()
            try:
                count = found.device_count()
            except DriverError as error:
                raise failure(NO_GPU, f"no NVIDIA GPU can be used: {error}") from None
            if index >= count:
                has = "no GPU" if count == 0 else "cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
                raise failure(NO_SUCH_GPU, f"there is no GPU cuda:{index}", (f"this machine has {has}",))
            _gpus[index] = Gpu(found, index)
        return _gpus[index]


def find_device(name: object) -> Gpu | None:
    """The device of that name; None for the CPU."""
    if isinstance(name, Gpu):
        return name
    index = gpu_index(name)
    return None if index is None else gpu(index)


def gpu_index(name: object) -> int | None:
    """The number in the name of a GPU, None for the CPU. Raises TesseraError for what names no device."""
    if name == CPU:
        return None
    found = _GPU_NAME.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        shown = f"`{name}`" if isinstance(name, str) else kind_of(name)
        note = 'a device is "cpu", "cuda" (the first GPU) or "cuda:1"'
        raise failure(NO_SUCH_DEVICE, f"there is no device {shown}", (note,))
    return int(found[1] or 0)
