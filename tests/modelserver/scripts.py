"""What the model says next, and what it was asked."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Json = dict[str, Any]


class ApiError(Exception):
    """An answer with an HTTP status and an error object, as the API writes it."""

    def __init__(
        self, status: int, code: str | None, message: str, *, param: str | None = None, headers: Json | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.param = status, code, message, param
        self.headers = {name: str(value) for name, value in (headers or {}).items()}

    def body(self) -> Json:
        """Write the error object."""
        kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
        kind = kinds.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"type": kind, "code": self.code, "message": self.message, "param": self.param}}


@dataclass(slots=True, kw_only=True)
class Recorded:
    """A request as it came. `raw`: its body. `disconnected`: the peer left before the answer was written.

    `connection`: equal for requests that came on one connection. `query`: of its URL.
    """

    at: float
    body: Json
    raw: bytes
    headers: Mapping[str, str]
    connection: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    disconnected: bool = False

    def as_json(self) -> Json:
        """Write it for /_requests."""
        return {
            "at": self.at,
            "body": self.body,
            "idempotency_key": self.headers.get("idempotency-key"),
            "disconnected": self.disconnected,
        }


@dataclass(slots=True, kw_only=True)
class Script:
    """Steps, how many of them were taken, and the requests that took them."""

    name: str
    steps: list[Json]
    at: int = 0
    requests: list[Recorded] = field(default_factory=list)
    resumed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A step that a request took. `tag` makes its ids; `script` and `recorded` None: it was a rule's."""

    tag: str
    step: Json
    script: Script | None = None
    recorded: Recorded | None = None


class Scripts:
    """All scripts of one server. May be read and loaded from any thread."""

    def __init__(self) -> None:
        self._scripts: dict[str, Script] = {}
        self._counter = itertools.count(1)
        self._own = f"r{secrets.token_hex(4)}_"  # ids of two servers differ: a history may hold both
        self._changed = threading.Condition()

    def load(self, name: str, steps: list[Json]) -> None:
        """Load a script, or rewind it."""
        with self._changed:
            self._scripts[name] = Script(name=name, steps=steps)

    def find(self, name: str) -> Script | None:
        """Find a script by its name."""
        return self._scripts.get(name)

    def take(self, request: web.Request, body: Json, raw: bytes, items: Any = None) -> Taken:
        """Take the step of a request. Raises ApiError where there is none, or where the step is an error.

        `items`: the input that a rule counts; None: the body's own.
        """
        model = str(body.get("model", ""))
        if model.startswith("rule:"):
            return Taken(tag=f"{self._own}{next(self._counter)}", step=rule_step(model, items or body.get("input")))
        script = self.find(model.removeprefix("script:")) if model.startswith("script:") else None
        if script is None:
            raise ApiError(404, "model_not_found", f"The model `{model}` does not exist.")
        recorded = Recorded(
            at=time.time(),
            body=body,
            raw=raw,
            headers={name.lower(): value for name, value in request.headers.items()},
            query=dict(request.query),
            connection=str(request.transport and request.transport.get_extra_info("peername")),
        )
        with self._changed:
            script.requests.append(recorded)
            step = script.steps[script.at] if script.at < len(script.steps) else None
            script.at += step is not None
            self._changed.notify_all()
        if step is None:
            raise ApiError(500, "script_exhausted", f"script {script.name} has no step {script.at + 1}")
        if (error := step.get("error")) is not None:
            raise ApiError(
                error.get("status", 500),
                error.get("code", "server_error"),
                error.get("message", "scripted error"),
                param=error.get("param"),
                headers=error.get("headers"),
            )
        return Taken(tag=f"{script.name}_{script.at}", step=step, script=script, recorded=recorded)

    def left(self, taken: Taken) -> None:
        """Note that the peer left before its answer was written."""
        with self._changed:
            if taken.recorded is not None:
                taken.recorded.disconnected = True
            self._changed.notify_all()

    def wait_for(self, name: str, holds: Callable[[list[Recorded]], bool], timeout_s: float) -> bool:
        """Block until something holds of a script's requests; False: the time passed first."""

        def asked() -> bool:
            script = self.find(name)
            return script is not None and holds(script.requests)

        with self._changed:
            return self._changed.wait_for(asked, timeout_s)

    def new_id(self, prefix: str) -> str:
        """Make an id that this server has not used."""
        return f"{prefix}_{next(self._counter)}"


def rule_step(model: str, items: Any) -> Json:
    """Make the step of a model that is a rule."""
    options = dict(part.split("=", 1) for part in model.removeprefix("rule:").split(",") if "=" in part)
    step: Json = {key: float(options.get(key, 0)) for key in ("delay_ms", "delta_delay_ms")}
    if int(options.get("checked", 0)):
        _check_pairs(items)
    done, wanted = _outputs_of_turn(items), int(options.get("calls", 1))
    if done < wanted:
        numbers = range(done, min(wanted, done + int(options.get("parallel", 1))))
        arguments = [{"n": number, "text": "x" * int(options.get("arg", 16))} for number in numbers]
        names = options.get("name", "echo").split("|")
        step["calls"] = [{"name": names[given["n"] % len(names)], "arguments": given} for given in arguments]
    else:
        step["text"] = " ".join(["word"] * int(options.get("words", 20)))
    return step


def _check_pairs(items: Any) -> None:
    """Refuse an input as the API does: a call without its output, or an output without its call."""
    given = items if isinstance(items, list) else []
    calls = [item["call_id"] for item in given if item.get("type") == "function_call"]
    outputs = [item["call_id"] for item in given if item.get("type") == "function_call_output"]
    for call_id in calls:
        if call_id not in outputs:
            raise ApiError(400, None, f"No tool output found for function call {call_id}.", param="input")
    for call_id in outputs:
        if calls.count(call_id) != 1 or outputs.count(call_id) != 1:
            raise ApiError(400, None, f"No tool call found for function call output with call_id {call_id}.")


def _outputs_of_turn(items: Any) -> int:
    done = 0
    for item in reversed(items if isinstance(items, list) else []):
        if item.get("type") == "function_call_output":
            done += 1
        elif item.get("role") == "user":
            break
    return done


def compact(value: Any) -> str:
    """Write JSON without white space."""
    return json.dumps(value, separators=(",", ":"))
