"""The functions of `baton demo`; afterwards anyone may host them: `baton worker baton_server.cli.demo.worker`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from baton import Worker

WEATHER = {"Kyoto": "18 °C, light rain", "Oslo": "4 °C, clear"}
OFFSETS = {"Kyoto": timedelta(hours=9), "Oslo": timedelta(hours=1)}

worker = Worker()


@worker.function
def get_weather(city: str) -> str:
    """Get the weather of a city.

    Args:
        city: Name of the city, for example Kyoto.
    """
    print(f"get_weather({city!r})")
    return WEATHER.get(city, "15 °C, cloudy")


@worker.function
def get_local_time(city: str) -> str:
    """Get the local time of a city.

    Args:
        city: Name of the city, for example Kyoto.
    """
    print(f"get_local_time({city!r})")
    return (datetime.now(UTC) + OFFSETS.get(city, timedelta())).strftime("%H:%M")
