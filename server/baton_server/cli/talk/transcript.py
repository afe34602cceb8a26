"""What a person sees of a turn: parts of a stream become texts, lines and words about what goes on. Pure.

Theory of operation: fragments are put together by the client library (`Fragments`), which tells each piece of text
once and says when told text is void. Everything else is an event and becomes a line. What nested runs do becomes lines
further to the right, and their messages come whole: several of them may go on at once. What is returned is safe to be
written to a terminal; how it is written is the screen's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from baton import RawResponsesStreamEvent, ResponseResetEvent
from baton.runs.stream_events import Fragments
from baton.v1 import event_pb2, item_pb2
from baton_server.cli.show.event_lines import indented
from baton_server.cli.show.items import output_words
from baton_server.cli.show.texts import one_line, safe
from baton_server.cli.show.words import call_words, error_words, parts_text

THOUGHT = 300
"""Characters of the model's thoughts that are shown."""

Style = Literal["text", "call", "result", "failure", "note", "user"]


@dataclass(frozen=True, slots=True)
class Text:
    """More of what the model writes, behind what came before."""

    text: str


@dataclass(frozen=True, slots=True)
class End:
    """The message is over; the next thing begins on a line of its own."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of its own."""

    text: str
    style: Style


@dataclass(frozen=True, slots=True)
class Doing:
    """What goes on from now on, for who waits. Empty: nothing."""

    text: str


Shown = Text | End | Line | Doing

THINKING = Doing("thinking")
NOTHING = Doing("")

VOID = "the text above is void: the model is asked again"
UNFINISHED = "the text above was not finished, and is not kept"

_GOOD = frozenset({item_pb2.SETTLEMENT_OUTPUT, item_pb2.SETTLEMENT_OUTSIDE_OUTPUT})


class Transcript:
    """Turns the parts of one stream into what is shown of them. `own_input`: the user's messages are known already."""

    def __init__(self, *, own_input: bool) -> None:
        self._own_input = own_input
        self._turn = ""
        self._fragments = Fragments()
        self._writing = ""  # the item whose text was told last; empty: none is unfinished
        self._told: dict[str, str] = {}  # texts of this round whose message is not whole yet, by item
        self._open: dict[str, str] = {}  # names by call

    def feed(self, part: event_pb2.StreamPart) -> list[Shown]:
        """Take a part; say what is to be shown now. Large texts of messages must have been completed before."""
        match part.WhichOneof("part"):
            case "event" if part.event.run_path:
                return list(self._nested(part.event))
            case "event":
                return list(self._event(part.event))
            case "delta" | "reset" as arm if getattr(part, arm).run_path:
                return []
            case "delta":
                return list(self._pieces(self._of_turn(part.delta.turn_id).delta(part.delta)))
            case "reset":
                return list(self._pieces(self._of_turn(part.reset.turn_id).reset(part.reset)))
            case _:
                return []

    def _of_turn(self, turn_id: str) -> Fragments:
        """Begin anew with another turn: rounds are counted in each."""
        if turn_id != self._turn:
            self._turn, self._fragments, self._told = turn_id, Fragments(), {}
        return self._fragments

    # -- texts of the model ----------------------------------------------------------------------

    def _pieces(self, told: Iterator[RawResponsesStreamEvent]) -> Iterator[Shown]:
        for event in told:
            if isinstance(event.data, ResponseResetEvent):
                yield from self._void()
                yield THINKING
                continue
            item_id = event.data.item_id
            if self._writing != item_id:
                yield from self._end()
                self._writing = item_id
            self._told[item_id] = self._told.get(item_id, "") + event.data.delta
            yield Text(safe(event.data.delta))

    def _void(self) -> Iterator[Shown]:
        yield from self._end()
        yield Line(VOID, "note")
        self._told.clear()

    def _void_unless(self, holds: Callable[[str], bool]) -> Iterator[Shown]:
        """Say that told text is void, where the reply turns out to have none of an item's. `holds`: it still may.

        Whoever was away while the model was asked anew gets no reset for it: the reply is whole by then.
        """
        if not all(map(holds, self._told)):
            yield from self._void()

    def _end(self) -> Iterator[Shown]:
        if self._writing:
            self._writing = ""
            yield End()

    def _message(self, item: item_pb2.Item, round_number: int) -> Iterator[Shown]:
        if item.status == item_pb2.ITEM_STATUS_INCOMPLETE:
            yield from self._cut_off(item)
            return
        yield from self._void_unless(lambda told: told >= item.item_id)  # ids sort as the model sees the items
        yield from self._pieces(self._of_turn(item.turn_id).whole(item, round_number))
        yield from self._end()
        self._told.pop(item.item_id, None)
        other = [part for part in item.message.content if part.WhichOneof("part") != "text"]
        if other and item.status != item_pb2.ITEM_STATUS_REJECTED:
            yield Line(safe(parts_text(other)), "note")

    def _cut_off(self, item: item_pb2.Item) -> Iterator[Shown]:
        """Show what a cancel left: one item for all texts of the round, under an id of its own."""
        whole = parts_text(item.message.content)
        told = "".join(self._told.values())
        if whole.startswith(told):
            rest = whole[len(told) :]
        else:
            yield from self._end()
            rest = whole
        if rest:
            yield Text(safe(rest))
            self._writing = item.item_id
        yield from self._end()
        self._told.clear()

    # -- events ----------------------------------------------------------------------------------

    def _event(self, event: event_pb2.Event) -> Iterator[Shown]:
        match event.WhichOneof("event"):
            case "turn_created" if event.turn_created.turn.status == event_pb2.TURN_STATUS_QUEUED:
                yield Doing("queued: another turn of the session comes first")
            case "turn_in_progress":
                yield THINKING
            case "item_added":
                yield from self._added(event.item_added.item)
            case "item_done":
                yield from self._done(event.item_done.item, event.round)
            case "round_completed":
                yield from self._void() if self._told else self._end()
            case "attempt_lost":
                yield from self._lost(event.attempt_lost)
            case "model_attempt_failed":
                yield from self._end()
                yield Line(f"the model request failed ({error_words(event.model_attempt_failed.error)})", "note")
            case "guardrail_tripped":
                yield from self._end()
                yield Line(f"the guardrail {one_line(repr(event.guardrail_tripped.name))} tripped", "failure")
            case "approval_decided":
                yield from self._decided(event.approval_decided)
            case "cancel_requested":
                yield from self._end()
                yield Doing("cancelling")
            case "turn_completed" | "turn_failed" | "turn_cancelled" as arm:
                yield from self._over(arm)
            case _:
                pass

    def _added(self, item: item_pb2.Item) -> Iterator[Shown]:
        match item.WhichOneof("item"):
            case "message" if not self._own_input:
                yield from self._end()
                yield Line(f"> {safe(parts_text(item.message.content))}", "user")
            case "function_call":
                yield from self._called(item)
            case "function_call_output":
                yield from self._settled(item.function_call_output)
            case "handoff_output" if item.handoff_output.to_agent:  # one that was ignored changes nothing
                yield from self._end()
                yield Line(f"→ {one_line(item.handoff_output.to_agent)}", "call")
                yield THINKING
            case _:
                pass

    def _done(self, item: item_pb2.Item, round_number: int) -> Iterator[Shown]:
        match item.WhichOneof("item"):
            case "message":
                yield from self._message(item, round_number)
            case "reasoning" if item.reasoning.summary:
                yield from self._end()
                yield Line(f"({one_line(' '.join(item.reasoning.summary), THOUGHT)})", "note")
            case "hosted":
                yield from self._end()
                yield Line(f"→ {one_line(item.hosted.type)}", "call")
            case "function_call":  # of a reply over which the turn fails: nobody is asked for it
                yield from self._called(item)
            case _:
                pass

    def _called(self, item: item_pb2.Item) -> Iterator[Shown]:
        yield from self._void_unless(lambda told: told > item.item_id)
        yield from self._end()
        call = item.function_call
        if item.status == item_pb2.ITEM_STATUS_REJECTED:
            yield Line(f"→ {call_words(call)}: not called", "failure")
            return
        yield Line(f"→ {call_words(call)}", "call")
        self._open[call.call_id] = one_line(call.name)
        yield self._waiting()

    def _settled(self, output: item_pb2.FunctionCallOutput) -> Iterator[Shown]:
        yield from self._end()
        yield Line(f"← {output_words(output)}", "result" if output.settlement in _GOOD else "failure")
        self._open.pop(output.call_id, None)
        yield self._waiting() if self._open else THINKING

    def _decided(self, told: event_pb2.ApprovalDecided) -> Iterator[Shown]:
        yield from self._end()
        approved = told.decision.verdict == event_pb2.VERDICT_APPROVE
        name = self._open.get(told.decision.call_id, told.decision.call_id)
        if told.HasField("error"):
            yield Line(f"{name} is not allowed, since nobody decided in time", "failure")
        else:
            yield Line(f"{name} is {'allowed' if approved else 'not allowed'}", "note" if approved else "failure")

    def _nested(self, event: event_pb2.Event) -> Iterator[Shown]:
        """Show what happens in a nested run, further to the right by how deep it is."""
        margin = "  " * len(event.run_path)
        for one in self._in_nested(event):
            yield Line(f"{margin}{indented(one.text, len(margin))}", one.style) if isinstance(one, Line) else one

    def _in_nested(self, event: event_pb2.Event) -> Iterator[Shown]:
        match event.WhichOneof("event"):
            case "agent_changed":
                yield Line(f"→ {one_line(event.agent_changed.agent)}", "call")
            case "item_added" if event.item_added.item.WhichOneof("item") in ("function_call", "function_call_output"):
                yield from self._added(event.item_added.item)
            case "item_done" if event.item_done.item.HasField("message"):
                yield Line(safe(parts_text(event.item_done.item.message.content)), "text")
            case "item_done":
                yield from self._done(event.item_done.item, event.round)
            case "attempt_lost":
                yield from self._lost(event.attempt_lost)
            case "approval_decided":
                yield from self._decided(event.approval_decided)
            case _:
                pass

    def _waiting(self) -> Doing:
        return Doing(f"waiting for {', '.join(dict.fromkeys(self._open.values()))}")

    def _lost(self, lost: event_pb2.AttemptLost) -> Iterator[Shown]:
        name = self._open.get(lost.call_id, lost.call_id)
        if lost.next == event_pb2.AFTER_LOSS_REDELIVERED:
            yield from self._end()
            yield Line(f"the worker that had {name} is lost; the call goes to the next one", "note")

    def _over(self, arm: str) -> Iterator[Shown]:
        unfinished = bool(self._told)
        yield from self._end()
        if unfinished and arm == "turn_failed":
            yield Line(UNFINISHED, "note")
        self._told.clear()
        self._open.clear()
        yield NOTHING
