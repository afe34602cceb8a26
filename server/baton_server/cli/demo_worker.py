"""The worker of `baton demo`: a process that hosts two functions and does nothing else."""

from __future__ import annotations

import asyncio
import logging
import signal
from datetime import UTC, datetime, timedelta

from baton import Worker

WEATHER = {"Kyoto": "18 °C, light rain", "Oslo": "4 °C, clear"}
OFFSETS = {"Kyoto": timedelta(hours=9), "Oslo": timedelta(hours=1)}


def _worker() -> Worker:
    worker = Worker()

    @worker.function
    def get_weather(city: str) -> str:
        """Get the weather of a city.

        Args:
            city: Name of the city, for example Kyoto.
        """
        print(f"get_weather({city!r})", flush=True)
        return WEATHER.get(city, "15 °C, cloudy")

    @worker.function
    def get_local_time(city: str) -> str:
        """Get the local time of a city.

        Args:
            city: Name of the city, for example Kyoto.
        """
        print(f"get_local_time({city!r})", flush=True)
        return (datetime.now(UTC) + OFFSETS.get(city, timedelta())).strftime("%H:%M")

    return worker


async def _main() -> None:
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    async with _worker():
        print("attached, serving get_weather and get_local_time", flush=True)
        await asked.wait()


logging.getLogger("baton").setLevel(logging.ERROR)
asyncio.run(_main())
