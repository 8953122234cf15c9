"""A session of Spark for the command line: started in this process, or the one that is there."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sooner.errors import InvalidArgument

_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}


@contextmanager
def session_on(master: str | None) -> Iterator[Any]:
    """The session of Spark on this master; by default all cores of this machine, reached by loopback only.

    Settings of `spark-defaults.conf` and of `spark-submit` are kept.
    """
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        remedy = "Install it: apt-get install openjdk-17-jre-headless."
        raise InvalidArgument("engine", "run where Java 17 is installed", "no program `java`", remedy)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    before = SparkSession.getActiveSession()
    builder = SparkSession.builder.appName("sooner").master(master or "local[*]")
    for name, value in {**_QUIET, **({} if master else _LOCAL)}.items():
        builder = builder.config(name, value)
    session = before or builder.getOrCreate()
    try:
        yield session
    finally:
        if before is None:
            session.stop()
