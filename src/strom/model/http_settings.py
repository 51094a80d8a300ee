"""The setting that all HTTP servers have."""

from strom.model.settings import Definition, Kind

ALLOWED_HOSTS = Definition(
    name="http.allowed.hosts",
    kind=Kind.LIST,
    default=(),
    doc="Further host names and addresses by which HTTP clients reach this server, separated by "
    "commas. Loopback names, the address listened on and an advertised name are always known; a "
    "request to another host is rejected, because a web page could reach this server by DNS "
    "rebinding.",
    live=False,
)
