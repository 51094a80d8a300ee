"""/connectors: create, change, show, pause, stop, restart and delete them; their offsets."""

import difflib
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from strom.connect.runtime.assignment import Unit
from strom.connect.runtime.commands import (
    BadRequest,
    Commands,
    NotFound,
    info_of,
    shown_status,
    status_of,
)
from strom.connect.runtime.rest.responses import (
    Call,
    empty_response,
    flag,
    json_response,
    object_of,
    texts_of,
)
from strom.connect.runtime.state import Target


def _name(request: Request) -> str:
    return str(request.path_params["name"])


def list_all(commands: Commands, request: Request, given: Any) -> Response:
    names = sorted(commands.worker.stores.connectors())
    wanted = set(request.query_params.getlist("expand"))
    if not wanted:
        return json_response(names)
    expanded: dict[str, dict[str, Any]] = {}
    for name in names:
        try:
            one: dict[str, Any] = {}
            if "status" in wanted:
                one["status"] = status_of(commands, name)
            if "info" in wanted:
                one["info"] = info_of(commands, name)
            expanded[name] = one
        except NotFound:
            continue
    return json_response(expanded)


def create(commands: Commands, request: Request, given: Any) -> Response:
    body = object_of(given)
    for field in body.keys() - _FIELDS:
        near = difflib.get_close_matches(field, _FIELDS, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise BadRequest(f"Unknown field {field}.{hint}")
    name = str(body.get("name") or "").strip()
    config = texts_of(body.get("config") or {})
    _check_name(name, config)
    initial = body.get("initial_state")
    target = None
    if initial is not None:
        states = {"RUNNING": Target.STARTED, "PAUSED": Target.PAUSED, "STOPPED": Target.STOPPED}
        if str(initial).upper() not in states:
            raise BadRequest(f"initial_state must be RUNNING, PAUSED or STOPPED, not {initial}.")
        target = states[str(initial).upper()]
    commands.put(name, config, replace=False, target=target)
    return json_response(info_of(commands, name), 201, _location(request, name))


def show(commands: Commands, request: Request, given: Any) -> Response:
    return json_response(info_of(commands, _name(request)))


def delete(commands: Commands, request: Request, given: Any) -> Response:
    commands.delete(_name(request))
    return empty_response()


def show_config(commands: Commands, request: Request, given: Any) -> Response:
    return json_response(commands.shown(commands.connector(_name(request)).config))


def put_config(commands: Commands, request: Request, given: Any) -> Response:
    name, config = _name(request), texts_of(given)
    _check_name(name, config)
    if commands.put(name, config, replace=True):
        return json_response(info_of(commands, name), 201, _location(request, name))
    return json_response(info_of(commands, name))


def patch_config(commands: Commands, request: Request, given: Any) -> Response:
    name, changes = _name(request), object_of(given)
    texts = texts_of(changes)
    commands.patch(name, {key: texts.get(key) for key in changes})
    return json_response(info_of(commands, name))


def show_status(commands: Commands, request: Request, given: Any) -> Response:
    return json_response(status_of(commands, _name(request)))


def show_topics(commands: Commands, request: Request, given: Any) -> Response:
    name = _name(request)
    commands.connector(name)
    return json_response({name: {"topics": commands.worker.stores.topics(name)}})


def reset_topics(commands: Commands, request: Request, given: Any) -> Response:
    commands.connector(_name(request))
    commands.worker.stores.forget_topics(_name(request))
    return empty_response(202)


def show_tasks(commands: Commands, request: Request, given: Any) -> Response:
    name = _name(request)
    return json_response(
        [
            {"id": {"connector": name, "task": number}, "config": commands.shown(config)}
            for number, config in enumerate(commands.connector(name).tasks)
        ]
    )


def show_tasks_config(commands: Commands, request: Request, given: Any) -> Response:
    name = _name(request)
    tasks = enumerate(commands.connector(name).tasks)
    return json_response({f"{name}-{number}": commands.shown(config) for number, config in tasks})


def show_task_status(commands: Commands, request: Request, given: Any) -> Response:
    name, task = _name(request), int(request.path_params["task"])
    status = commands.worker.stores.status(Unit(name, task))
    if status is None:
        raise NotFound(f"No status found for task {name}-{task}")
    return json_response({"id": task, **shown_status(status)})


def restart_task(commands: Commands, request: Request, given: Any) -> Response:
    commands.restart_task(_name(request), int(request.path_params["task"]))
    return empty_response()


def restart(commands: Commands, request: Request, given: Any) -> Response:
    name = _name(request)
    include_tasks, only_failed = flag(request, "includeTasks"), flag(request, "onlyFailed")
    if not include_tasks and not only_failed:
        commands.restart(name, include_tasks=False, only_failed=False)
        return empty_response()
    commands.connector(name, "Unknown connector: {}")
    shown = status_of(commands, name)
    commands.restart(name, include_tasks=include_tasks, only_failed=only_failed)
    meant = [shown["connector"], *(shown["tasks"] if include_tasks else [])]
    for one in meant:
        if one["state"] == "FAILED" or not only_failed:
            one["state"] = "RESTARTING"
            one.pop("trace", None)
    return json_response(shown, 202)


def pause(commands: Commands, request: Request, given: Any) -> Response:
    commands.set_target(_name(request), Target.PAUSED)
    return empty_response(202)


def resume(commands: Commands, request: Request, given: Any) -> Response:
    commands.set_target(_name(request), Target.STARTED)
    return empty_response(202)


def stop(commands: Commands, request: Request, given: Any) -> Response:
    commands.set_target(_name(request), Target.STOPPED)
    return empty_response()


def show_offsets(commands: Commands, request: Request, given: Any) -> Response:
    pairs = commands.offsets(_name(request))
    return json_response(
        {"offsets": [{"partition": one, "offset": offset} for one, offset in pairs]}
    )


def alter_offsets(commands: Commands, request: Request, given: Any) -> Response:
    pairs = []
    for one in object_of(given).get("offsets") or ():
        if (
            not isinstance(one, dict)
            or not isinstance(one.get("partition"), dict)
            or not isinstance(one.get("offset"), dict | None)
        ):
            raise BadRequest('Each offset must be {"partition": {…}, "offset": {…} or null}.')
        pairs.append((one["partition"], one.get("offset")))
    if not pairs:
        raise BadRequest("Partitions / offsets need to be provided for an alter offsets request")
    commands.alter_offsets(_name(request), pairs)
    return json_response({"message": _modified(commands, request, "altered")})


def reset_offsets(commands: Commands, request: Request, given: Any) -> Response:
    commands.reset_offsets(_name(request))
    return json_response({"message": _modified(commands, request, "reset")})


def show_logs(commands: Commands, request: Request, given: Any) -> Response:
    """The last log lines on this worker; Kafka has no such path."""
    commands.connector(_name(request))
    return json_response({"lines": commands.worker.logs.of(_name(request))})


def _modified(commands: Commands, request: Request, how: str) -> str:
    if commands.kind(_name(request)) == "source":
        return f"The offsets for this connector have been {how} successfully"
    return (
        f"The Connect framework-managed offsets for this connector have been {how} successfully. "
        "However, if this connector manages offsets externally, they will need to be manually "
        f"{how} in the system that the connector uses."
    )


def _check_name(name: str, config: dict[str, str]) -> None:
    included = config.get("name")
    if included is not None and included != name:
        raise BadRequest(
            f"Connector name configuration ({included}) doesn't match connector name in the URL "
            f"({name})"
        )


def _location(request: Request, name: str) -> dict[str, str]:
    return {"Location": f"{str(request.base_url).rstrip('/')}/connectors/{quote(name, safe='')}"}


_FIELDS = {"name", "config", "initial_state"}
_N = "/connectors/{name}"
CALLS: list[tuple[str, str, Call]] = [
    ("GET", "/connectors", list_all),
    ("POST", "/connectors", create),
    ("GET", _N, show),
    ("DELETE", _N, delete),
    ("GET", f"{_N}/config", show_config),
    ("PUT", f"{_N}/config", put_config),
    ("PATCH", f"{_N}/config", patch_config),
    ("GET", f"{_N}/status", show_status),
    ("GET", f"{_N}/topics", show_topics),
    ("PUT", f"{_N}/topics/reset", reset_topics),
    ("GET", f"{_N}/tasks", show_tasks),
    ("GET", f"{_N}/tasks-config", show_tasks_config),
    ("GET", f"{_N}/tasks/{{task:int}}/status", show_task_status),
    ("POST", f"{_N}/tasks/{{task:int}}/restart", restart_task),
    ("POST", f"{_N}/restart", restart),
    ("PUT", f"{_N}/pause", pause),
    ("PUT", f"{_N}/resume", resume),
    ("PUT", f"{_N}/stop", stop),
    ("GET", f"{_N}/offsets", show_offsets),
    ("PATCH", f"{_N}/offsets", alter_offsets),
    ("DELETE", f"{_N}/offsets", reset_offsets),
    ("GET", f"{_N}/logs", show_logs),
]
