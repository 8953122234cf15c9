"""Ray: the stored table in shards of whole series."""

import pyarrow.parquet as pq

import sooner
from sooner.estimator.bulk import score_table
from sooner.extras import is_installed

MISSING = None if is_installed("ray") else "no ray: install sooner[ray]"


def decide(model_file, table, folder):
    out = folder / "decided.parquet"
    score_table(sooner.load(model_file), table, out, engine="ray", workers=2, unit_rows=20_000)
    rows = pq.read_table(out).to_pylist()
    return {row["series"]: (row["label"], row["time"], row["crossed"]) for row in rows}
