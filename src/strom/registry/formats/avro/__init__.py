"""Avro: types, parser, canonical forms, and schema resolution."""
