"""A final output in place of one that does not fit its type."""

from pydantic import BaseModel

from baton import Agent, ModelBehaviorError, RunErrorHandlerInput, Runner


class Route(BaseModel):
    stops: list[str]
    made_up: bool = False


def straight_home(data: RunErrorHandlerInput[None]) -> Route:
    assert isinstance(data.error, ModelBehaviorError)
    return Route(stops=["home"], made_up=True)


agent = Agent(
    name="Planner",
    instructions="Give a route.",
    output_type=Route,
)

result = Runner.run_sync(
    agent,
    "How do I get to the lake?",
    error_handlers={"invalid_final_output": straight_home},
)
print(result.final_output)
