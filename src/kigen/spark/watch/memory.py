"""How much memory a run may use, and how much a process uses.

What counts is the private memory of a process (resident and of no file): pages of files can be dropped by the system,
these cannot. Cost: reading a process's memory takes some 20 microseconds.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

import pyarrow as pa

DEFAULT = "70%"
LEAST = 100_000_000  # a Python worker with its libraries takes about this much before it holds a tuple
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-z]*|%)\s*", re.IGNORECASE)
_DECIMAL = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BINARY = {
    f"{letter}{end}": 1 << shift for letter, shift in (("k", 10), ("m", 20), ("g", 30), ("t", 40)) for end in ("", "ib")
}


class SizeError(ValueError):
    """A size of memory that cannot be read or met."""


class MemoryLimitReached(RuntimeError):
    """The run would use more memory than it may: exit code 1."""


def limit_bytes(given: str | int, machine: int | None = None) -> int:
    """The limit in bytes, of a size such as 4GB, 512MiB or 70%. Raises SizeError."""
    text = str(given)
    found = _SIZE.fullmatch(text)
    unit = "" if found is None else found[2].lower()
    if found is None or (unit != "%" and unit not in _DECIMAL and unit not in _BINARY):
        raise SizeError(f"memory '{text}' is no size: write one such as 4GB, 512MB or 70%")
    number = float(found[1])
    if unit == "%":
        if not 0 < number <= 100:
            raise SizeError(f"memory '{text}': write a share of the machine above 0% and up to 100%")
        return round((machine or machine_bytes()) * number / 100)
    size = round(number * (_DECIMAL.get(unit) or _BINARY[unit]))
    if size < LEAST:
        raise SizeError(
            f"memory '{text}' is too little: a Python worker takes about {size_text(LEAST)} by itself; write 200MB "
            "or more"
        )
    return size


def size_text(size: float) -> str:
    """In the unit that suits it: 940 KB, 512 MB, 11.2 GB."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if size >= unit * 0.9995:
            return (
                f"{size / unit:.1f}".removesuffix(".0") + f" {name}" if unit == 10**9 else f"{size / unit:.0f} {name}"
            )
    return f"{size:.0f} bytes"


def machine_bytes(root: Path = Path("/")) -> int:
    """The memory that there is for this process: the machine's, or less if a control group has a limit."""
    return min([_meminfo(root).get("MemTotal", 1 << 62), *_group_limits(root)])


def available_bytes(root: Path = Path("/")) -> int:
    """What could still be had on this machine without ending anything, swap included."""
    known = _meminfo(root)
    return known.get("MemAvailable", 1 << 62) + known.get("SwapFree", 0)


def _meminfo(root: Path) -> dict[str, int]:
    try:
        lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return {"MemTotal": os.sysconf("SC_PHYS_PAGES") * _PAGE}
    return {
        name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines) if rest.split()
    }


def _group_limits(root: Path) -> list[int]:
    """Of this process's control group and those around it, of either version."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    limits = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        top = root / "sys/fs/cgroup" / controllers
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        inner = top / path.lstrip("/")
        for folder in [inner, *inner.parents]:
            limits += _number(folder / name)
            if folder == top:
                break
    return limits


def _number(file: Path) -> list[int]:
    try:
        return [int(file.read_text(encoding="ascii"))]
    except (OSError, ValueError):  # no limit is written as `max`
        return []


def private_bytes(pid: int | None = None) -> int:
    """The private memory of a process; 0 if there is none of that number."""
    try:
        with open(f"/proc/{pid or 'self'}/statm", "rb") as file:
            _, resident, shared, *_ = file.read().split()
    except (OSError, ValueError):
        return 0
    return max(0, int(resident) - int(shared)) * _PAGE


def started_at(pid: int) -> int:
    """When the process of that number began, in the system's ticks: with the number, its name for ever. 0: there is
    none, or it is dead."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def give_back() -> None:
    """Return to the system what allocators keep of freed memory: at once, where they would only in time."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
