"""/config and /mode, of all subjects and of single ones."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from strom.http.routing import EncodedRoute
from strom.registry.configuring import (
    delete_config,
    delete_mode,
    set_config,
    set_mode,
    shown_config,
)
from strom.registry.refusals import invalid_mode, no_own_compatibility, no_own_mode
from strom.registry.registry import Registry
from strom.registry.rest.exchange import body_of, flag, json_response, subject_of


class SettingsCalls:
    """The routes of compatibility levels and modes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def routes(self) -> list[EncodedRoute]:
        return [
            EncodedRoute(path, call, methods=[method])
            for noun, calls in (
                ("/config", (self.get_config, self.put_config, self.delete_config)),
                ("/mode", (self.get_mode, self.put_mode, self.delete_mode)),
            )
            for path in (noun, noun + "/{subject}")
            for method, call in zip(("GET", "PUT", "DELETE"), calls, strict=True)
        ]

    def get_config(self, request: Request) -> Response:
        """Get the configured compatibility, or with defaultToGlobal the effective one."""
        subject = _scope(request)
        with self._registry.reading() as subjects:
            config = subjects.config(subject)
            if subject is None or flag(request, "defaultToGlobal"):
                level = {"compatibilityLevel": subjects.level(subject)}
                config = {**level, **(subjects.config(None) or {}), **(config or {})}
        if config is None:
            no_own_compatibility(subject or "")
        return json_response(shown_config(config))

    async def put_config(self, request: Request) -> Response:
        subject, given = _scope(request), await body_of(request)
        return json_response(
            await run_in_threadpool(
                self._registry.change, lambda subjects: set_config(subjects, subject, given)
            )
        )

    def delete_config(self, request: Request) -> Response:
        """Remove the subject's configuration: the global one applies again."""
        subject = _scope(request)
        return json_response(
            self._registry.change(lambda subjects: delete_config(subjects, subject))
        )

    def get_mode(self, request: Request) -> Response:
        """Get the configured mode, or with defaultToGlobal the effective one."""
        subject = _scope(request)
        with self._registry.reading() as subjects:
            if subject is None or flag(request, "defaultToGlobal"):
                mode: str | None = subjects.mode(subject)
            else:
                mode = subjects.own_mode(subject)
        if mode is None:
            no_own_mode(subject or "")
        return json_response({"mode": mode})

    async def put_mode(self, request: Request) -> Response:
        subject, given = _scope(request), await body_of(request)
        mode, force = given.get("mode"), flag(request, "force")
        if not isinstance(mode, str):
            invalid_mode()
        return json_response(
            await run_in_threadpool(
                self._registry.change,
                lambda subjects: set_mode(subjects, subject, mode, force=force),
            )
        )

    def delete_mode(self, request: Request) -> Response:
        """Remove the subject's mode: the global one applies again."""
        subject = _scope(request)
        return json_response(self._registry.change(lambda subjects: delete_mode(subjects, subject)))


def _scope(request: Request) -> str | None:
    return (subject_of(request) or None) if "subject" in request.path_params else None
