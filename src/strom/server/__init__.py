"""Servers of the protocols: listening, reading frames within limits, responding in order."""
