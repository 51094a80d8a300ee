"""Avro: its types, its texts, its canonical form, and its rules of schema resolution."""
