"""What settings add to a request on their own account: members of its body, headers, a query.

They are the caller's, so they are judged here: none replaces what the server itself must say, and none reaches
the credentials. What is wrong is a RequestError that names the setting.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from openai import Omit, RequestOptions, Timeout

from baton_server.core import jsontext
from baton_server.core.jsontext import JsonError
from baton_server.core.settings import ModelSettings

OWN_MEMBERS = frozenset({"model", "stream", "input", "conversation", "previous_response_id"})
"""Members of a body that say what is asked of whom, and how it is answered."""

OWN_HEADERS = frozenset(
    {
        "authorization", "proxy-authorization", "host", "connection", "content-type", "content-length",
        "content-encoding", "transfer-encoding", "te", "trailer", "upgrade", "expect", "accept", "accept-encoding",
    }
)  # fmt: skip
"""Headers that are the connection's or the credentials', in lower case."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token of RFC 9110, section 5.6.2
_VALUE = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?")  # what every peer takes: ASCII, and no space at either end


class RequestError(ValueError):
    """Settings make no request. `param`: the one that is wrong, by its name in `baton.v1.ModelSettings`."""

    def __init__(self, param: str, problem: str) -> None:
        self.param, self.problem = param, problem
        super().__init__(f"{param} {problem}")


def extra_members(param: str, text: str) -> dict[str, str]:
    """Read the members that a setting adds to the body, each as the text that it came as. Raises RequestError."""
    if not text:
        return {}
    try:
        found = {name: value for name, _, value in jsontext.members(text)}
    except JsonError as error:
        raise RequestError(param, f"is {error}, must be a JSON object") from None
    for name in sorted(OWN_MEMBERS & found.keys()):
        raise RequestError(f"{param}.{name}", "is written by the server and cannot be replaced")
    return found


def request_options(
    settings: ModelSettings, headers: Mapping[str, str | Omit], timeout: Timeout | None
) -> RequestOptions:
    """Write what goes beside a body. `headers`: the server's own; `timeout` None: the client's. Raises RequestError."""
    options: RequestOptions = {"headers": headers}
    if settings.extra_headers:
        options["headers"] = {**_checked(settings.extra_headers), **headers}
    if settings.extra_query:
        options["params"] = dict(settings.extra_query)
    if timeout is not None:
        options["timeout"] = timeout
    return options


def _checked(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        param = f"extra_headers.{name[:64]}"
        if name.lower() in OWN_HEADERS:
            raise RequestError(param, "is the server's own and cannot be set")
        if not _NAME.fullmatch(name):
            raise RequestError(param, "is no name of an HTTP header")
        if not _VALUE.fullmatch(value):  # which is not shown: it may be secret
            raise RequestError(param, "has a value that no HTTP header can carry")
    return headers
