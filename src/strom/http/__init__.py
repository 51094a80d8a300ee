"""The HTTP server of every interface, with the guard in front of it."""
