"""Writes bytes to the disk: the one layer through which everything passes that must survive a crash or a power cut."""

from kigen.durable.disk import Disk, disk, standing_in
from kigen.durable.errors import DamagedFile
from kigen.durable.files import WrittenFile, make_directories, move, remove, replace, sync_directory, sync_file
from kigen.durable.logs import open_log, rotate_log
from kigen.durable.settings import DURABILITIES, POWER, PROCESS, durability_of
from kigen.durable.speed import SLOW_MS, slow_disk, sync_ms

__all__ = [
    "DURABILITIES",
    "POWER",
    "PROCESS",
    "SLOW_MS",
    "DamagedFile",
    "Disk",
    "WrittenFile",
    "disk",
    "durability_of",
    "make_directories",
    "move",
    "open_log",
    "remove",
    "replace",
    "rotate_log",
    "slow_disk",
    "standing_in",
    "sync_directory",
    "sync_file",
    "sync_ms",
]
