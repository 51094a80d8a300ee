"""Avro: types, parser, canonical text, and schema resolution."""
