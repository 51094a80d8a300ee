"""/connector-plugins, /admin/loggers, /health and /: the worker itself."""

import logging
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

import strom
from strom.connect.api import InvalidSettings
from strom.connect.plugins import Plugin, plugins
from strom.connect.runtime.commands import BadRequest, Commands, NotFound
from strom.connect.runtime.rest.responses import (
    Call,
    empty_response,
    json_response,
    object_of,
    texts_of,
)
from strom.connect.runtime.validation import definitions_of, described

_KAFKA_LEVELS = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_LEVELS = ("DEBUG", "INFO", "WARN", "WARNING", "ERROR", "FATAL", "OFF", "TRACE")


def root(commands: Commands, request: Request, given: Any) -> Response:
    cluster = commands.worker.admin.list_topics(timeout=10).cluster_id
    return json_response(
        {"version": strom.__version__, "commit": "strom", "kafka_cluster_id": cluster}
    )


def health(commands: Commands, request: Request, given: Any) -> Response:
    if commands.worker.membership.holds_lease():
        return json_response(
            {
                "status": "healthy",
                "message": "Worker has completed startup and is ready to handle requests.",
            }
        )
    return json_response(
        {"status": "starting", "message": "Worker has not joined its group yet."}, 503
    )


def list_plugins(commands: Commands, request: Request, given: Any) -> Response:
    """List plugins, by the class names of Kafka's configurations where there are some."""
    listed = [
        {"class": class_of(one), "type": one.kind, "version": strom.__version__}
        for one in plugins().values()
    ]
    return json_response(sorted(listed, key=lambda one: (one["type"], one["class"])))


def show_plugin(commands: Commands, request: Request, given: Any) -> Response:
    kind = _plugin(commands, request)
    definitions = definitions_of(commands.worker.checker.common_class(kind), kind)
    return json_response(
        [described(one, order) for order, one in enumerate(definitions.values(), 1)]
    )


def validate(commands: Commands, request: Request, given: Any) -> Response:
    kind, config = _plugin(commands, request), texts_of(given)
    included = config.get("connector.class")
    if included is None:
        raise BadRequest(f"Connector config {sorted(config)} contains no connector type")
    if commands.worker.checker.plugin(config) != kind:
        raise BadRequest(
            f"Included connector type {included} does not match request type "
            f"{request.path_params['name']}"
        )
    return json_response(commands.worker.checker.described(config))


def list_loggers(commands: Commands, request: Request, given: Any) -> Response:
    return json_response({"root": _level(""), "strom.connect": _level("strom.connect")})


def show_logger(commands: Commands, request: Request, given: Any) -> Response:
    name = request.path_params["name"]
    if name != "root" and name not in logging.root.manager.loggerDict:
        raise NotFound(f"Logger {name} not found.")
    return json_response(_level(request.path_params["name"]))


def set_logger(commands: Commands, request: Request, given: Any) -> Response:
    """Set a log level, on this worker only."""
    level = object_of(given).get("level")
    if level is None:
        raise BadRequest("Desired 'level' parameter was not specified in request.")
    if str(level).upper() not in _LEVELS:
        raise NotFound(f"invalid log level '{level}'.")
    names = {"TRACE": "DEBUG", "OFF": "CRITICAL", "FATAL": "CRITICAL", "WARN": "WARNING"}
    name = request.path_params["name"]
    logger = logging.getLogger("" if name == "root" else name)
    logger.setLevel(names.get(str(level).upper(), str(level).upper()))
    if request.query_params.get("scope") == "cluster":
        return empty_response()
    return json_response([name])


def class_of(one: Plugin) -> str:
    """A plugin's name in lists: Kafka's class name if Kafka has one."""
    return one.aliases[0] if one.aliases else one.name


def _plugin(commands: Commands, request: Request) -> Plugin:
    name = request.path_params["name"]
    try:
        return commands.worker.checker.plugin({"connector.class": name})
    except InvalidSettings:
        raise NotFound(f"Unknown plugin {name}.") from None


def _level(name: str) -> dict[str, Any]:
    logger = logging.getLogger("" if name == "root" else name)
    level = logging.getLevelName(logger.getEffectiveLevel())
    return {"level": _KAFKA_LEVELS.get(level, level), "last_modified": None}


CALLS: list[tuple[str, str, Call]] = [
    ("GET", "/", root),
    ("GET", "/health", health),
    ("GET", "/connector-plugins", list_plugins),
    ("GET", "/connector-plugins/{name}/config", show_plugin),
    ("PUT", "/connector-plugins/{name}/config/validate", validate),
    ("GET", "/admin/loggers", list_loggers),
    ("GET", "/admin/loggers/{name}", show_logger),
    ("PUT", "/admin/loggers/{name}", set_logger),
]
