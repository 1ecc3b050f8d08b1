"""The local file system class that forks no processes: compiled once a user and Spark version, by the Janino compiler that Spark carries.

Why: Hadoop's own class forks `chmod` twice for every file, about half of the fixed cost of a micro-batch (docs/decisions/003).
No JDK is needed.
Cost: one start of a small JVM (about 2 s) on first use; after that, a look at the cache directory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

CLASS_NAME = "kigen.NioLocalFileSystem"
_SOURCES = Path(__file__).parent / "java"
_JARS = ("janino-*", "commons-compiler-*", "hadoop-client-*", "slf4j-api-*")


def compiled_classes() -> Path | None:
    """The directory to put on the driver's class path; None if it cannot be made here (Spark then runs with its own, slower class)."""
    sources = sorted(_SOURCES.glob("*.java"))
    content = b"".join(source.read_bytes() for source in sources) + pyspark.__version__.encode()
    target = _cache_directory() / f"classes-{hashlib.sha256(content).hexdigest()[:16]}"
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=target.parent))
        try:
            _compile(sources, scratch)
            scratch.rename(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except Exception:  # any failure (no java, a read-only home, a lost race) costs speed only, never the run
        return target if target.is_dir() else None
    return target


def _cache_directory() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "kigen"


def _compile(sources: list[Path], target: Path) -> None:
    jars = Path(pyspark.__file__).parent / "jars"
    class_path = os.pathsep.join(str(jar) for pattern in _JARS for jar in jars.glob(f"{pattern}.jar"))
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else Path("java")
    with open(os.devnull, "wb") as null:
        port = launch_gateway(
            jarpath=str(next(jars.glob("py4j-*.jar"))),
            classpath=class_path,
            die_on_exit=True,
            java_path=str(java),
            redirect_stdout=null,
            redirect_stderr=null,
        )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        files = gateway.new_array(gateway.jvm.java.io.File, len(sources))
        for i, source in enumerate(sources):
            files[i] = gateway.jvm.java.io.File(str(source))
        compiler = gateway.jvm.org.codehaus.janino.CompilerFactory().newCompiler()
        compiler.setDestinationDirectory(gateway.jvm.java.io.File(str(target)), False)
        compiler.setTargetVersion(8)
        compiler.compile(files)
    finally:
        gateway.shutdown()
