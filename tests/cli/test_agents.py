"""`baton agents`: files go in and come out, by name or id, with all revisions kept."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.cli.commands import House
from tests.support.observed_store import ObservedStore

from baton import Agent
from baton.v1 import agent_pb2
from baton_server.cli.commands.agents import AGENTS
from baton_server.cli.show.tables import table_lines
from baton_server.ports.store import Store

FILE = """\
name: Reviewer 漢
instructions: |
  Be brief.

  «Indented?»
    - Yes.
model: demo
tools:
- function:
    name: get_weather
    parameters_json: {type: object, properties: {city: {type: string, description: "a: b\\nc"}}}
"""


def file(folder: Path, text: str = FILE, name: str = "reviewer.yaml") -> str:
    """Write a file; returns its path."""
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


async def test_apply_makes_then_changes_then_leaves_alone(tmp_path: Path) -> None:
    """A new revision comes only where something changed; spaces are nothing."""
    async with House.opened(tmp_path) as house:
        created = await house.baton("agents", "apply", file(tmp_path))
        (kept,) = [one async for one in house.client.list_agents()]
        again = await house.baton("agents", "apply", file(tmp_path, FILE.replace("{type: object,", "{type:  object ,")))
        changed = await house.baton("agents", "apply", file(tmp_path, FILE.replace("Be brief", "Be short")), "--json")

        assert created.out == f"created {kept.agent_id} revision 1 (Reviewer 漢)\n"
        assert again.out == f"unchanged {kept.agent_id} revision 1 (Reviewer 漢)\n"
        assert (json.loads(changed.out)["agent_id"], json.loads(changed.out)["revision"]) == (kept.agent_id, "2")


async def test_what_show_prints_is_unchanged_when_applied(tmp_path: Path) -> None:
    """Whatever spaces the JSON of its parameters had; comments say which agent it was."""
    async with House.opened(tmp_path) as house:
        await house.baton("agents", "apply", file(tmp_path))
        spaced = agent_pb2.Agent(name="Spaced\x1b", instructions="Line one\r\nline two\u202e\n")
        spaced.tools.add().function.MergeFrom(
            agent_pb2.FunctionTool(name="f", parameters_json='{ "type" : "object", "minProperties": 1.0 }')
        )
        await house.client.create_agent(spaced)

        for name in ("Reviewer 漢", "Spaced\x1b"):
            shown = await house.baton("agents", "show", name)
            again = await house.baton("agents", "apply", "-", given=shown.out)

            assert shown.lines[0].startswith("# agent_")
            assert again.out.startswith("unchanged agent_")
            assert not {"\x1b", "\u202e", "\r"} & set(shown.out + again.out)


async def test_labels_stay_when_a_file_is_applied(tmp_path: Path) -> None:
    """A file has none: what somebody else put there is not lost."""
    async with House.opened(tmp_path) as house:
        kept = await house.client.create_agent(Agent(name="Reviewer 漢"), metadata={"team": "a"})

        await house.baton("agents", "apply", file(tmp_path))
        shown = await house.baton("agents", "show", kept.agent_id)

        assert "# label team=a" in shown.lines
        assert "revision 2" in shown.lines[0]


async def test_a_name_that_two_agents_have_is_refused(tmp_path: Path) -> None:
    """The ids are told; `--id` says which, also under another name."""
    async with House.opened(tmp_path) as house:
        one, two = [await house.client.create_agent(Agent(name="Reviewer 漢")) for _ in range(2)]

        unsure = await house.baton("agents", "apply", file(tmp_path), code=2)
        shown = await house.baton("agents", "show", "Reviewer 漢", code=2)
        renamed = file(tmp_path, FILE.replace("Reviewer 漢", "Critic"))
        sure = await house.baton("agents", "apply", renamed, "--id", one.agent_id)
        missing = await house.baton("agents", "apply", renamed, "--id", "agent_x", code=4)

        assert "say which with --id" in unsure.err
        assert all(kept.agent_id in text for kept in (one, two) for text in (unsure.err, shown.err))
        assert sure.out == f"updated {one.agent_id} revision 2 (Critic)\n"
        assert "agent_x" in missing.err


def test_a_narrow_terminal_cuts_no_name() -> None:
    """It is what the other commands take; a model's may be looked up."""
    row = [
        "agent_1234567890",
        "A reviewer of what others have written",
        "12",
        "provider/a-model-of-a-long-name",
        "3",
        "now",
    ]

    (_, line) = table_lines(AGENTS, [row], 60)

    assert row[0] in line and row[1] in line
    assert row[3] not in line


async def test_a_file_that_the_server_refuses_is_told_field_by_field(tmp_path: Path) -> None:
    """A line each, with file, field and value."""
    wrong = FILE.replace("get_weather", "get weather") + "model_settings: {temperature: 9}\n"
    async with House.opened(tmp_path) as house:
        ran = await house.baton("agents", "apply", file(tmp_path, wrong), code=1)
        no_agent = await house.baton("agents", "apply", file(tmp_path, "nam: x\nmodle: y"), code=2)

        first, second = ran.err.splitlines()
        assert "reviewer.yaml: tools[0].function.name is 'get weather', must be" in first
        assert "reviewer.yaml: model_settings.temperature is 9.0, must be 0 to 2" in second
        first, second = no_agent.err.splitlines()
        assert first.endswith("reviewer.yaml:1: nam is no field; did you mean 'name'?")
        assert second.endswith("reviewer.yaml:2: modle is no field; did you mean 'model'?")
        assert [one async for one in house.client.list_agents()] == []


async def test_an_agent_that_was_changed_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    """Nothing is overwritten; applying again is said to be safe, and is."""
    stores: list[ObservedStore] = []

    def observed(store: Store) -> Any:
        stores.append(ObservedStore(store))
        return stores[0]

    async with House.opened(tmp_path, around_store=observed) as house:
        kept = await house.client.create_agent(Agent(name="Reviewer 漢"))
        came, go = stores[0].hold(lambda batch: batch.agent is not None)
        applying = asyncio.create_task(house.baton("agents", "apply", file(tmp_path), code=1))
        await came.wait()
        await house.client.update_agent(kept.agent_id, Agent(name="Reviewer 漢", instructions="Mine."))
        go.set()
        ran = await applying

        assert f"{kept.agent_id} was changed by somebody else meanwhile, from revision 1 to 2" in ran.err
        assert "applying again is safe" in ran.err
        assert (await house.client.get_agent(kept.agent_id)).agent.instructions == "Mine."
        again = await house.baton("agents", "apply", file(tmp_path))
        assert again.out == f"updated {kept.agent_id} revision 3 (Reviewer 漢)\n"


async def test_revisions_are_listed_and_shown(tmp_path: Path) -> None:
    """Each can be looked at as it was, and put back by applying it."""
    async with House.opened(tmp_path) as house:
        await house.baton("agents", "apply", file(tmp_path))
        await house.baton("agents", "apply", file(tmp_path, FILE.replace("model: demo", "model: gpt-5")))
        here = ["agents", "show", "Reviewer 漢"]

        listed = await house.baton(*here, "--revisions")
        as_json = await house.baton(*here, "--revisions", "--json")
        first = await house.baton(*here, "--revision", "1")
        back = await house.baton("agents", "apply", "-", given=first.out)
        missing = await house.baton(*here, "--revision", "9", code=4)
        both = await house.baton(*here, "--revision", "1", "--revisions", code=2)

        assert [line.split()[0] for line in listed.lines] == ["REVISION", "2", "1"]
        assert "gpt-5" in listed.lines[1] and "get_weather" in listed.lines[1]
        assert [json.loads(line)["revision"] for line in as_json.lines] == ["2", "1"]
        assert "model: demo" in first.lines
        assert "revision 3" in back.out
        assert "revision 9" in missing.err and "exclude" in both.err


async def test_list_has_the_newest_revision_of_each(tmp_path: Path) -> None:
    """Whole ids; none is said on standard error."""
    async with House.opened(tmp_path) as house:
        empty = await house.baton("agents", "list")
        kept = await house.client.create_agent(Agent(name="A", model="demo"))

        listed = await house.baton("agents", "list")
        as_json = await house.baton("agents", "list", "--json")

        assert (empty.out, empty.err) == ("", "baton: no agent is kept; baton agents apply FILE keeps one\n")
        assert listed.lines[1].split()[:5] == [kept.agent_id, "A", "1", "demo", "0"]
        assert json.loads(as_json.out)["agent"] == {"name": "A", "model": "demo"}


async def test_delete_needs_yes_where_nobody_can_be_asked(tmp_path: Path) -> None:
    """By name or id, with all revisions."""
    async with House.opened(tmp_path) as house:
        kept = await house.client.create_agent(Agent(name="A"))

        unsure = await house.baton("agents", "delete", "A", code=2)
        sure = await house.baton("agents", "delete", "A", "--yes")
        again = await house.baton("agents", "delete", kept.agent_id, "--yes", code=4)
        empty = await house.baton("agents", "delete", "", "--yes", code=2)

        assert "say --yes" in unsure.err
        assert sure.out == f"deleted {kept.agent_id}\n"
        assert kept.agent_id in again.err and "AGENT is empty" in empty.err
