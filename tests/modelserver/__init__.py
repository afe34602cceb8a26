"""A scripted stand-in for the OpenAI API, on loopback, for tests and measurements.

It speaks the Responses API over HTTP (plain and server-sent events) and WebSocket, Chat Completions and enough
of the Conversations API to create one, each at its path and below /v1. It thinks nothing: what the model "says"
comes from a script that the test loads first, or from a rule in the model's name.

    python -m tests.modelserver --port 0        its first line is its address

Scripts
    PUT  /_scripts/NAME   {"responses": [STEP, ...]}   load (and rewind) a script
    GET  /_requests/NAME                               every request made to it, in order
    POST /_resume/NAME                                 go on where a step pauses
    A request whose model is "script:NAME" takes the script's next STEP. Past the end it gets HTTP 500 with code
    "script_exhausted", so that a run which asks the model once too often shows.

STEP, one of
    {"output": [ITEM, ...]}        Responses output items; ids are filled in where left out
    {"text": "..."}                short for one assistant message
    {"calls": [{"name": "...", "arguments": {...}, "call_id": "..."}], "text": "..."}
                                   short for function_call items (and a message before them)
    {"refusal": "..."}             short for one refused message
    {"error": {"status": 429, "code": "...", "message": "...", "param": "...", "headers": {...}}}
    {"answer": {"status": 200, "content_type": "text/html", "text": "..."}}   no API's answer
  with any of
    "usage": {"input_tokens": 1, "output_tokens": 1, "cached_tokens": 0, "reasoning_tokens": 0}
    "status": "incomplete", "incomplete_details": {...}     how the response ends
    "response": {...}              fields laid over the response object, for example {"output": []}
    "delay_ms": 50                 wait before the first byte
    "delta_delay_ms": 5            wait before each text delta
    "end_delay_ms": 5              wait between the last event and the end of the body
    "hang_up": true                cut the connection before the first byte
    "drop_after_events": 3         cut the connection after so many stream events
    "fail_after_events": 3         send a response.failed event there instead, with
    "fail_with": {"code": "...", "message": "..."}
    "error_after_events": 3        send an error event there instead, made of "fail_with"
    "end_after_events": 3          end the stream there in good order, without its terminal event
    "pause_after_events": 3        wait there until resumed or until the peer has left
    "flood_after_events": 3        send comments from there on until the peer has left
    "chunk_bytes": 7               write server-sent events in pieces of so many bytes
    "line_end": "\\r\\n"             of server-sent events

Rules (no script needed; for load)
    "rule:calls=3,words=20,name=echo,arg=16,delay_ms=0,delta_delay_ms=0"
    answers with a function call until the input, after its last user message, holds `calls`
    function_call_output items, then with a message of `words` words. So a request that is made
    again gets the same answer.
    parallel=2: so many calls in one answer. name=echo|add: calls of these in turns. checked=1: an input in
    which a call has no output, or an output no call, is refused with HTTP 400, as the API does.
"""

from tests.modelserver.scripts import Recorded, Scripts
from tests.modelserver.server import Running, application, running

__all__ = ["Recorded", "Running", "Scripts", "application", "running"]
