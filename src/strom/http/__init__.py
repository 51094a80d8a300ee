"""The HTTP server of every interface: limits, guard, authentication, errors and health."""
