"""Spark: the table as a stream of files, one for each few steps of time; what the rule leaves open ends by its deadline."""

import pyarrow.compute as pc
import pyarrow.parquet as pq

import sooner
from engines.carriers.spark_static import said
from engines.sparking import MISSING as MISSING
from engines.sparking import session

_FILES = 5


def decide(model_file, table, folder):
    from sooner.engines import spark

    rows = pq.read_table(table)
    steps = pc.max(rows["time"]).as_py() + 1
    source = folder / "in"
    source.mkdir()
    for first in range(0, steps, steps // _FILES):
        within = pc.and_(pc.greater_equal(rows["time"], first), pc.less(rows["time"], first + steps // _FILES))
        pq.write_table(rows.filter(within), source / f"{first:03}.parquet")
    reader = session().readStream.schema("series string, time long, hum double, flow double")
    observed = reader.option("maxFilesPerTrigger", 1).parquet(str(source))
    decided = spark.decide_stream(observed, sooner.load(model_file), shards=4, deadline=steps)
    writer = decided.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    writer.option("path", str(folder / "out")).trigger(availableNow=True).start().awaitTermination()
    return said(session().read.parquet(str(folder / "out")).collect())
