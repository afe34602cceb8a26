"""Agents written down in a file: `baton.v1.Agent`, as YAML or JSON, read and written.

A field whose name ends in `_json` holds text; in a file it may also be written out as what that text says, since
nobody likes JSON inside of YAML.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from baton.v1 import agent_pb2
from baton_server.cli.given.agent_fields import Fault, Steps, faults
from baton_server.cli.show.texts import safe

MOST_FAULTS = 20
"""That are told of one file."""

WIDTH = 1000
"""Columns after which a text is folded; nobody writes such lines, and folded ones are hard to compare."""


class WrongAgentFile(Exception):
    """The file holds no agent. `args`: what is wrong and where, a line for each."""


# -- reading -------------------------------------------------------------------------------------


def read_agent_file(path: Path) -> agent_pb2.Agent:
    """Read an agent. Fields are named as in the contract, `parameters_json` or `parametersJson`.

    Raises WrongAgentFile; what the server alone can judge is left to it.
    """
    try:
        return read_agent(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise WrongAgentFile(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise WrongAgentFile(f"{path} is no UTF-8 text: {error.reason} at byte {error.start}") from None


def read_agent(text: str, name: str) -> agent_pb2.Agent:
    """Read an agent from a text; `name` is how messages call it. Raises WrongAgentFile."""
    written = _parsed(text, name)
    if not isinstance(written, Mapping):
        raise WrongAgentFile(f"{name} holds {_kind(written)}; write an agent: name, instructions, tools")
    try:
        texts = _texts(written)
        wrong = [f"{_place(name, text, fault.path)}: {fault.where} {fault.problem}" for fault in _faults(texts)]
        if wrong:
            raise WrongAgentFile(*wrong)
        return ParseDict(texts, agent_pb2.Agent())
    except ParseError as error:
        raise WrongAgentFile(f"{name} is no agent (baton.v1.Agent): {_one_line(error)}") from None
    except (TypeError, ValueError, RecursionError) as error:  # of _texts: a value that JSON cannot say
        raise WrongAgentFile(f"{name} holds what JSON cannot say: {error}") from None


def _faults(texts: dict[str, Any]) -> Iterator[Fault]:
    return islice(faults(texts, agent_pb2.Agent.DESCRIPTOR), MOST_FAULTS)


def _place(name: str, text: str, path: Steps) -> str:
    """Say a file and the line of a path in it; the file alone where that cannot be found, as in JSON with tabs."""
    try:
        node = yaml.compose(text, _Loader)
    except yaml.YAMLError:
        return name
    line = 0
    for part in path:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == part), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            found = (node.value[part],) * 2
        else:
            found = None
        if found is None:  # it came in by a merge
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return f"{name}:{line}" if line else name


def _parsed(text: str, name: str) -> Any:
    """Parse JSON where it is JSON: YAML takes nearly all of that, but neither tabs nor all escapes."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as no_json:
        if isinstance(no_json, _Twice):
            raise WrongAgentFile(f"{name} {no_json}") from None
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise WrongAgentFile(f"{name} is neither YAML nor JSON: {_one_line(error)}") from None


class _Twice(ValueError):
    """A key stands twice in one mapping, and one of its values would be lost in silence."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        keys = [key for key, _ in pairs]
        raise _Twice(f"has the key {next(key for key in keys if keys.count(key) > 1)!r} twice in one object")
    return made


class _Loader(yaml.SafeLoader):
    """Reads YAML as JSON with less to type: no dates, no key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Make a mapping. Raises ConstructorError where a key stands twice."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} stands twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _texts(value: Any, name: str = "") -> Any:
    """Make texts of what stands written out in fields of JSON text."""
    if name.endswith(("_json", "Json")) and not isinstance(value, str):
        return _json(value)
    if isinstance(value, Mapping):
        return {str(key): _texts(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_texts(inner) for inner in value]
    return value


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


# -- writing -------------------------------------------------------------------------------------


def write_agent(agent: agent_pb2.Agent) -> str:
    """Write an agent as YAML, parameters written out; reading it gives the same agent. Fit for a terminal."""
    written = MessageToDict(agent, preserving_proto_field_name=True)
    for tool in written.get("tools", ()):
        function = tool.get("function", {})
        if "parameters_json" in function:
            function["parameters_json"] = _written_out(function["parameters_json"])
    text = yaml.dump(written, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    if same_agent(read_agent(text, "the text just written"), agent):
        return text
    # Some text that YAML cannot say: JSON, with everything escaped, can.
    return json.dumps(MessageToDict(agent, preserving_proto_field_name=True), indent=2) + "\n"


def same_agent(one: agent_pb2.Agent, other: agent_pb2.Agent) -> bool:
    """Tell whether two agents are the same, however the JSON texts in them are spaced."""
    return _respaced(one) == _respaced(other)


def _respaced(agent: agent_pb2.Agent) -> agent_pb2.Agent:
    made = agent_pb2.Agent()
    made.CopyFrom(agent)
    for tool in made.tools:
        value = _written_out(tool.function.parameters_json)
        if not isinstance(value, str):
            tool.function.parameters_json = _json(value)
    return made


def _written_out(text: str) -> Any:
    """Parse a JSON object or array; the text itself where it is neither, or says more than it can be written as."""
    try:
        value = json.loads(text, object_pairs_hook=_unique)
        _json(value)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict | list) else text


class _Dumper(yaml.SafeDumper):
    """Writes YAML as a person would, and nothing that would drive a terminal."""

    def write_double_quoted(self, text: str, split: bool = True) -> None:
        """Write a text in quotes; one that is not safe, with all but ASCII escaped."""
        kept = self.allow_unicode
        self.allow_unicode = bool(kept) and safe(text) == text
        super().write_double_quoted(text, split)
        self.allow_unicode = kept

    def ignore_aliases(self, data: Any) -> bool:
        """Write everything out, also what is the same object."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if safe(text) != text else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
