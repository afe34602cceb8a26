"""The Runner, pure: `Runner.step(state, input)` records events, `pending(state)` says what is owed.

Nothing here waits, reads a clock, draws a random number or knows of gRPC, protobuf or storage.
What needs a library is a function handed in as `Rules` (declared in `ports.rules`).
"""
