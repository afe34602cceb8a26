"""Answers that are lists of items, as the log keeps them: what was kept by position, what is new as it came.

So the log does not grow with the square of a session, and what was kept goes back to the model byte for byte. A stretch
of kept items is `{"$kept": [from, to]}`; where several lists were asked about, each has a key of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baton_server.core import jsontext
from baton_server.core.hooks.answers import AnswerError, members, required
from baton_server.core.jsontext import JsonError

KEPT = "$kept"
NEW = "$new"
_KEYS = frozenset({KEPT, NEW})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInput:
    """What a model request carries: instructions (None: none) and the JSON texts of its items."""

    instructions: str | None
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Positions `first` to before `end` of the list that `key` names."""

    key: str
    first: int
    end: int


Piece = Stretch | str
"""What a packed list is made of: a stretch of what was asked about, or a new item's text."""


def pack_list(asked: Mapping[str, Sequence[str]], text: str, path: str) -> str:
    """Write a list of items for the log, against the lists that were asked about. Raises AnswerError.

    Of equal items that stand in several places those are meant that were not meant before, in order.
    """
    places: dict[str, list[tuple[str, int]]] = {}
    for key, texts in asked.items():
        for position, item in enumerate(texts):
            places.setdefault(_canonical(item), []).append((key, position))
    packed: list[str] = []
    used: set[tuple[str, int]] = set()
    run: list[Any] = []  # key, first, end of the stretch that grows
    for position, (value, item) in enumerate(_items(text, path)):
        if not isinstance(value, dict) or _KEYS & value.keys():
            raise AnswerError(f"{path}[{position}]", "must be a Responses API item")
        candidates = places.get(_canonical(item), [])
        following = (run[0], run[2]) if run else None
        if following in candidates:
            run[2] += 1
            used.add(following)
            continue
        _flush(packed, run)
        chosen = next((one for one in candidates if one not in used), candidates[0] if candidates else None)
        run = [] if chosen is None else [chosen[0], chosen[1], chosen[1] + 1]
        if chosen is None:
            packed.append(item)
        else:
            used.add(chosen)
    _flush(packed, run)
    return f"[{','.join(packed)}]"


def pieces(packed: str) -> list[Piece]:
    """Read a packed list."""
    made: list[Piece] = []
    for value, text in jsontext.elements(packed):
        key = next((key for key in _KEYS if key in value), None)
        if key is None:
            made.append(text)
        else:
            first, end = (int(bound) for bound in value[key])
            made.append(Stretch(key, first, end))
    return made


def unpack_list(asked: Mapping[str, Sequence[str]], packed: str) -> list[str]:
    """Put the items of a packed list back, from the lists that were asked about."""
    made: list[str] = []
    for piece in pieces(packed):
        if isinstance(piece, Stretch):
            made.extend(asked[piece.key][piece.first : piece.end])
        else:
            made.append(piece)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What a merge made of the input. `stays`: positions that keep their place.

    `follows`, behind those and in this order: positions of the input, and texts of items that were in no list.
    """

    stays: tuple[int, ...]
    follows: tuple[int | str, ...]

    @property
    def moved(self) -> tuple[int, ...]:
        """List the positions that it put behind something else."""
        return tuple(one for one in self.follows if isinstance(one, int))

    @property
    def brought(self) -> int:
        """Count the items that it brought."""
        return len(self.follows) - len(self.moved)


def read_merge(answer_json: str) -> Merge:
    """Read a packed merge, without what it says of the history. What it says twice counts where it stands first."""
    order: list[int | str] = []
    for piece in pieces(required(members(answer_json), "input")[1]):
        if isinstance(piece, str):
            order.append(piece)
        elif piece.key == NEW:
            order.extend(at for at in range(piece.first, piece.end) if at not in order)
    stays: list[int] = []
    for one in order:
        if not isinstance(one, int) or (stays and one < stays[-1]):
            break
        stays.append(one)
    return Merge(stays=tuple(stays), follows=tuple(order[len(stays) :]))


def pack_input(asked: Sequence[str], answer_json: str) -> str:
    """Write a model input filter's answer for the log. Raises AnswerError."""
    answer = members(answer_json)
    packed = pack_list({KEPT: asked}, required(answer, "input")[1], "$.input")
    instructions = answer.get("instructions")
    said = "" if instructions is None else f'"instructions":{_instructions(instructions)},'
    return f'{{{said}"input":{packed}}}'


def unpack_input(given: ModelInput, packed_json: str) -> ModelInput:
    """Apply a packed answer to what was asked."""
    answer = members(packed_json)
    said = answer.get("instructions")
    return ModelInput(
        instructions=given.instructions if said is None else said[0],
        items=tuple(unpack_list({KEPT: given.items}, required(answer, "input")[1])),
    )


def _items(text: str, path: str) -> list[tuple[Any, str]]:
    try:
        return list(jsontext.elements(text))
    except JsonError:
        raise AnswerError(path, "must be a list of Responses API items") from None


def _instructions(said: tuple[Any, str]) -> str:
    value, text = said
    if value is not None and not (isinstance(value, str) and text.startswith('"')):
        raise AnswerError("$.instructions", "must be a text or null")
    return text


def _canonical(text: str) -> str:
    """Write an item in one way, numbers as they came: a client may have written it anew."""
    return json.dumps(json.loads(text, parse_int=_number, parse_float=_number), sort_keys=True, separators=(",", ":"))


def _number(text: str) -> dict[str, str]:
    return {"$number": text}


def _flush(packed: list[str], run: list[Any]) -> None:
    if run:
        packed.append(f'{{"{run[0]}":[{run[1]},{run[2]}]}}')
