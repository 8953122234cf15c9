"""Live series on engines: the same decisions, what a shard saves, and what killed processes cost.

`measure()` of `benchmarks/engines_spark.py` and `benchmarks/engines_kafka.py` say what was measured. The last line is JSON:
`decisions_equal` is the least share of decisions that equal those of `clf.decide` over all engines and all kills,
`spark_over_per_id` the throughput of one state per shard over that of one state per ID in the same run, `kafka_over_fleet` that
of consumers over the bare fleet on the same parsed records. `python benchmarks/engines.py [ENGINE ...]`: by default all.
"""

import importlib
import sys
from pathlib import Path

from measure import finish

ENGINES = ("spark", "kafka")


def main(names: list[str]) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the carriers and the kills are those of the tests
    results: dict[str, float] = {}
    equal = 1.0
    for name in names:
        found = importlib.import_module(f"engines_{name}").measure()
        equal = min(equal, found.pop("decisions_equal"))
        results |= found
    finish(decisions_equal=equal, **results)


if __name__ == "__main__":
    main(sys.argv[1:] or list(ENGINES))
