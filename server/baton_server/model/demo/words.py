"""Words: how the demo model finds names, numbers and subjects in a sentence. English, content with little."""

from __future__ import annotations

import re

# Words that say nothing of what is asked: they name no function and are no argument.
_FILLERS = """
a about again all also am an and any are as at be both by can could current currently do does for from get give
have hello hey hi how i if in into is it its just let like make many may me much my need no not now of ok on one
or our out over please so some than thank the their them then there these they this those that to today tomorrow
tonight us use using want was we what when where which who why will with would yes you your
"""

# Words that name a function only if nothing better does.
_VERBS = "add ask call check compare create explain fetch find help list look read run say send set show tell"

# Words at the edges of what is asked, "for the … please".
_EDGES = "a about an at by for from if in is it me now of on please tell thank that the to today what with"

_IS_FILLER, _IS_VERB, _IS_EDGE = (frozenset(text.split()) for text in (_FILLERS, _VERBS, _EDGES))

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_TOKEN = re.compile(r"[^\s,;!?()\"]+")
_NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:\.\d+)?(?!\w)")
_QUOTED = re.compile(r"\"([^\"]+)\"|“([^”]+)”|«([^»]+)»|(?<!\w)'([^']+)'(?!\w)")


def stems(text: str) -> frozenset[str]:
    """Return the words of a text or of a name (`get_order`, `getOrder`), lower case and singular."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text.replace("_", " ").replace("-", " "))
    return frozenset(_stem(word) for word in _WORD.findall(parted))


def telling(words: frozenset[str]) -> frozenset[str]:
    """Keep the words that say something."""
    return words - _IS_FILLER


def nouns(words: frozenset[str]) -> frozenset[str]:
    """Keep the words that say something and are no common verb."""
    return words - _IS_FILLER - _IS_VERB


def numbers(text: str) -> list[float]:
    """Return the numbers that stand alone in a text, in order."""
    return [float(number) for number in _NUMBER.findall(text)]


def subjects(text: str, besides: frozenset[str]) -> list[str]:
    """Return what a text is about, in order: quoted words, numbers of orders and addresses, else capitals.

    `besides`: stems that are no subjects.
    """
    found = [(match.start(), next(filter(None, match.groups())).strip()) for match in _QUOTED.finditer(text)]
    bare = _QUOTED.sub(lambda match: " " * len(match[0]), text)
    found += [(match.start(), match[0].rstrip(".:")) for match in _TOKEN.finditer(bare) if _is_code(match[0])]
    return _once([subject for _, subject in sorted(found)]) or _once(_capitalised(text, besides))


def remainder(text: str, besides: frozenset[str]) -> str:
    """Return the last quoted words, else what follows the function's own, else the telling ones, else ""."""
    quoted = _QUOTED.findall(text)
    if quoted:
        return str(next(filter(None, quoted[-1]))).strip()
    found = list(_WORD.finditer(text))
    last = max((i for i, word in enumerate(found) if _stem(word[0]) in besides), default=-1)
    rest = found[last + 1 :]
    while rest and _stem(rest[0][0]) in _IS_EDGE:
        rest.pop(0)
    while rest and _stem(rest[-1][0]) in _IS_EDGE:
        rest.pop()
    if rest:
        return text[rest[0].start() : rest[-1].end()]
    return " ".join(word[0] for word in found if _stem(word[0]) not in besides | _IS_FILLER | _IS_VERB)


def _capitalised(text: str, besides: frozenset[str]) -> list[str]:
    names: list[str] = []
    end = -1
    for word in _WORD.finditer(text):
        if not word[0][0].isupper() or _stem(word[0]) in besides | _IS_FILLER | _IS_VERB:
            continue
        joined = end >= 0 and text[end : word.start()] == " "
        names[-1:] = [f"{names[-1]} {word[0]}"] if joined else [*names[-1:], word[0]]
        end = word.end()
    return names


def _is_code(token: str) -> bool:
    """Tell an order number, an e-mail address or a link from a word."""
    is_mixed = any(map(str.isalpha, token)) and any(map(str.isdigit, token))
    return is_mixed or "@" in token[1:-1] or "://" in token


def _stem(word: str) -> str:
    word = word.lower().replace("’", "'").removesuffix("'s").partition("'")[0]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _once(texts: list[str]) -> list[str]:
    return list(dict.fromkeys(texts))
