"""Sockets: listening, reading frames within limits, answering in order."""
