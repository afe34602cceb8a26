"""The server: its paths, and how it is run."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import web

from tests.modelserver.chat import ChatApi
from tests.modelserver.responses import ResponsesApi
from tests.modelserver.scripts import Scripts

MAX_BODY_BYTES = 64 * 1024 * 1024


class Control:
    """Serves the paths of the test: scripts and what was asked."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    async def load(self, request: web.Request) -> web.Response:
        """Load a script."""
        steps = (await request.json())["responses"]
        self._scripts.load(request.match_info["name"], steps)
        return web.json_response({"steps": len(steps)})

    async def requests(self, request: web.Request) -> web.Response:
        """List what was asked of a script; an unknown one was asked nothing."""
        script = self._scripts.find(request.match_info["name"])
        if script is None:
            return web.json_response({"requests": [], "left": 0})
        asked = [recorded.as_json() for recorded in script.requests]
        return web.json_response({"requests": asked, "left": len(script.steps) - script.at})

    async def resume(self, request: web.Request) -> web.Response:
        """Let a script go on where it pauses."""
        script = self._scripts.find(request.match_info["name"])
        if script is None:
            raise web.HTTPNotFound(text=f"no script {request.match_info['name']!r}")
        script.resumed.set()
        return web.json_response({})

    async def conversation(self, _request: web.Request) -> web.Response:
        """Create a conversation."""
        made = {"id": self._scripts.new_id("conv"), "object": "conversation", "created_at": 1_800_000_000}
        return web.json_response({**made, "metadata": {}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server that listens. `address`: http://127.0.0.1:PORT, its own paths; `base_url`: the API's."""

    address: str
    scripts: Scripts

    @property
    def base_url(self) -> str:
        """Where a client of the API finds it."""
        return f"{self.address}/v1"


def application(scripts: Scripts) -> web.Application:
    """Make the application that serves some scripts."""
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    control, responses, chat = Control(scripts), ResponsesApi(scripts), ChatApi(scripts)
    for prefix in ("", "/v1"):
        app.router.add_post(f"{prefix}/responses", responses.post)
        app.router.add_get(f"{prefix}/responses", responses.websocket)
        app.router.add_post(f"{prefix}/chat/completions", chat.post)
        app.router.add_post(f"{prefix}/conversations", control.conversation)
    app.router.add_put("/_scripts/{name}", control.load)
    app.router.add_get("/_requests/{name}", control.requests)
    app.router.add_post("/_resume/{name}", control.resume)
    return app


@contextlib.asynccontextmanager
async def running(port: int = 0) -> AsyncIterator[Running]:
    """Listen on loopback; port 0: a free one."""
    scripts = Scripts()
    # With cancellation a handler learns at once that its peer has left.
    runner = web.AppRunner(application(scripts), handler_cancellation=True, access_log=None, shutdown_timeout=0)
    await runner.setup()
    listening = socket.create_server(("127.0.0.1", port))
    try:
        await web.SockSite(runner, listening).start()
        yield Running(address=f"http://127.0.0.1:{listening.getsockname()[1]}", scripts=scripts)
    finally:
        await runner.cleanup()
        listening.close()
