"""The folder that Spark starts from when Kigen starts it, in the user's cache: Spark's own scripts and jars by links,
our class beside.

Why (docs/decisions/016): a third of a start was Python workers that import PySpark from a zip file, which holds no
compiled code, and much of the rest a JVM that reads and verifies thousands of classes. This home has no zip, so workers
import the installed PySpark; and an archive of classes that one run has left here (`kigen warm`) is mapped into memory
by all later ones. Invariant: a home is used only when it is complete. A Spark without it is slower, and otherwise the
same.
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
class Home:
    folder: Path

    @property
    def jar(self) -> Path:
        return self.folder / "kigen.jar"

    @property
    def complete(self) -> bool:
        return os.access(self.jar, os.R_OK) and os.access(self.folder / "bin" / "spark-submit", os.X_OK)

    @property
    def archive(self) -> Path:
        """The classes of a JVM, for that very JVM and these very jars: others would not fit, and be refused. It may not
        be there."""
        java = java_path()
        made = [path.stat().st_mtime_ns if path.exists() else 0 for path in (java, self.folder / "jars")]
        identity = f"{java}:{made}"
        return self.folder / f"classes-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.jsa"


def spark_home() -> Home | None:
    """The home for the PySpark that is installed, made if it is not there (2 s); None if it cannot be made here."""
    installed = Path(pyspark.__file__).resolve().parent
    content = b"".join(source.read_bytes() for source in sources()) + f"{installed}:{pyspark.__version__}".encode()
    home = Home(_cache_directory() / f"spark-{hashlib.sha256(content).hexdigest()[:16]}")
    if home.complete:
        return home
    try:
        shutil.rmtree(home.folder, ignore_errors=True)  # something was removed from it
        home.folder.parent.mkdir(parents=True, exist_ok=True)
        _drop_orphans(home.folder.parent)
        scratch = Path(tempfile.mkdtemp(dir=home.folder.parent))
        try:
            for name in _LINKED:
                (scratch / name).symlink_to(installed / name)  # conf may come later
            compile_jar(java_path(), Home(scratch).jar)
            scratch.rename(home.folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except Exception:  # any failure (no java, a read-only home, a lost race) costs speed only, never the run
        return home if home.complete else None
    return home


def java_path() -> Path:
    """The `java` that Spark's scripts will take."""
    if os.environ.get("JAVA_HOME"):
        return Path(os.environ["JAVA_HOME"], "bin", "java").resolve()
    return Path(shutil.which("java") or "java").resolve()


def _cache_directory() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "kigen"


def _drop_orphans(cache: Path) -> None:
    """Homes whose PySpark is gone: their archives are large."""
    for folder in cache.glob("spark-*"):
        if not (folder / "jars").exists():
            shutil.rmtree(folder, ignore_errors=True)
