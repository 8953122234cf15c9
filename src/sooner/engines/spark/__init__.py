"""Apache Spark, the extra `sooner[spark]`."""
