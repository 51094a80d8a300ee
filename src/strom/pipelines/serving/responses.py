"""The response with a query's result."""

from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

from strom.pipelines.serving.limits import ResultFile

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


class ResultResponse(StreamingResponse):
    """Sends a result piece by piece, and removes it when it is sent or its client has gone."""

    def __init__(self, result: ResultFile, media_type: str) -> None:
        headers = {"content-length": str(result.size)}
        super().__init__(result.pieces(), headers=headers, media_type=media_type)
        self._result = result

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._result.close()
