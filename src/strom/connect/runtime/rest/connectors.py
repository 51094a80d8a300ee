"""/connectors: create, change, show, pause, stop, restart and delete them; their offsets."""

from typing import Any
from urllib.parse import quote

from starlette.responses import JSONResponse, Response

from strom.connect.api.settings import did_you_mean
from strom.connect.runtime.assignment import Unit
from strom.connect.runtime.commands import BadRequest, NotFound, info_of, shown_status, status_of
from strom.connect.runtime.rest.responses import Call, Handler, to_texts
from strom.connect.runtime.state import Target

_FIELDS = {"name", "config", "initial_state"}
_INITIAL = {"RUNNING": Target.STARTED, "PAUSED": Target.PAUSED, "STOPPED": Target.STOPPED}


def list_all(call: Call) -> Any:
    names = sorted(call.commands.worker.stores.connectors())
    wanted = set(call.request.query_params.getlist("expand"))
    if not wanted:
        return names
    expanded: dict[str, dict[str, Any]] = {}
    for name in names:
        try:
            one: dict[str, Any] = {}
            if "status" in wanted:
                one["status"] = status_of(call.commands, name)
            if "info" in wanted:
                one["info"] = info_of(call.commands, name)
            expanded[name] = one
        except NotFound:
            continue
    return expanded


def create(call: Call) -> Response:
    body = call.fields()
    for field in body.keys() - _FIELDS:
        raise BadRequest(f"Unknown field {field}.{did_you_mean(field, _FIELDS)}")
    name = str(body.get("name") or "").strip()
    config = to_texts(body.get("config") or {})
    _check_name(name, config)
    initial = body.get("initial_state")
    target = None if initial is None else _INITIAL.get(str(initial).upper())
    if initial is not None and target is None:
        raise BadRequest(f"initial_state must be RUNNING, PAUSED or STOPPED, not {initial}.")
    call.commands.put(name, config, replace=False, target=target)
    return _created(call, name)


def put_config(call: Call) -> Any:
    config = call.texts()
    _check_name(call.name, config)
    if call.commands.put(call.name, config, replace=True):
        return _created(call, call.name)
    return info_of(call.commands, call.name)


def patch_config(call: Call) -> Any:
    texts = call.texts()
    call.commands.patch(call.name, {key: texts.get(key) for key in call.fields()})
    return info_of(call.commands, call.name)


def show_topics(call: Call) -> Any:
    call.commands.connector(call.name)
    return {call.name: {"topics": call.commands.worker.stores.topics(call.name)}}


def reset_topics(call: Call) -> None:
    call.commands.connector(call.name)
    call.commands.worker.stores.forget_topics(call.name)


def show_tasks(call: Call) -> Any:
    return [
        {"id": {"connector": call.name, "task": number}, "config": call.commands.shown(config)}
        for number, config in enumerate(call.commands.connector(call.name).tasks)
    ]


def show_tasks_config(call: Call) -> Any:
    tasks = enumerate(call.commands.connector(call.name).tasks)
    return {f"{call.name}-{number}": call.commands.shown(config) for number, config in tasks}


def show_task_status(call: Call) -> Any:
    status = call.commands.worker.stores.status(Unit(call.name, call.task))
    if status is None:
        raise NotFound(f"No status found for task {call.name}-{call.task}")
    return {"id": call.task, **shown_status(status)}


def restart(call: Call) -> Response:
    commands, name = call.commands, call.name
    include_tasks, only_failed = call.flag("includeTasks"), call.flag("onlyFailed")
    if not include_tasks and not only_failed:
        commands.restart(name, include_tasks=False, only_failed=False)
        return Response(status_code=204)
    commands.connector(name, "Unknown connector: {}")
    shown = status_of(commands, name)
    commands.restart(name, include_tasks=include_tasks, only_failed=only_failed)
    meant = [shown["connector"], *(shown["tasks"] if include_tasks else [])]
    for one in meant:
        if one["state"] == "FAILED" or not only_failed:
            one["state"] = "RESTARTING"
            one.pop("trace", None)
    return JSONResponse(shown, 202)


def show_offsets(call: Call) -> Any:
    pairs = call.offsets.read(call.name)
    return {"offsets": [{"partition": one, "offset": offset} for one, offset in pairs]}


def alter_offsets(call: Call) -> Any:
    listed = call.fields().get("offsets")
    if not isinstance(listed, list | None):
        raise BadRequest("offsets must be a list of partitions with their offsets.")
    pairs = []
    for one in listed or ():
        if (
            not isinstance(one, dict)
            or not isinstance(one.get("partition"), dict)
            or not isinstance(one.get("offset"), dict | None)
        ):
            raise BadRequest('Each offset must be {"partition": {…}, "offset": {…} or null}.')
        pairs.append((one["partition"], one.get("offset")))
    if not pairs:
        raise BadRequest("Partitions / offsets need to be provided for an alter offsets request")
    call.offsets.alter(call.name, pairs)
    return _modified(call, "altered")


def reset_offsets(call: Call) -> Any:
    call.offsets.reset(call.name)
    return _modified(call, "reset")


def show_logs(call: Call) -> Any:
    """The last log lines on this worker; Kafka has no such path."""
    call.commands.connector(call.name)
    return {"lines": call.commands.worker.logs.of(call.name)}


def _modified(call: Call, how: str) -> dict[str, str]:
    if call.commands.kind(call.name) == "source":
        return {"message": f"The offsets for this connector have been {how} successfully"}
    return {
        "message": f"The Connect framework-managed offsets for this connector have been {how} "
        "successfully. However, if this connector manages offsets externally, they will need to be "
        f"manually {how} in the system that the connector uses."
    }


def _check_name(name: str, config: dict[str, str]) -> None:
    included = config.get("name")
    if included is not None and included != name:
        raise BadRequest(
            f"Connector name configuration ({included}) doesn't match connector name in the URL "
            f"({name})"
        )


def _created(call: Call, name: str) -> Response:
    base = str(call.request.base_url).rstrip("/")
    headers = {"Location": f"{base}/connectors/{quote(name, safe='')}"}
    return JSONResponse(info_of(call.commands, name), 201, headers)


def _to(target: Target) -> Handler:
    return lambda call: call.commands.set_target(call.name, target)


_N = "/connectors/{name}"
ROUTES: list[tuple[str, str, Handler] | tuple[str, str, Handler, int]] = [
    ("GET", "/connectors", list_all),
    ("POST", "/connectors", create),
    ("GET", _N, lambda call: info_of(call.commands, call.name)),
    ("DELETE", _N, lambda call: call.commands.delete(call.name), 204),
    (
        "GET",
        f"{_N}/config",
        lambda call: call.commands.shown(call.commands.connector(call.name).config),
    ),
    ("PUT", f"{_N}/config", put_config),
    ("PATCH", f"{_N}/config", patch_config),
    ("GET", f"{_N}/status", lambda call: status_of(call.commands, call.name)),
    ("GET", f"{_N}/topics", show_topics),
    ("PUT", f"{_N}/topics/reset", reset_topics, 202),
    ("GET", f"{_N}/tasks", show_tasks),
    ("GET", f"{_N}/tasks-config", show_tasks_config),
    ("GET", f"{_N}/tasks/{{task:int}}/status", show_task_status),
    (
        "POST",
        f"{_N}/tasks/{{task:int}}/restart",
        lambda call: call.commands.restart_task(call.name, call.task),
        204,
    ),
    ("POST", f"{_N}/restart", restart),
    ("PUT", f"{_N}/pause", _to(Target.PAUSED), 202),
    ("PUT", f"{_N}/resume", _to(Target.STARTED), 202),
    ("PUT", f"{_N}/stop", _to(Target.STOPPED), 204),
    ("GET", f"{_N}/offsets", show_offsets),
    ("PATCH", f"{_N}/offsets", alter_offsets),
    ("DELETE", f"{_N}/offsets", reset_offsets),
    ("GET", f"{_N}/logs", show_logs),
]
