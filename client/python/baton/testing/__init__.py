"""Tries functions and hooks as a server would call them: no server, no network, no waiting.

    import asyncio
    from baton import FunctionError, RunContext, function_tool
    from baton.testing import begin_function, call_function

    orders = {"A-7": "open"}

    @function_tool(side_effects="once")
    async def cancel_order(context: RunContext[None], number: str) -> str:
        if number not in orders:
            raise FunctionError(f"There is no order {number}.")
        context.progress("asking the shop")
        if not context.may_have_run:
            orders[number] = "cancelled"
        return f"{number} is {orders[number]}"

    async def try_it() -> None:
        outcome = await call_function(cancel_order, {"number": "A-7"})
        assert (outcome.kind, outcome.value) == ("output", "A-7 is cancelled")
        assert [report.text for report in outcome.reports] == ["asking the shop"]

        outcome = await call_function(cancel_order, {"number": "B-1"})
        assert (outcome.kind, outcome.value) == ("failure", "There is no order B-1.")

        outcome = await call_function(cancel_order, '{"number": 7}')
        assert outcome.kind == "arguments_refused"  # the function was not called

        outcome = await call_function(cancel_order, {"number": "A-7"}, attempt=2, may_have_run=True)
        assert outcome.value == "A-7 is cancelled"

        call = begin_function(cancel_order, {"number": "A-7"})
        call.cancel("turn_ended")
        assert (await call.outcome()).kind == "cancelled"

    asyncio.run(try_it())

The code is the worker's own: arguments, results, exceptions, threads, sizes are treated as in real life. What a server
does besides is left to the test: time passes only in it, so that a timeout is `call.cancel("timeout")`.
"""

from baton.testing.calls import CallFacts, FunctionCall, Outcome, Report, begin_function, call_function
from baton.testing.hooks import HookOutcome, MomentFacts, ask_check, ask_filter, ask_guardrail, ask_hook, tell

__all__ = [
    "CallFacts",
    "FunctionCall",
    "HookOutcome",
    "MomentFacts",
    "Outcome",
    "Report",
    "ask_check",
    "ask_filter",
    "ask_guardrail",
    "ask_hook",
    "begin_function",
    "call_function",
    "tell",
]
