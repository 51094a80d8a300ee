"""Sockets below all binary protocols: accepting within limits, reading, writing, closing."""
