"""Settings: flags over environment (`BATON_…`) over a TOML file over defaults. Wrong ones fail at start.

Keys of providers come from the environment or the file alone, never from a flag, which other users of the
machine could read; they are never shown.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

CONFIG_VARIABLE = "BATON_CONFIG"
"""Environment variable that names the TOML file."""


OPENAI_MODEL = "gpt-5-mini"
"""Model that OpenAI is asked for where neither the agent nor a setting names one."""


Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class WrongSettings(Exception):
    """Settings cannot be used. `problems` says of each which it is, and what is wrong with it."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Settings(BaseSettings):
    """What a server is started with."""

    model_config = SettingsConfigDict(env_prefix="BATON_", extra="forbid", populate_by_name=True)

    address: str = Field("127.0.0.1:50051", description="Host and port to listen on; port 0 takes a free one.")
    store: Path = Field(Path("baton.db"), description="The SQLite file that keeps everything.")
    synchronous: Literal["FULL", "NORMAL"] = Field(
        "FULL", description="FULL survives a power cut, NORMAL the death of the process."
    )
    default_model: str = Field(
        "",
        validation_alias=AliasChoices("BATON_DEFAULT_MODEL", "OPENAI_DEFAULT_MODEL", "default_model"),
        description="Model for agents that name none. Empty: gpt-5-mini at OpenAI.",
    )
    model_timeout_s: Seconds = Field(600.0, description="One model request, in seconds.")
    demo_delay_s: float = Field(
        0.02, ge=0, le=10, allow_inf_nan=False, description="Pause of the demo model between two words."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("WARNING", description="What is logged.")
    log_json: bool = Field(False, description="Log lines of JSON.")
    trace_include_sensitive_data: bool = Field(
        True, description="Spans tell what users, models and functions said, where a run does not say."
    )
    drain_s: float = Field(
        5.0, ge=0, le=3600, allow_inf_nan=False, description="How long SIGTERM lets running work come to a rest."
    )
    ack_timeout_s: Seconds = Field(5.0, description="A call that no worker acks for so long is given to another.")
    lease_s: Seconds = Field(30.0, description="An attempt is a silent worker's for so long.")
    heartbeat_s: Seconds = Field(10.0, description="Workers and watchers hear from the server at least so often.")
    registration_grace_s: Seconds = Field(10.0, description="Handlers outlive a broken stream for so long.")
    hello_timeout_s: Seconds = Field(10.0, description="A stream must say who it is within so long.")
    max_stream_age_s: float = Field(
        1800.0,
        ge=0,
        le=86_400,
        allow_inf_nan=False,
        description="A worker is asked to attach anew after about so long; 0: never.",
    )
    openai_api_key: SecretStr = Field(
        SecretStr(""), validation_alias="OPENAI_API_KEY", description="Key of the model API."
    )
    openai_base_url: str = Field("", validation_alias="OPENAI_BASE_URL", description="Address of the model API.")

    @field_validator("address")
    @classmethod
    def _is_host_and_port(cls, address: str) -> str:
        host, colon, port = address.rpartition(":")
        if not (colon and host and "/" not in host and port.isascii() and port.isdecimal() and int(port) < 65_536):
            raise ValueError("write HOST:PORT, with a port of 0 to 65535")
        return address

    @property
    def loopback(self) -> bool:
        """Tell whether nobody but this machine can reach the address."""
        host = self.address.rpartition(":")[0].strip("[]")
        if host == "localhost":
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Say which source wins."""
        path = os.environ.get(CONFIG_VARIABLE)
        sources: tuple[PydanticBaseSettingsSource, ...] = (init_settings, env_settings)
        if path:
            sources = (*sources, TomlConfigSettingsSource(settings_cls, toml_file=path))
        return sources

    def shown(self) -> dict[str, Any]:
        """List the settings without secrets, for people."""
        return self.model_dump(mode="json", exclude={"openai_api_key"})


def settings_of(given: dict[str, Any]) -> Settings:
    """Gather the settings; `given` are the flags. Raises WrongSettings, which never shows a secret."""
    path = os.environ.get(CONFIG_VARIABLE)
    if path:
        _check_file(Path(path))
    try:
        return Settings(**given)
    except ValidationError as error:
        raise WrongSettings(*(_problem(one["loc"], one["input"], one["msg"]) for one in error.errors())) from None


def _check_file(path: Path) -> None:
    try:
        tomllib.loads(path.read_text())
    except OSError as error:
        raise WrongSettings(f"the file {path} cannot be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise WrongSettings(f"{path} is no TOML: {error}") from None


def _problem(place: tuple[int | str, ...], value: Any, words: str) -> str:
    """Say what is wrong with one setting. Only the value of a setting that is known to be no secret is shown."""
    name = ".".join(str(part) for part in place)
    known = [field for field in Settings.model_fields if field != "openai_api_key"]
    if name in Settings.model_fields or name.startswith("OPENAI_"):
        shown = f" = {value!r}" if name in known else ""
        return f"setting {name}{shown}: {words.removeprefix('Value error, ')}"
    near = difflib.get_close_matches(name, Settings.model_fields, n=1)
    return f"there is no setting {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
