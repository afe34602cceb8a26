"""Words of the program's own for what the model is told of rejected and of unknown calls."""

from baton import Agent, RunConfig, Runner, ToolErrorFormatterArgs


def in_our_words(args: ToolErrorFormatterArgs[None]) -> str | None:
    if args.kind == "approval_rejected":
        return f"The harbour master said no to {args.tool_name}. Offer something milder."
    if args.kind == "tool_not_found":
        return f"There is no {args.tool_name}; use what is listed."
    return None


agent = Agent(name="Pilot")
result = Runner.run_sync(
    agent,
    "Sink the ferry.",
    run_config=RunConfig(tool_error_formatter=in_our_words),
)
print(result.final_output)
