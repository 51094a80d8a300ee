"""Parses large JSON bodies beside the event loop."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from strom.http.errors import HttpError
from strom.http.json_body import parse_json

SMALL_BYTES = 64 * 1024
"""Bodies up to this size are parsed on the event loop, which takes a few milliseconds at most."""
_PARSER = ThreadPoolExecutor(1, "json body")
"""One thread: several would keep the event loop waiting for the GIL several times as long."""


async def load_json(body: bytes) -> Any:
    """Parse a body; HttpError with status 400 if it is not JSON."""
    if len(body) <= SMALL_BYTES:
        return parse_json(body)
    return await asyncio.get_running_loop().run_in_executor(_PARSER, parse_json, body)


async def load_json_object(body: bytes) -> dict[str, Any]:
    """Parse a body; HttpError with status 400 if it is not a JSON object."""
    value = await load_json(body)
    if not isinstance(value, dict):
        raise HttpError(400, "The body is not a JSON object.")
    return value
