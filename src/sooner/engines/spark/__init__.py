"""Apache Spark, the extra `sooner[spark]`: live and stored series of any DataFrame, one fleet for each shard of IDs."""

from sooner.engines.spark.decisions import decide as decide
from sooner.engines.spark.decisions import decide_stream as decide_stream
from sooner.engines.spark.failures import reason as reason
