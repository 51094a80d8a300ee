"""/connector-plugins, /admin/loggers, /health and /: the worker itself."""

import logging
from typing import Any

from starlette.responses import JSONResponse, Response

import strom
from strom.connect.api import InvalidSettings
from strom.connect.plugins import Plugin, plugins
from strom.connect.runtime.commands import BadRequest, NotFound
from strom.connect.runtime.rest.responses import Call, Handler
from strom.connect.runtime.validation import definitions_of, described

_KAFKA_LEVELS = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_LEVELS = ("DEBUG", "INFO", "WARN", "WARNING", "ERROR", "FATAL", "OFF", "TRACE")
_PYTHON_LEVELS = {"TRACE": "DEBUG", "OFF": "CRITICAL", "FATAL": "CRITICAL", "WARN": "WARNING"}


def root(call: Call) -> Any:
    cluster = call.commands.worker.admin.list_topics(timeout=10).cluster_id
    return {"version": strom.__version__, "commit": "strom", "kafka_cluster_id": cluster}


def health(call: Call) -> Any:
    if call.commands.worker.membership.holds_lease():
        message = "Worker has completed startup and is ready to handle requests."
        return {"status": "healthy", "message": message}
    return JSONResponse(
        {"status": "starting", "message": "Worker has not joined its group yet."}, 503
    )


def list_plugins(call: Call) -> Any:
    """List plugins, by the class names of Kafka's configurations where there are some."""
    listed = [
        {
            "class": one.aliases[0] if one.aliases else one.name,
            "type": one.kind,
            "version": strom.__version__,
        }
        for one in plugins().values()
    ]
    return sorted(listed, key=lambda one: (one["type"], one["class"]))


def show_plugin(call: Call) -> Any:
    kind = _plugin(call)
    definitions = definitions_of(call.commands.worker.checker.common_class(kind), kind)
    return [described(one, order) for order, one in enumerate(definitions.values(), 1)]


def validate(call: Call) -> Any:
    kind, config, checker = _plugin(call), call.texts(), call.commands.worker.checker
    included = config.get("connector.class")
    if included is None:
        raise BadRequest(f"Connector config {sorted(config)} contains no connector type")
    if checker.plugin(config) != kind:
        raise BadRequest(
            f"Included connector type {included} does not match request type {call.name}"
        )
    return checker.described(config)


def list_loggers(call: Call) -> Any:
    return {"root": _level("root"), "strom.connect": _level("strom.connect")}


def show_logger(call: Call) -> Any:
    if call.name != "root" and call.name not in logging.root.manager.loggerDict:
        raise NotFound(f"Logger {call.name} not found.")
    return _level(call.name)


def set_logger(call: Call) -> Any:
    """Set a log level, on this worker only."""
    level = call.fields().get("level")
    if level is None:
        raise BadRequest("Desired 'level' parameter was not specified in request.")
    name = str(level).upper()
    if name not in _LEVELS:
        raise NotFound(f"invalid log level '{level}'.")
    _logger(call.name).setLevel(_PYTHON_LEVELS.get(name, name))
    if call.request.query_params.get("scope") == "cluster":
        return Response(status_code=204)
    return [call.name]


def _plugin(call: Call) -> Plugin:
    try:
        return call.commands.worker.checker.plugin({"connector.class": call.name})
    except InvalidSettings:
        raise NotFound(f"Unknown plugin {call.name}.") from None


def _logger(name: str) -> logging.Logger:
    return logging.getLogger("" if name == "root" else name)


def _level(name: str) -> dict[str, Any]:
    level = logging.getLevelName(_logger(name).getEffectiveLevel())
    return {"level": _KAFKA_LEVELS.get(level, level), "last_modified": None}


ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", "/", root),
    ("GET", "/health", health),
    ("GET", "/connector-plugins", list_plugins),
    ("GET", "/connector-plugins/{name}/config", show_plugin),
    ("PUT", "/connector-plugins/{name}/config/validate", validate),
    ("GET", "/admin/loggers", list_loggers),
    ("GET", "/admin/loggers/{name}", show_logger),
    ("PUT", "/admin/loggers/{name}", set_logger),
]
