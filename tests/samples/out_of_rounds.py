"""A final output in place of the exception when the rounds are used up."""

from baton import (
    Agent,
    RunErrorHandlerInput,
    RunErrorHandlerResult,
    Runner,
    function_tool,
)


@function_tool
def next_page(number: int) -> str:
    return f"page {number}"


agent = Agent(name="Reader", instructions="Be short.", tools=[next_page])


def give_up(_data: RunErrorHandlerInput[None]) -> RunErrorHandlerResult:
    return RunErrorHandlerResult(
        final_output="That book is too long for me. Which chapter do you want?",
        include_in_history=False,
    )


result = Runner.run_sync(
    agent,
    "Read me the whole book",
    max_turns=3,
    error_handlers={"max_turns": give_up},
)
print(result.final_output)
