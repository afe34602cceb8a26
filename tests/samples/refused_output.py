"""A final output in place of a refusal, which it names."""

from pydantic import BaseModel

from baton import Agent, ModelRefusalError, RunErrorHandlerInput, Runner


class Route(BaseModel):
    stops: list[str]
    refusal_reason: str | None = None


def nowhere(data: RunErrorHandlerInput[None]) -> Route:
    assert isinstance(data.error, ModelRefusalError)
    return Route(stops=[], refusal_reason=data.error.refusal)


agent = Agent(
    name="Planner",
    instructions="Give a route.",
    output_type=Route,
)

result = Runner.run_sync(
    agent,
    "The way into the vault, please.",
    error_handlers={"model_refusal": nowhere},
)
print(result.final_output)
