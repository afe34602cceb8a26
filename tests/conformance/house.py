"""The house in which scenarios run: a Baton server, and the scripted model behind it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp

from baton import close_connections, set_default_address
from tests.conformance.scenario import ModelScripts
from tests.modelserver import running
from tests.support.server import server


@asynccontextmanager
async def house(model_server: str | None = None) -> AsyncIterator[ModelScripts]:
    """Run a server in this process, make it the client's default, and give the scripts of its model.

    `model_server`: address of one that runs already; None: one is started on a free port.
    """
    async with AsyncExitStack() as stack:
        address = model_server or (await stack.enter_async_context(running())).address
        http = await stack.enter_async_context(aiohttp.ClientSession())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="baton-conformance-")))
        baton = await stack.enter_async_context(
            server(folder, openai_base_url=f"{address.rstrip('/')}/v1", openai_api_key="test")
        )
        set_default_address(baton.address)
        stack.callback(set_default_address, None)
        stack.push_async_callback(close_connections)
        yield ModelScripts(http, address.rstrip("/"))
