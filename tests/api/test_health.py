"""Health: what balancers ask first."""

import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.api.calling import refused, soon
from tests.api.conftest import Serve

from baton.v1 import session_pb2

SERVICES = [f"baton.v1.{name}" for name in ("AgentService", "SessionService", "RunnerService", "HandlerService")]


@pytest.mark.parametrize("service", ["", *SERVICES])
async def test_every_service_says_that_it_serves(serve: Serve, service: str) -> None:
    """Each service by its name, and the server as a whole."""
    served = await serve()
    health = health_pb2_grpc.HealthStub(served.client.channel)

    answer = await soon(health.Check(health_pb2.HealthCheckRequest(service=service)))

    assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.slow
async def test_without_its_store_no_service_serves(serve: Serve) -> None:
    """When the store is gone balancers are told within seconds, and callers that trying later makes sense."""
    served = await serve()
    health = health_pb2_grpc.HealthStub(served.client.channel)
    watches = [health.Watch(health_pb2.HealthCheckRequest(service=service)) for service in ("", *SERVICES)]
    for watch in watches:
        assert (await soon(watch.read())).status == health_pb2.HealthCheckResponse.SERVING

    await served.baton.runtime.store.close()

    answers = await asyncio.gather(*(soon(watch.read()) for watch in watches))
    assert {answer.status for answer in answers} == {health_pb2.HealthCheckResponse.NOT_SERVING}
    told = await refused(served.client.session())
    assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
    assert told.metadata == {"part": "store"}
    assert told.retry_after_s is not None
    reading = session_pb2.GetSessionRequest(session_id="sess_1")
    assert (await refused(served.client.sessions.GetSession(reading))).reason == "UNAVAILABLE"
    watching = served.client.sessions.Watch(session_pb2.WatchRequest(session_id="sess_1"))
    assert (await refused(watching.read())).reason == "UNAVAILABLE"
