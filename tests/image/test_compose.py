"""What compose.yaml says is so: ports, settings, files, clocks."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest
from tests.docs.settings_table import all_variables
from tests.image.compose import command_in_image, compose, grace_s, mounts, seconds, service
from tests.image.dockerfile import ROOT, health_check, stages

from baton.server.worker import DRAIN_S
from baton_server.cli.given.loading import load_tools
from baton_server.config import Settings
from baton_server.main import LAST_WORDS_S

IMAGE = stages((ROOT / "Dockerfile").read_text())[-1]
SERVICES: dict[str, Any] = compose()["services"]


def test_the_port_is_for_this_machine_alone() -> None:
    """There is no authentication; and it is the port that the image listens on."""
    (published,) = service("server")["ports"]
    host, _, inner = published.rpartition(":")

    assert host.startswith("127.0.0.1:")
    assert inner == IMAGE.one("EXPOSE").value
    assert all("ports" not in of for name, of in SERVICES.items() if name != "server")


@pytest.mark.parametrize("name", SERVICES)
def test_variables_are_settings(name: str) -> None:
    """A misspelt one would do nothing, since the environment may hold anything."""
    assert set(service(name)["environment"]) <= all_variables()


def test_keys_come_from_outside() -> None:
    """The file names the variables and gives them no value: then compose hands on what is set."""
    handed_on = {name: value for name, value in service("server")["environment"].items() if name.startswith("OPENAI_")}

    assert set(handed_on) == {name for name in all_variables() if name.startswith("OPENAI_")}
    assert set(handed_on.values()) == {None}


def test_the_store_is_on_a_named_volume() -> None:
    """It outlives the container."""
    ((volume, target, _),) = mounts(service("server"))

    assert volume in compose()["volumes"]
    assert target == IMAGE.one("VOLUME").value


def test_the_health_check_is_the_images() -> None:
    """Said twice, and the same."""
    options, command = health_check(IMAGE.one("HEALTHCHECK"))
    check = dict(service("server")["healthcheck"])

    assert check.pop("test") == ["CMD", *command]
    assert str(check.pop("retries")) == options.pop("retries")
    assert seconds(check.pop("start_interval")) <= seconds(check["interval"])
    assert check == {name.replace("-", "_"): value for name, value in options.items()}


def test_nobody_is_killed_while_draining() -> None:
    """The engine waits longer than the server and the worker may take."""
    assert grace_s(service("server")) > Settings.model_fields["drain_s"].default + 2 * LAST_WORDS_S
    assert grace_s(service("worker")) > DRAIN_S


def test_the_worker_begins_when_the_server_serves_and_finds_it() -> None:
    """By the name of the service and the port of the image."""
    worker = service("worker")

    assert worker["depends_on"] == {"server": {"condition": "service_healthy"}}
    assert worker["environment"]["BATON_ADDRESS"] == f"server:{IMAGE.one('EXPOSE').value}"
    assert worker["image"] == service("server")["image"]


def test_the_worker_hosts_the_functions_of_the_example() -> None:
    """The file is there, where it is mounted from, and has functions."""
    words = command_in_image(service("worker"))
    ((_, _, mode),) = mounts(service("worker"))

    assert mode == "ro"
    assert words[0] == "worker"
    assert [tool.name for tool in load_tools(words[1])] == ["get_weather"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_may_do_little(name: str) -> None:
    """No capabilities, no way to get any, nothing to write to but its data and /tmp."""
    of = service(name)

    assert (of["cap_drop"], of["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    assert (of["read_only"], of["tmpfs"]) == (True, ["/tmp"])


def test_compose_itself_takes_the_file() -> None:
    """It needs no engine for that; a machine without compose leaves it to the other tests here."""
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("no docker compose on this machine")

    checked = subprocess.run(
        [docker, "compose", "--file", str(ROOT / "compose.yaml"), "config", "--quiet"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (checked.returncode, checked.stderr) == (0, "")
