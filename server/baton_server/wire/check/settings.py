"""How a model is asked: its settings, and when a failed request is made again."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from baton.v1 import agent_pb2
from baton_server.wire.check.hooks import hook_ref
from baton_server.wire.check.violations import FUNCTION_NAME, Violations

PAIRS, PAIR_KEY, PAIR_VALUE = 64, 256, 4096
"""Of extra_query and extra_headers."""
INCLUDES, INCLUDE_CHARACTERS = 64, 256
MODEL_TIMEOUT_S = (0.001, 24 * 3600.0)
RETRIES = 20
DELAY_S = (0.0, 3600.0)
MULTIPLIER = 100
RULES, RULE_DEPTH = 32, 4
STATUSES = 200

_CHOICES = ("auto", "required", "none")

_RANGES: Mapping[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "top_logprobs": (0, 20),
}

_WORDS: Mapping[str, tuple[str, ...]] = {
    "truncation": ("auto", "disabled"),
    "verbosity": ("low", "medium", "high"),
    "prompt_cache_retention": ("in_memory", "24h"),
}

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?|")
_OWN_HEADERS = frozenset(
    {"authorization", "connection", "content-length", "host", "te", "transfer-encoding", "upgrade"}
)
"""Headers that are the server's own: its key, and how the request travels."""

_OWN_BODY = ("input", "model", "stream")
"""Fields of a request's body that are the server's own."""


def settings(
    found: Violations, path: str, message: agent_pb2.ModelSettings, tools: Collection[str] | None = None
) -> None:
    """Check model settings. `tools`: what a tool_choice may name, None: not known here."""
    for name, (low, high) in _RANGES.items():
        if message.HasField(name):  # type: ignore[arg-type]  # names of one table
            found.between(f"{path}.{name}", getattr(message, name), low, high)
    for name, words in _WORDS.items():
        found.one_of(f"{path}.{name}", getattr(message, name), words)
    if message.HasField("max_tokens"):
        found.at_least(f"{path}.max_tokens", message.max_tokens, 1)
    if message.HasField("timeout"):
        found.duration(f"{path}.timeout", message.timeout, *MODEL_TIMEOUT_S)
    _tool_choice(found, f"{path}.tool_choice", message.tool_choice, tools)
    found.labels(f"{path}.metadata", message.metadata)
    found.at_most(f"{path}.response_include", len(message.response_include), INCLUDES, "entries")
    for index, name in enumerate(message.response_include):
        found.text(f"{path}.response_include[{index}]", name, INCLUDE_CHARACTERS, required=True)
    _pairs(found, f"{path}.extra_query", message.extra_query)
    _headers(found, f"{path}.extra_headers", message.extra_headers)
    _json_fields(found, path, message)
    if message.HasField("retry"):
        _retry(found, f"{path}.retry", message.retry)


def _tool_choice(found: Violations, path: str, choice: str, tools: Collection[str] | None) -> None:
    if not choice or choice in _CHOICES:
        return
    if not FUNCTION_NAME.fullmatch(choice):
        found.add(path, f"is {choice[:80]!r}, must be auto, required, none or a tool")
    elif tools is not None and choice not in tools:
        found.add(path, f"is {choice!r}, which is none of the agent's tools")


def _pairs(found: Violations, path: str, pairs: Mapping[str, str]) -> None:
    found.at_most(path, len(pairs), PAIRS, "pairs")
    for key, value in pairs.items():
        where = f"{path}[{key[:PAIR_KEY]!r}]"
        if not 1 <= len(key) <= PAIR_KEY:
            found.add(where, f"has a key of {len(key)} characters, 1 to {PAIR_KEY} are allowed")
        found.text(where, value, PAIR_VALUE)


def _headers(found: Violations, path: str, headers: Mapping[str, str]) -> None:
    _pairs(found, path, headers)
    for name, value in headers.items():
        where = f"{path}[{name[:PAIR_KEY]!r}]"
        if name.lower() in _OWN_HEADERS:
            found.add(where, "is a header of the server's own; configure its provider instead")
        elif name and not _HEADER_NAME.fullmatch(name):
            found.add(where, "is no name that HTTP can carry: letters, digits and !#$%&'*+-.^_`|~")
        if not _HEADER_VALUE.fullmatch(value):
            found.add(where, "is no value that HTTP can carry: printable ASCII, no spaces around it")


def _json_fields(found: Violations, path: str, message: agent_pb2.ModelSettings) -> None:
    if message.extra_body_json:
        body = found.json_object(f"{path}.extra_body_json", message.extra_body_json) or {}
        for name in _OWN_BODY:
            if name in body:
                found.add(f"{path}.extra_body_json", f"holds {name!r}, which is the server's own; leave it out")
    for name in ("extra_args_json", "prompt_cache_options_json"):
        if getattr(message, name):
            found.json_object(f"{path}.{name}", getattr(message, name))
    text = message.context_management_json
    where = f"{path}.context_management_json"
    if text and not isinstance(found.json(where, text), list | None):
        found.add(where, f"is {text[:80]!r}, must be a JSON array")


# -- retries -------------------------------------------------------------------------------------


def _retry(found: Violations, path: str, retry: agent_pb2.RetrySettings) -> None:
    if retry.HasField("max_retries"):
        found.between(f"{path}.max_retries", retry.max_retries, 0, RETRIES)
    if retry.HasField("initial_delay"):
        found.duration(f"{path}.initial_delay", retry.initial_delay, *DELAY_S)
    if retry.HasField("max_delay"):
        found.duration(f"{path}.max_delay", retry.max_delay, *DELAY_S)
    if retry.HasField("multiplier"):
        found.between(f"{path}.multiplier", retry.multiplier, 1, MULTIPLIER)
    if retry.HasField("rule"):
        _rule(found, f"{path}.rule", retry.rule, 1)


def _rule(found: Violations, path: str, rule: agent_pb2.RetryRule, depth: int) -> None:
    if depth > RULE_DEPTH:
        found.add(path, f"is nested {depth} deep, at most {RULE_DEPTH} are allowed")
        return
    match found.arm(path, rule, "rule"):
        case "provider_suggested" | "network_error" | "retry_after" as arm:
            found.is_true(f"{path}.{arm}", getattr(rule, arm), "leave the rule out")
        case "http_status":
            _statuses(found, f"{path}.http_status.codes", rule.http_status.codes)
        case "any":
            _rules(found, f"{path}.any.rules", rule.any.rules, depth)
        case "all":
            _rules(found, f"{path}.all.rules", rule.all.rules, depth)
        case "hook":
            hook_ref(found, f"{path}.hook", rule.hook)
        case _:
            pass


def _rules(found: Violations, path: str, rules: Sequence[agent_pb2.RetryRule], depth: int) -> None:
    if not rules:
        found.add(path, "must have at least one rule")
    found.at_most(path, len(rules), RULES, "rules")
    for index, rule in enumerate(rules[:RULES]):
        _rule(found, f"{path}[{index}]", rule, depth + 1)


def _statuses(found: Violations, path: str, codes: Sequence[int]) -> None:
    if not codes:
        found.add(path, "must have at least one status")
    found.at_most(path, len(codes), STATUSES, "statuses")
    for index, code in enumerate(codes[:STATUSES]):
        found.between(f"{path}[{index}]", code, 400, 599)
