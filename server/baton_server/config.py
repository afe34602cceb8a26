"""Settings: flags over environment (`BATON_…`) over a TOML file over defaults. Wrong ones fail at start.

Keys of providers come from the environment or the file alone, never from a flag, which other users of the
machine could read; they are never shown.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

CONFIG_VARIABLE = "BATON_CONFIG"
"""Environment variable that names the TOML file."""


OPENAI_MODEL = "gpt-5-mini"
"""Model that OpenAI is asked for where neither the agent nor a setting names one."""


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
    model_timeout_s: float = Field(600.0, gt=0, le=86_400, description="One model request, in seconds.")
    demo_delay_s: float = Field(0.02, ge=0, le=10, description="Pause of the demo model between two words.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("WARNING", description="What is logged.")
    log_json: bool = Field(False, description="Log lines of JSON.")
    drain_s: float = Field(5.0, ge=0, le=3600, description="How long SIGTERM lets running work come to a rest.")
    ack_timeout_s: float = Field(5.0, gt=0, description="A call that no worker acks for so long is given to another.")
    lease_s: float = Field(30.0, gt=0, description="An attempt is a silent worker's for so long.")
    heartbeat_s: float = Field(10.0, gt=0, description="Workers and watchers hear from the server at least so often.")
    registration_grace_s: float = Field(10.0, gt=0, description="Handlers outlive a broken stream for so long.")
    hello_timeout_s: float = Field(10.0, gt=0, description="A stream must say who it is within so long.")
    openai_api_key: SecretStr = Field(
        SecretStr(""), validation_alias="OPENAI_API_KEY", description="Key of the model API."
    )
    openai_base_url: str = Field("", validation_alias="OPENAI_BASE_URL", description="Address of the model API.")

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
