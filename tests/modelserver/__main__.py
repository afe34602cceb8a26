"""Runs the model server by itself until it is stopped."""

import argparse
import asyncio
import contextlib

import tests.modelserver
from tests.modelserver.server import running


async def serve(port: int) -> None:
    """Serve until cancelled; the first line written is the address."""
    async with running(port) as server:
        print(server.address, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=tests.modelserver.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8900, help="0: a free one")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(parser.parse_args().port))
