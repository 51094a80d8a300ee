"""Writes records to lake tables: Parquet files in folders, or Delta tables; local or S3-compatible."""
