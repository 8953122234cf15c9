"""A small local session of Spark for tests and carriers."""

import os
import shutil
import sys

from sooner.extras import is_installed

MISSING = None
if not is_installed("spark"):
    MISSING = "no Spark: install sooner[spark]"
elif shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    MISSING = "no Java: install openjdk-17-jre-headless"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
    "spark.python.authenticate.socketTimeout": "120s",  # on a busy machine, a Python process needs more than 15 s to start
    "spark.ui.showConsoleProgress": "false",
}


def session():
    """The session of this process."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
