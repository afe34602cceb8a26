"""Holds Baton to the Agents SDK's own Runner: the same scenario, the same requests to the model, the same run.

    python -m tests.conformance FILE...

`scenarios/` are the scenarios, as data: a scripted model, agents and functions, and under "expect" what the
reference (the `openai-agents` package) was seen to do. `scenario` runs one through the real client and a real server,
`compare` says where the two differ. Their form is told in `python -m tests.conformance --help`.
"""
