"""Computes how much memory a run may use, and measures how much a process uses.

Only the private memory of a process counts: pages that are resident and belong to no file. The system can drop pages
of files, but not these. Cost: about 20 microseconds to read the memory of one process.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

import pyarrow as pa

LEAST_MEMORY = 100_000_000  # a Python worker with its libraries takes about this much before it holds a tuple
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-z]*|%)\s*", re.IGNORECASE)
_DECIMAL = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BINARY = {
    f"{letter}{end}": 1 << shift for letter, shift in (("k", 10), ("m", 20), ("g", 30), ("t", 40)) for end in ("", "ib")
}


class SizeError(ValueError):
    """A memory size that cannot be parsed, or that is too small."""


class MemoryLimitReached(MemoryError):
    """The run would use more memory than its limit allows. Ends the run with exit code 1."""


def limit_bytes(given: str | int, machine: int | None = None) -> int:
    """Converts a size such as 4GB, 512MiB or 70% to bytes. Raises SizeError."""
    text = str(given)
    found = _SIZE.fullmatch(text)
    unit = "" if found is None else found[2].lower()
    if found is None or (unit != "%" and unit not in _DECIMAL and unit not in _BINARY):
        raise SizeError(f"memory '{text}' is not a size: write a size such as 4GB, 512MB or 70%")
    number = float(found[1])
    if unit == "%":
        if not 0 < number <= 100:
            raise SizeError(f"memory '{text}': write a share of the machine above 0% and up to 100%")
        return round((machine or machine_bytes()) * number / 100)
    size = round(number * (_DECIMAL.get(unit) or _BINARY[unit]))
    if size < LEAST_MEMORY:
        raise SizeError(
            f"memory '{text}' is too little: a Python worker alone takes about {size_text(LEAST_MEMORY)}; "
            "write 200MB or more"
        )
    return size


def size_text(size: float) -> str:
    """Formats a size in the unit that suits it: 940 KB, 512 MB, 11.2 GB."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if size >= unit * 0.9995:
            return (
                f"{size / unit:.1f}".removesuffix(".0") + f" {name}" if unit == 10**9 else f"{size / unit:.0f} {name}"
            )
    return f"{size:.0f} bytes"


def machine_bytes(root: Path = Path("/")) -> int:
    """Returns the memory available to this process: that of the machine, or less if a control group has a limit."""
    return min([_meminfo(root).get("MemTotal", 1 << 62), *_group_limits(root)])


def available_bytes(root: Path = Path("/")) -> int:
    """Returns what this machine could still allocate without killing a process, swap included."""
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
    """Returns the limits of this process's control group and of all its parents, for cgroup versions 1 and 2."""
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
    """Returns the private memory of a process, or 0 if there is no such process."""
    try:
        with open(f"/proc/{pid or 'self'}/statm", "rb") as file:
            _, resident, shared, *_ = file.read().split()
    except (OSError, ValueError):
        return 0
    return max(0, int(resident) - int(shared)) * _PAGE


def process_start(pid: int) -> int:
    """Returns when a process started, in clock ticks since boot, or 0 if it does not exist or is dead.

    The process id and this number together identify a process, even after the id is used again.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def return_freed_memory() -> None:
    """Returns memory to the system that allocators have freed but still hold. By themselves they do it only later."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
