"""Agents in files: what is read, what is refused and how, and that what is written reads as the same agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baton.v1 import agent_pb2
from baton_server.cli.given.agent_file import WrongAgentFile, read_agent, read_agent_file, same_agent, write_agent
from baton_server.cli.show.texts import safe

WRITTEN = """\
name: Guide 漢
instructions: |
  Be brief.

    «Indented.»
model_settings:
  temperature: 0.2
tools:
- function:
    name: get_weather
    parameters_json:
      type: object
      properties:
        city:
          type: string
          enum:
          - 2024-01-01
          - 'no'
"""

TEXTS = st.text(st.characters(codec="utf-8"), max_size=30) | st.text(
    st.sampled_from(" \n\t\r:#-'\"|>é漢\x1b\u202e\x85\u2028=~yesnoNull0x1."), max_size=20
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(
    name=TEXTS,
    instructions=TEXTS,
    parameters=st.dictionaries(TEXTS, JSON, max_size=3),
    indent=st.sampled_from([None, 2]),
)
@settings(max_examples=200, deadline=None)
def test_what_is_written_reads_as_the_same_agent(
    name: str, instructions: str, parameters: dict[str, object], indent: int | None
) -> None:
    """Whatever texts and schemas it has; and nothing that is written drives a terminal."""
    agent = agent_pb2.Agent(name=name, instructions=instructions)
    text = json.dumps(parameters, ensure_ascii=False, indent=indent)
    agent.tools.add().function.MergeFrom(agent_pb2.FunctionTool(name="f", description=name, parameters_json=text))

    written = write_agent(agent)

    assert same_agent(read_agent(written, "it"), agent)
    assert safe(written) == written


def test_an_agent_is_written_as_a_person_would() -> None:
    """Lines as lines, letters as letters, parameters written out in their order."""
    agent = read_agent(WRITTEN, "it")

    assert write_agent(agent) == WRITTEN.replace("- 2024-01-01", "- '2024-01-01'")
    assert agent.instructions == "Be brief.\n\n  «Indented.»\n"
    parameters = json.loads(agent.tools[0].function.parameters_json)
    assert parameters["properties"]["city"]["enum"] == ["2024-01-01", "no"]


def test_spaces_in_json_make_no_other_agent_but_values_do() -> None:
    """Parameters are compared by what they say: a number is no text, and true is no number."""

    def agent(parameters: str) -> agent_pb2.Agent:
        made = agent_pb2.Agent(name="A")
        made.tools.add().function.parameters_json = parameters
        return made

    assert same_agent(agent('{"a": 1}'), agent('{"a":1}'))
    assert not same_agent(agent('{"a":1}'), agent('{"a":"1"}'))
    assert not same_agent(agent('{"a":1}'), agent('{"a":true}'))
    assert not same_agent(agent('{"a":1,"b":2}'), agent('{"b":2,"a":1}'))


def test_json_is_read_as_json() -> None:
    """Also where it is no YAML: tabs, and letters in two escapes."""
    agent = read_agent(
        '{\n\t"name": "\\ud83d\\ude00",\n\t"tools": [{"function": {"name": "f", "parametersJson": {}}}]\n}', "it"
    )

    assert agent.name == "😀"
    assert agent.tools[0].function.parameters_json == "{}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it holds nothing; write an agent"),
        ("- a", "it holds a list; write an agent"),
        ("name: [", "it is neither YAML nor JSON"),
        ("name: a\nname: b", "'name' stands twice"),
        ('{"name": "a", "name": "b"}', "has the key 'name' twice"),
        ("name: a\n---\nname: b", "expected a single document"),
        ("nam: a", "it:1: nam is no field; did you mean 'name'?"),
        ("name: a\nfoo_bar: 1", "it:2: foo_bar is no field; there are name, instructions, instructions_hook, "),
        ("tools:\n- function:\n    parametersjson: {}", "it:3: tools[0].function.parametersjson is no field; did you"),
        ("tools: 5", "it:1: tools must be a list, not 5"),
        ("name: [a]", "it:1: name must be a text, not a list"),
        ("tools:\n- null", "it:2: tools[0] must be a mapping of function, agent, hosted, tool_search, not nothing"),
        ("handoffs: [billing]", "it:1: handoffs[0] must be a mapping of agent, tool_name, "),
        ("tools:\n- function: {}\n  agent: {}", "it:3: tools[0].agent excludes 'function', which stands there too"),
        ("keep_tool_choice: 'no'", "it:1: keep_tool_choice must be true or false, not 'no'"),
        ("model_settings:\n  temperature: hot", "it:2: model_settings.temperature must be a number, not 'hot'"),
        ("model_settings: {metadata: {a: 1}}", "it:1: model_settings.metadata.a must be a text, not 1"),
        ("tools: [{function: {execution: {timeout: 5}}}]", 'execution.timeout must be a duration such as "5s", not 5'),
        ("tools: [{function: {execution: {lost_worker: X}}}]", "must be one of LOST_WORKER_REDELIVER, LOST_WORKER_ASK"),
        ('{\n\t"nmae": "a"\n}', "it: nmae is no field; did you mean 'name'?"),
        ("name: a\n<<: {nmae: b}", "it: nmae is no field; did you mean 'name'?"),
        ("tools: [{function: {name: f, parameters_json: {default: .inf}}}]", "what JSON cannot say"),
        ("tools: &t [{function: {name: f, parameters_json: {x: *t}}}]", "what JSON cannot say"),
        ("a: &a [*a]", "what JSON cannot say"),
        ("a: 0b_", "it is neither YAML nor JSON"),
        ("!!python/object:os.system x", "could not determine a constructor"),
    ],
)
def test_what_is_no_agent_is_told_in_one_line(text: str, said: str) -> None:
    """Whatever is wrong with it; nothing is passed over."""
    with pytest.raises(WrongAgentFile) as raised:
        read_agent(text, "it")

    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_every_wrong_field_has_a_line() -> None:
    """In the order of the file, so that it is mended at once; of the first twenty."""
    wrong = "".join(f"field{number}: 1\n" for number in range(30))

    with pytest.raises(WrongAgentFile) as raised:
        read_agent(f"name: 5\n{wrong}", "it")

    assert [said.partition(" ")[0] for said in raised.value.args] == [f"it:{line}:" for line in range(1, 21)]


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """By its name, and where it is no text."""
    (tmp_path / "agent.yaml").write_bytes(b"name: \xff")

    with pytest.raises(WrongAgentFile, match=r"none\.yaml cannot be read: No such file"):
        read_agent_file(tmp_path / "none.yaml")
    with pytest.raises(WrongAgentFile, match=r"agent\.yaml is no UTF-8 text: invalid start byte at byte 6"):
        read_agent_file(tmp_path / "agent.yaml")
