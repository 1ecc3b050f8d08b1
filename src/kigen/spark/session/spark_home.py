"""Creates the SPARK_HOME that Kigen uses, in the user's cache: links to Spark's scripts and jars, and Kigen's own jar.

It makes starts faster (docs/decisions/016). With Spark's own home, a third of a start goes to Python workers that
import PySpark from a zip file without compiled code. Much of the rest goes to a JVM that reads and verifies thousands
of classes. This home has no zip file, so workers import the installed PySpark. It also keeps a class archive, which
`kigen warm` writes and all later starts map into memory. Invariant: a home is used only when it is complete. Spark
without it is slower, but otherwise the same.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyspark

from kigen.spark.session.file_system import compile_jar, sources

_LINKED = ("bin", "jars", "conf")


@dataclass(frozen=True, slots=True)
class SparkHome:
    """A directory that Spark can start from."""

    folder: Path

    @property
    def jar(self) -> Path:
        return self.folder / "kigen.jar"

    @property
    def complete(self) -> bool:
        return os.access(self.jar, os.R_OK) and os.access(self.folder / "bin" / "spark-submit", os.X_OK)

    @property
    def archive(self) -> Path:
        """Returns the path of the class archive, which may not exist.

        An archive fits only the JVM and the jars that it was made with, so the name depends on both.
        """
        java = java_path()
        made = [path.stat().st_mtime_ns if path.exists() else 0 for path in (java, self.folder / "jars")]
        identity = f"{java}:{made}"
        return self.folder / f"classes-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.jsa"


def spark_home() -> SparkHome | None:
    """Returns the home for the installed PySpark. Creates it if needed (2 s). Returns None if that is not possible."""
    installed = Path(pyspark.__file__).resolve().parent
    content = b"".join(source.read_bytes() for source in sources()) + f"{installed}:{pyspark.__version__}".encode()
    home = SparkHome(_cache_directory() / f"spark-{hashlib.sha256(content).hexdigest()[:16]}")
    if home.complete:
        return home
    try:
        shutil.rmtree(home.folder, ignore_errors=True)  # it is incomplete
        home.folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_orphans(home.folder.parent)
        scratch = Path(tempfile.mkdtemp(dir=home.folder.parent))
        try:
            for name in _LINKED:
                (scratch / name).symlink_to(installed / name)  # conf may not exist yet
            compile_jar(java_path(), SparkHome(scratch).jar)
            scratch.rename(home.folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except Exception:  # a failure (no Java, a read-only cache, a lost race) costs only speed
        return home if home.complete else None
    return home


def java_path() -> Path:
    """Returns the `java` that Spark's scripts use."""
    if os.environ.get("JAVA_HOME"):
        return Path(os.environ["JAVA_HOME"], "bin", "java").resolve()
    return Path(shutil.which("java") or "java").resolve()


def _cache_directory() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "kigen"


def _remove_orphans(cache: Path) -> None:
    """Removes homes whose PySpark was uninstalled: their archives are large."""
    for folder in cache.glob("spark-*"):
        if not (folder / "jars").exists():
            shutil.rmtree(folder, ignore_errors=True)
