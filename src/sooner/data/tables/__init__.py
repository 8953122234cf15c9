"""Long tables: CSV, TSV and Parquet files with one row for each observation."""
