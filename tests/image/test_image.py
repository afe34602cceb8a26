"""The Dockerfile is done step by step, and what comes out serves, is healthy, and stops as a container must.

No container engine is needed: tests.image.building says what stands for what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib.metadata import distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.crash.house import stored
from tests.image.building import MAPPED, NOT_RUN, Building, base_python
from tests.image.compose import command_in_image, grace_s, service
from tests.image.container import Image, line_with, stopped
from tests.image.dockerfile import ROOT, files, stages
from tests.image.locks import requirements
from tests.support.server import free_port

from baton import Agent, Client, RemoteFunction, Runner, close_connections, set_default_address
from baton.v1 import session_pb2

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # it downloads, which the machine may have to do anew

BUILT = stages((ROOT / "Dockerfile").read_text())


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """Build it once."""
    folder = tmp_path_factory.mktemp("image")
    building = Building(folder=folder, python=base_python(folder / "base"), listed=files(ROOT))
    base, build, last = BUILT
    assert (base.instructions, base.name, build.base, last.base) == ((), "base", "base", "base")
    building.make(build)
    building.put_away(build)
    building.make(last)
    (building.root / "data").mkdir(exist_ok=True)
    yield Image(building=building, stage=last, address=f"127.0.0.1:{free_port()}")


@pytest.fixture
async def client(image: Image) -> Iterator[Client]:
    """Talk to the container's server."""
    set_default_address(image.address)
    yield Client(image.address)
    await close_connections()
    set_default_address(None)


def test_every_path_that_stands_for_another_is_used_and_every_step_accounted_for(image: Image) -> None:
    """The test's own lists hold nothing that the Dockerfile has no longer."""
    assert image.building.applied == set(MAPPED)
    assert len(image.building.skipped) == len(NOT_RUN)


def test_the_image_holds_what_the_server_needs_and_nothing_else(image: Image) -> None:
    """What is locked for the server, at those versions, and Baton: no pip, no build tools, no tests."""
    (packages,) = (image.building.root / "opt/baton/lib").glob("python3*/site-packages")
    found = {canonicalize_name(one.name): one.version for one in distributions(path=[str(packages)])}
    locked = [Requirement(line) for line in requirements("requirements.server.lock")]
    here = {
        canonicalize_name(one.name): str(one.specifier) for one in locked if not one.marker or one.marker.evaluate()
    }

    assert found.pop("baton-runtime")
    assert {name: f"=={version}" for name, version in found.items()} == here
    assert sorted(path.name for path in (image.building.root / "opt").iterdir()) == ["baton"]
    assert not list(packages.glob("tests"))


async def test_a_server_serves_is_healthy_and_drains(image: Image, client: Client) -> None:
    """From ENTRYPOINT and CMD to the end by STOPSIGNAL, with a turn in the middle of its answer."""
    before = _installed(image)
    async with image.started(BATON_DEMO_DELAY_S="0.05") as process:
        line = await line_with(process, "listening")
        assert str(image.folder / "baton.db") in line
        assert await image.check_health() == (0, "SERVING\n")
        session = await client.create_session(agent=Agent(name="Assistant", instructions="Be brief."))
        turn = await _writing(client, session.session_id)

        assert await stopped(process, grace_s(service("server"))) == 0

    assert (await image.check_health())[0] == 3
    assert _installed(image) == before  # it wrote nowhere else
    assert (image.folder / "baton.db").exists()
    assert not (image.folder / "baton.db-wal").exists()
    # As it lies there: a server that is started again would finish the turn, drained or not.
    assert stored(image.folder / "baton.db").turns == {turn: "COMPLETED"}


async def test_the_composed_worker_serves_the_composed_server(image: Image, client: Client) -> None:
    """The two containers of compose.yaml, on this machine: a run calls the function of the worker."""
    agent = Agent(name="Assistant", tools=[RemoteFunction("get_weather")])
    async with image.started() as process:
        await line_with(process, "listening")
        async with image.started(command_in_image(service("worker"))) as worker:
            await line_with(worker, "get_weather")
            result = await Runner.run(agent, "What is the weather in Kyoto?")

            assert "18 °C, light rain" in result.final_output
            assert await stopped(worker, grace_s(service("worker"))) == 0
        assert await stopped(process, grace_s(service("server"))) == 0


async def test_a_second_server_on_the_volume_is_refused(image: Image) -> None:
    """It says who holds the file, and ends; the first goes on."""
    async with image.started() as process:
        await line_with(process, "listening")
        async with image.started(BATON_ADDRESS="127.0.0.1:0") as second:
            told = await line_with(second, "is held by", of_errors=True)
            assert await asyncio.wait_for(second.wait(), 30) == 1

        assert f"process {process.pid}" in told
        assert (await image.check_health())[0] == 0
        assert await stopped(process, grace_s(service("server"))) == 0


def _installed(image: Image) -> list[str]:
    return sorted(files(image.building.root / "opt"))


async def _writing(client: Client, session_id: str) -> str:
    """Begin a turn, and wait until its answer is being written; returns its id."""
    outcome = await client.submit(session_id, "Say a few words, one after the other.")
    async with asyncio.timeout(30):
        async for part in client.watch(session_id, follow_until=session_pb2.FOLLOW_FOREVER):
            if part.HasField("delta"):
                return part.delta.turn_id
    raise AssertionError(f"nothing was written: {outcome}")
