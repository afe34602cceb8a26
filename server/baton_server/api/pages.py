"""Page tokens: opaque to the caller, bound to the filters of the list that gave them."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from google.protobuf.message import Message

from baton_server.api.rpc import body_digest
from baton_server.core.errors import Reason, Refused, refuse
from baton_server.ports.store import Page

DEFAULT_SIZE = 20
"""Rows of a page where the request says 0."""


def page_of(request: Any, default: int = DEFAULT_SIZE) -> Page:
    """Read where a list goes on. Raises Refused(PAGE_TOKEN_INVALID)."""
    size = request.page_size or default
    if not request.page_token:
        return Page(size=size)
    try:
        filters, after = json.loads(base64.urlsafe_b64decode(request.page_token))
    except (ValueError, binascii.Error, TypeError, RecursionError):
        filters, after = "", None
    if not isinstance(after, str) or filters != _filters(request):
        raise wrong_token(request.page_token)
    return Page(size=size, after=after)


def wrong_token(token: str) -> Refused:
    """Say that a list did not give this token."""
    return refuse(
        Reason.PAGE_TOKEN_INVALID,
        f"The page_token {token[:64]!r} is not one of this list with these filters. Start again without a token.",
        token=token[:64],
    )


def token_after(request: Message, after: str) -> str:
    """Make the token of the next page; empty `after`: this was the last one."""
    if not after:
        return ""
    return base64.urlsafe_b64encode(json.dumps([_filters(request), after]).encode()).decode()


def _filters(request: Message) -> str:
    return f"{request.DESCRIPTOR.name}/{body_digest(request, ('page_size', 'page_token'))[:16]}"
