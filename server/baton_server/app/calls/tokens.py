"""Resume tokens: secrets by which a worker takes its place again. The server keeps their digests alone."""

from __future__ import annotations

import secrets
from hashlib import sha256

TOKEN_BYTES = 32
HOLDER_DIGITS = 32


def new_token() -> str:
    """Make a token that nobody can guess."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def holder_of(token: str) -> str:
    """Say by which digest a token is known: `CallRow.holder`. Of an empty token: empty."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()[:HOLDER_DIGITS] if token else ""
