"""What a provider's failures mean: HTTP errors, error events and broken connections as `ModelError`.

A message says what happened, what the provider said of it and what to do. It never holds a key, a header or
a whole body: whatever a provider said passes `_said`. The attempt beside it is what retries go by.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from openai import APIStatusError

from baton_server.core.errors import Failure, Reason
from baton_server.core.responses import unicode
from baton_server.core.retries import Attempt
from baton_server.model.extras import RequestError
from baton_server.ports.model import ModelError

MAX_QUOTE_BYTES = 512
"""Of what a provider said, so that a message stays under the 1 KiB of `baton.v1.Error`."""

MAX_FACT_BYTES = 128
"""Of a model's name or a code in the metadata, which are 2 KiB in all."""

MIN_SECRET = 8
"""Characters of a key that is one: servers without keys are often given a word, which may stand in any text."""

_BY_CODE = {
    "insufficient_quota": Reason.MODEL_QUOTA_EXCEEDED,
    "billing_hard_limit_reached": Reason.MODEL_QUOTA_EXCEEDED,
    "rate_limit_exceeded": Reason.MODEL_RATE_LIMITED,
    "model_not_found": Reason.MODEL_NOT_FOUND,
    "invalid_api_key": Reason.MODEL_AUTHENTICATION,
    "context_length_exceeded": Reason.CONTEXT_LENGTH_EXCEEDED,
    "invalid_request_error": Reason.MODEL_REQUEST_INVALID,
    "invalid_prompt": Reason.MODEL_REQUEST_INVALID,
    "conversation_locked": Reason.CONVERSATION_LOCKED,
}

_BY_STATUS = {
    401: Reason.MODEL_AUTHENTICATION,
    403: Reason.MODEL_AUTHENTICATION,
    404: Reason.MODEL_NOT_FOUND,
    408: Reason.MODEL_TIMEOUT,
    429: Reason.MODEL_RATE_LIMITED,
}

_SUGGESTS_RETRY = frozenset({408, 409, 429})
"""Statuses after which the `openai` package itself asks again, besides 5xx."""

_NEVER_AGAIN = frozenset({Reason.MODEL_QUOTA_EXCEEDED, Reason.CONTEXT_LENGTH_EXCEEDED})
"""What the same request cannot get over, whatever status it came with."""

_WHAT_TO_DO = {
    Reason.MODEL_AUTHENTICATION: "Set OPENAI_API_KEY of the server to a key that may use the model.",
    Reason.MODEL_NOT_FOUND: "Name a model that the provider serves, or check the server's base URL.",
    Reason.MODEL_QUOTA_EXCEEDED: "Raise the budget at the provider, or use another key.",
    Reason.MODEL_RATE_LIMITED: "Wait, or ask less often.",
    Reason.MODEL_REQUEST_INVALID: "Change the agent or its model settings accordingly.",
    Reason.CONTEXT_LENGTH_EXCEEDED: "Shorten the input or the session's history, or use a larger model.",
    Reason.MODEL_UNAVAILABLE: "Try again later.",
    Reason.MODEL_TIMEOUT: "Try again, or raise model_settings.timeout or the server's timeout of model requests.",
    Reason.MODEL_RESPONSE_FAILED: "Try again later.",
    Reason.CONVERSATION_LOCKED: "Wait until the other request of the conversation has ended.",
}

# Words that begin a credential in any text, whoever wrote it.
_CREDENTIAL = re.compile(r"(?i)\b(?:(?:bearer|basic)\s+[\w.~+/=*-]{6,}|sk-[\w*.-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider as its failures name it.

    `name`: that of configuration, "openai". `base_url`: without what may be secret in it, a user or a query.
    """

    name: str
    base_url: str
    api_key: str = field(default="", repr=False)

    def failed_status(self, model: str, error: APIStatusError, conversation_id: str = "") -> ModelError:
        """Read an answer whose HTTP status is no success."""
        code, param, text = self._told(error.body)
        status, headers = error.status_code, error.response.headers
        wait_s = _retry_after_s(headers)
        reason = _BY_CODE.get(code) or _BY_STATUS.get(status)
        if reason is None:
            reason = Reason.MODEL_REQUEST_INVALID if 400 <= status < 500 else Reason.MODEL_UNAVAILABLE
        if reason is Reason.MODEL_AUTHENTICATION:
            text = ""  # it tends to quote the key
        facts = {
            "model": model,
            "status": str(status),
            "code": code,
            "param": param,
            "retry_after": "" if wait_s is None else _seconds(wait_s),
            "conversation_id": conversation_id,
        }
        attempt = Attempt(
            status=status,
            suggested=_suggests(status, reason, headers),
            retry_after_s=wait_s,
            locked=reason is Reason.CONVERSATION_LOCKED,
        )
        what = f"answered HTTP {status} for the model {_cut_fact(model)!r}"
        return self._error(reason, what, text, facts, attempt=attempt)

    def failed_event(self, model: str, error: Any) -> ModelError:
        """Read the error of a stream that began well: of `response.failed` or of an `error` event."""
        code, param, text = self._told(error)
        kind = error.get("type") if isinstance(error, Mapping) else None
        reason = _BY_CODE.get(code) or _BY_CODE.get(str(kind))
        if reason is None:
            of_input = "image" in code or code.startswith(("invalid_", "unsupported_"))
            reason = Reason.MODEL_REQUEST_INVALID if of_input else Reason.MODEL_RESPONSE_FAILED
        facts = {"model": model, "code": code, "param": param}
        what = f"failed while the model {_cut_fact(model)!r} answered" + (f" ({code})" if code else "")
        attempt = Attempt(locked=reason is Reason.CONVERSATION_LOCKED)  # no status and no header: nothing is suggested
        return self._error(reason, what, text, facts, attempt=attempt)

    def malformed(self, model: str, problem: str) -> ModelError:
        """Say that a reply does not read as one of the Responses API."""
        what = f"sent a reply of the model {_cut_fact(model)!r} that is none of the Responses API"
        return self._error(Reason.MODEL_UNAVAILABLE, what, self._said(problem), {})

    def ended_early(self, model: str, content_type: str) -> ModelError:
        """Say that a stream ended without its terminal event."""
        what = f"ended the stream of the model {_cut_fact(model)!r} before response.completed"
        if content_type.startswith("text/event-stream"):
            return self._error(Reason.MODEL_UNAVAILABLE, what, "", {}, attempt=_LOST)
        hint = f"the answer is {content_type or 'of no type'}, no event stream: does {self.base_url} serve it?"
        return self._error(Reason.MODEL_UNAVAILABLE, what, hint, {})

    def too_large(self, model: str, limit: int) -> ModelError:
        """Say that a reply went beyond what the server reads."""
        what = f"sent more than {limit} bytes in one reply of the model {_cut_fact(model)!r}"
        return self._error(Reason.MODEL_UNAVAILABLE, what, "", {})

    def broken(self, error: BaseException) -> ModelError:
        """Say that a connection could not be made or broke."""
        what = f"cannot be reached at {self.base_url}, or broke the connection"
        said = self._said(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
        return self._error(Reason.MODEL_UNAVAILABLE, what, said, {}, attempt=_LOST)

    def timed_out(self, model: str, timeout_s: float) -> ModelError:
        """Say that a request took too long."""
        timeout = f"{timeout_s:g}s"
        what = f"did not finish the answer of the model {_cut_fact(model)!r} within {timeout}"
        return self._error(Reason.MODEL_TIMEOUT, what, "", {"timeout": timeout}, attempt=_LOST)

    def unconnected(self, timeout_s: float) -> ModelError:
        """Say that nobody took the connection in time."""
        timeout = f"{timeout_s:g}s"
        what = f"took no connection at {self.base_url} within {timeout}"
        return self._error(Reason.MODEL_TIMEOUT, what, "", {"timeout": timeout}, attempt=_LOST)

    def refused_settings(self, error: RequestError) -> ModelError:
        """Say that settings make no request that could be sent."""
        param = _cut_fact(unicode(error.param))
        message = f"The model setting {param} {_cut(unicode(error.problem), MAX_QUOTE_BYTES)}."
        facts = {"provider": self.name, "param": param}
        return ModelError(Failure(reason=Reason.MODEL_REQUEST_INVALID, message=message, metadata=facts))

    def unnamed_model(self) -> ModelError:
        """Say that nobody named a model."""
        message = "No model is named. Set the agent's model, or the server's default model (OPENAI_DEFAULT_MODEL)."
        facts = {"model": "", "provider": self.name}
        return ModelError(Failure(reason=Reason.MODEL_NOT_FOUND, message=message, metadata=facts))

    def _error(
        self, reason: Reason, what: str, said: str, facts: Mapping[str, str], *, attempt: Attempt | None = None
    ) -> ModelError:
        message = f"{self.name} {what}{f': {said}' if said else '.'}"
        if message[-1] not in ".!?…":
            message += "."
        known = {"provider": self.name, **facts}
        if reason is Reason.MODEL_TIMEOUT:
            known.setdefault("timeout", "unknown")
        metadata = {key: _cut_fact(known[key]) for key in _FACTS[reason] if known.get(key)}
        failure = Failure(reason=reason, message=f"{message} {_WHAT_TO_DO[reason]}", metadata=metadata)
        return ModelError(failure, attempt)

    def _told(self, error: Any) -> tuple[str, str, str]:
        """Read code, parameter and text of an error as providers write it: an object or a text."""
        if isinstance(error, str):  # a text of its own, unless it is somebody's web page
            return "", "", "" if error.lstrip().startswith("<") else self._said(error)
        if not isinstance(error, Mapping):
            return "", "", ""
        text = error.get("message") or error.get("detail")
        code, param = error.get("code"), error.get("param")
        return (
            _cut_fact(unicode(code)) if isinstance(code, str) else "",
            _cut_fact(unicode(param)) if isinstance(param, str) else "",
            self._said(text) if isinstance(text, str) else "",
        )

    def _said(self, text: str) -> str:
        if len(self.api_key) >= MIN_SECRET:
            text = text.replace(self.api_key, "[key]")
        text = " ".join(_CREDENTIAL.sub("[key]", text).split())
        return _cut(unicode(text), MAX_QUOTE_BYTES)


# Keys by reason, as error.proto documents them.
_FACTS = {
    Reason.MODEL_AUTHENTICATION: ("provider",),
    Reason.MODEL_NOT_FOUND: ("model", "provider"),
    Reason.MODEL_QUOTA_EXCEEDED: ("provider", "code"),
    Reason.MODEL_RATE_LIMITED: ("provider", "retry_after"),
    Reason.MODEL_REQUEST_INVALID: ("provider", "code", "param"),
    Reason.CONTEXT_LENGTH_EXCEEDED: ("model",),
    Reason.MODEL_UNAVAILABLE: ("provider", "status"),
    Reason.MODEL_RESPONSE_FAILED: ("provider", "code"),
    Reason.MODEL_TIMEOUT: ("timeout",),
    Reason.CONVERSATION_LOCKED: ("conversation_id",),  # how often it was retried, only who retries knows
}

_LOST = Attempt(network=True, suggested=True)
"""No answer, or not its end: the connection broke or the time passed."""


def public_url(url: str) -> str:
    """Keep of a URL what may be shown: no user, no password, no query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _suggests(status: int, reason: Reason, headers: Mapping[str, str]) -> bool:
    """Tell whether an answer means that the same request may succeed. OpenAI says it itself, where it knows better."""
    said = headers.get("x-should-retry", "").strip().lower()
    if said in ("true", "false"):
        return said == "true"
    return (status in _SUGGESTS_RETRY or status >= 500) and reason not in _NEVER_AGAIN


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Read how many seconds to wait; None: the provider does not say."""
    milliseconds, seconds = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    try:
        if milliseconds:
            wait_s = float(milliseconds) / 1000
        elif seconds.strip().isdecimal():
            wait_s = float(seconds)
        else:
            wait_s = (parsedate_to_datetime(seconds) - parsedate_to_datetime(headers["date"])).total_seconds()
    except (ValueError, KeyError, TypeError):
        return None
    return max(wait_s, 0.0) if math.isfinite(wait_s) else None


def _seconds(value_s: float) -> str:
    return f"{value_s:.3f}".rstrip("0").rstrip(".") + "s"


def _cut_fact(text: str) -> str:
    return _cut(text, MAX_FACT_BYTES)


def _cut(text: str, size: int) -> str:
    data = text.encode("utf-8", "replace")
    return text if len(data) <= size else data[: size - 3].decode("utf-8", "ignore") + "…"
