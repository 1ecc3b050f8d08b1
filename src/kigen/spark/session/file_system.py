"""Compiles Kigen's local file system class, which forks no processes, once per user and Spark version.

Hadoop's own class forks `chmod` twice for every file. That is about half of the fixed cost of a micro-batch
(docs/decisions/003). The Janino compiler comes with Spark, so no JDK is needed. The result is a jar, because a JVM with
a directory on its class path cannot write a class archive (kigen.spark.session.spark_home). Cost: one start of a small
JVM, about 2 s.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

CLASS_NAME = "kigen.NioLocalFileSystem"
_SOURCES = Path(__file__).parent / "java"
_JARS = ("janino-*", "commons-compiler-*", "hadoop-client-*", "slf4j-api-*")


def sources() -> list[Path]:
    return sorted(_SOURCES.glob("*.java"))


def compile_jar(java: Path, jar: Path) -> None:
    """Compiles the sources into a jar. Raises any error, such as a missing Java or a read-only directory."""
    with tempfile.TemporaryDirectory() as folder:
        _compile(java, sources(), Path(folder))
        with zipfile.ZipFile(jar, "w") as packed:
            for path in sorted(Path(folder).rglob("*.class")):
                packed.write(path, path.relative_to(folder))


def _compile(java: Path, sources: list[Path], target: Path) -> None:
    jars = Path(pyspark.__file__).parent / "jars"
    class_path = os.pathsep.join(str(jar) for pattern in _JARS for jar in jars.glob(f"{pattern}.jar"))
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
