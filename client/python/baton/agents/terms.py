"""Texts that a guardrail looks for by itself, where no program is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from baton.options import options
from baton.v1 import agent_pb2

MOST_TERMS, TERM_CHARACTERS = 256, 256
"""Of one guardrail, and of each text (agent.proto, Terms)."""


@dataclass(frozen=True)
class _Terms:
    terms: Sequence[str]
    name: str | None = None
    case_sensitive: bool = False
    run_in_parallel: bool = True
    message: str | None = None

    def __post_init__(self) -> None:
        kind = type(self).__name__
        if isinstance(self.terms, str) or not all(isinstance(term, str) for term in self.terms):
            raise TypeError(f"{kind}: terms must be a list of texts, not {self.terms!r}")
        if not 1 <= len(self.terms) <= MOST_TERMS:
            raise ValueError(f"{kind}: terms are 1 to {MOST_TERMS} texts, not {len(self.terms)}")
        for term in self.terms:
            if not 1 <= len(term) <= TERM_CHARACTERS:
                raise ValueError(
                    f"{kind}: a term has 1 to {TERM_CHARACTERS} characters, not {len(term)}: {term[:40]!r}"
                )

    def get_name(self) -> str:
        """Say its name."""
        return self.name or type(self).__name__

    def to_pb(self) -> agent_pb2.Terms:
        """Write `baton.v1.Terms`."""
        return agent_pb2.Terms(terms=self.terms, case_sensitive=self.case_sensitive)


@options
@dataclass(frozen=True)
class DenyTerms(_Terms):
    """A guardrail without a program: strikes if any of these texts is there.

    It stands wherever a guardrail may. Texts are looked for as they are. `name`: shown in errors and events; None:
    "DenyTerms". `case_sensitive` False: upper and lower case are the same. `run_in_parallel`: as of an InputGuardrail.
    `message`: of a function's guardrail alone: the model is told this in place of the output; None: the run ends.
    """


@options
@dataclass(frozen=True)
class AllowTerms(_Terms):
    """A guardrail without a program: strikes if none of these texts is there. Everything else is as with DenyTerms."""


TermsGuardrail = DenyTerms | AllowTerms
