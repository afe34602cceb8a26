"""`baton serve`: settings by flags, environment and file; one line at start."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from baton_server.cli.exits import ExitCode
from baton_server.cli.terminal import fail

if TYPE_CHECKING:
    from baton_server.main import Baton


def serve(
    address: Annotated[
        str | None, typer.Option(help="Host and port; port 0 takes a free one. [127.0.0.1:50051]")
    ] = None,
    store: Annotated[Path | None, typer.Option(help="The SQLite file. Default: baton.db.")] = None,
    default_model: Annotated[str | None, typer.Option(help="Model for agents that name none.")] = None,
    log_level: Annotated[str | None, typer.Option(help="DEBUG, INFO, WARNING or ERROR. [WARNING]")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with these and all other settings.")] = None,
) -> None:
    """Run a server until SIGTERM or Ctrl-C.

    Every setting can also be an environment variable, BATON_ADDRESS for example, or a line of the TOML file;
    a flag wins over the environment, and that over the file. OPENAI_API_KEY and OPENAI_BASE_URL choose the
    model API; without them the built-in demo model answers.
    """
    # Imported here: the server's libraries take half a second, which no other command should pay.
    from baton_server.api.server import AddressInUse
    from baton_server.config import CONFIG_VARIABLE, WrongSettings, settings_of
    from baton_server.main import serve as run_server
    from baton_server.ports.store import StoreUnavailable
    from baton_server.store.sqlite import StoreHeld
    from baton_server.telemetry.logging import configure

    given = {"address": address, "store": store, "default_model": default_model, "log_level": log_level}
    if config is not None:
        os.environ[CONFIG_VARIABLE] = str(config)
    try:
        settings = settings_of({name: value for name, value in given.items() if value is not None})
        configure(settings.log_level, settings.log_json)
        if not settings.loopback:
            _warn(f"{settings.address} can be reached from elsewhere, and there is no authentication or encryption")
        asyncio.run(run_server(settings, _say))
    except WrongSettings as error:
        fail(ExitCode.USAGE, *error.problems)
    except (AddressInUse, StoreHeld, StoreUnavailable) as error:
        fail(ExitCode.FAILED, str(error))


def _warn(text: str) -> None:
    typer.echo(f"baton: {text}", err=True)


def _say(baton: Baton) -> None:
    typer.echo(f"baton: listening on {baton.address}, store {baton.settings.store}, model {baton.model_name}")
