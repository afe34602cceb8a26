"""Strategies: any value of the core that the wire carries. Some texts are on either side of the inline limit."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from baton_server.core import events, inputs, items
from baton_server.core.errors import Failure, Reason

LARGE = ("a" * 262_144, "b" * 262_145, "é" * 131_072, "ü" * 131_073)
"""Exactly at 262,144 bytes, and one character above, in ASCII and beside it."""

short = st.text(max_size=8)
texts = st.one_of(short, short, short, st.sampled_from(LARGE))
counts = st.integers(0, 2**31 - 1)
labels = st.dictionaries(short, short, max_size=2)
paths = st.lists(st.text(min_size=1, max_size=8), max_size=2).map(tuple)
digests = st.sampled_from(["", "0" * 64])
millis = st.integers(0, 600_000).map(lambda ms: ms / 1000)
json_texts = st.sampled_from(["{}", '{"a":[1,9007199254740993]}', '{"t":"' + "j" * 262_145 + '"}'])

failures = st.builds(Failure, reason=st.sampled_from(Reason), message=short, metadata=labels)
usages = st.builds(
    items.Usage, **dict.fromkeys((
        "requests", "input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "total_tokens",
    ), counts),
    raw_json=st.sampled_from(["", '{"total_tokens":3}']),
)  # fmt: skip

# -- items ---------------------------------------------------------------------------------------


def _sourced(kind: type, **rest: st.SearchStrategy[str]) -> st.SearchStrategy[items.ContentPart]:
    url = st.builds(kind, url=st.one_of(st.text(min_size=1, max_size=8), st.sampled_from(LARGE)), **rest)
    return st.one_of(url, st.builds(kind, file_id=short, **rest))


parts: st.SearchStrategy[items.ContentPart] = st.one_of(
    st.builds(items.TextPart, text=texts, annotations_json=st.sampled_from(["", "[{}]"]), is_json=st.booleans()),
    st.builds(items.RefusalPart, refusal=short),
    _sourced(items.ImagePart, detail=short),
    _sourced(items.FilePart, filename=short),
    st.builds(items.OtherPart, json=json_texts),
)
content = st.lists(parts, max_size=3).map(tuple)

body_kinds: tuple[st.SearchStrategy[items.ItemBody], ...] = (
    st.builds(items.Message, role=st.sampled_from(items.Role), content=content),
    st.builds(
        items.Reasoning,
        summary=st.lists(short, max_size=2).map(tuple),
        content=st.lists(short, max_size=2).map(tuple),
        encrypted_content=short,
    ),
    st.builds(
        items.FunctionCall,
        call_id=short,
        name=short,
        arguments=texts,
        model_call_id=short,
        idempotency_key=short,
    ),
    st.builds(
        items.FunctionCallOutput,
        call_id=short,
        name=short,
        output=content,
        settlement=st.one_of(st.none(), st.sampled_from(items.Settlement)),
        attempt=counts,
        worker_id=short,
        error=st.one_of(st.none(), failures),
        joined_call_id=short,
        custom_data_json=st.sampled_from(["", '{"row":7}']),
    ),
    st.builds(
        items.HandoffCall,
        call_id=short,
        name=short,
        to_agent=short,
        arguments=short,
        model_call_id=short,
    ),
    st.builds(items.HandoffOutput, call_id=short, from_agent=short, to_agent=short, output=short),
    st.builds(items.Hosted, type=short),
)
bodies = st.one_of(*body_kinds)


def items_of(bodies: st.SearchStrategy[items.ItemBody]) -> st.SearchStrategy[items.Item]:
    """Items of these bodies."""
    return st.builds(
        items.Item,
        item_id=short,
        turn_id=short,
        body=bodies,
        json=json_texts,
        agent=short,
        status=st.sampled_from(items.ItemStatus),
        output_index=st.one_of(st.none(), counts),
        model_item_id=short,
        run_path=paths,
    )


items_ = items_of(bodies)

# -- events --------------------------------------------------------------------------------------


def turns(*statuses: events.TurnStatus) -> st.SearchStrategy[events.TurnSnapshot]:
    """Turns of these statuses, any if none is named."""
    return st.builds(
        events.TurnSnapshot,
        turn_id=short,
        session_id=short,
        status=st.sampled_from(statuses or tuple(events.TurnStatus)),
        agent=short,
        last_agent=short,
        agent_digest=digests,
        run_config_digest=digests,
        request_id=short,
        rounds=counts,
        max_turns=st.one_of(st.none(), counts),
        usage=usages,
        failure=st.one_of(st.none(), failures),
        last_response_id=short,
        continues=short,
    ).flatmap(_with_output)


def _with_output(turn: events.TurnSnapshot) -> st.SearchStrategy[events.TurnSnapshot]:
    """Give a turn no output, a text, or JSON; of one that is omitted nothing says which of the two it is."""
    return st.one_of(
        st.just(turn),
        texts.map(lambda text: replace(turn, output=text)),
        st.sampled_from(["{}", "null", '["a"]']).map(lambda text: replace(turn, output=text, structured=True)),
    )


ids = st.lists(short, max_size=3).map(tuple)
bindings = st.builds(events.Binding, arguments_digest=digests, definition_digest=digests)
_call = {
    "call_id": short,
    "name": short,
    "agent": short,
    "arguments": texts,
    "key": st.text(min_size=1, max_size=8),
    "run_path": paths,
}
calls = st.one_of(
    st.builds(events.OpenCall, **_call, effect_unknown=st.booleans()),
    st.builds(events.OpenCall, **_call, awaiting=bindings),
)
decisions = st.builds(
    events.Decision,
    call_id=short,
    approve=st.booleans(),
    always=st.booleans(),
    always_in_session=st.booleans(),
    arguments_digest=digests,
    definition_digest=digests,
    decided_by=short,
    message=short,
)
hook_kinds = st.sampled_from(events.HookKind)

event_kinds: tuple[st.SearchStrategy[events.EventBody], ...] = (
    st.builds(events.SessionCreated, key=short, agent_digest=digests, metadata=labels),
    st.builds(events.SessionInProgress),
    st.builds(events.SessionRequiresAction, calls=st.lists(calls, max_size=2).map(tuple)),
    st.builds(events.SessionIdle),
    st.builds(events.SessionUpdated, paths=ids, agent_digest=digests),
    st.builds(events.TurnCreated, turn=turns(), carried_item_ids=ids),
    st.builds(events.TurnInProgress),
    st.builds(events.TurnEnded, turn=turns(*events.TERMINAL)),
    st.builds(events.CancelRequested, mode=st.sampled_from(events.CancelMode), reason=short),
    st.builds(events.ItemAdded, item=items_, in_history=st.booleans()),
    st.builds(events.ItemDone, item=items_, in_history=st.booleans()),
    st.builds(events.ItemsWithdrawn, item_ids=ids, reason=st.sampled_from(events.Withdrawal)),
    st.builds(
        events.RoundCompleted,
        model=short,
        response_id=short,
        usage=usages,
        duration_ms=counts,
        model_attempts=st.integers(1, 30),
    ),
    st.builds(events.ModelAttemptFailed, model_attempt=counts, failure=failures, retry_after_s=millis),
    st.builds(events.NestedRunCreated, call_id=short, agent=short),
    st.builds(
        events.NestedRunClosed, call_id=short, usage=usages, failure=st.one_of(st.none(), failures)
    ),
    st.builds(
        events.CallReturned,
        call_id=short,
        settlement=st.sampled_from(items.Settlement),
        output=content,
        attempt=counts,
        worker_id=short,
        error=st.one_of(st.none(), failures),
    ),
    st.builds(
        events.ApprovalRequested,
        call_id=short,
        binding=bindings,
        expires_s=st.one_of(st.none(), millis),
    ),
    st.builds(events.ApprovalDecided, decision=decisions, failure=st.one_of(st.none(), failures)),
    st.builds(events.AgentChanged, agent=short),
    st.builds(
        events.AttemptLost,
        call_id=short,
        attempt=counts,
        worker_id=short,
        next=st.sampled_from(events.AfterLoss),
    ),
    st.builds(events.EffectUnknown, call_id=short, attempt=counts, idempotency_key=short),
    st.builds(events.EffectDecided, call_id=short, decided_by=short),
    st.builds(
        events.GuardrailTripped,
        name=short,
        info_json=short,
        stage=st.sampled_from(events.Stage),
        verdict=st.sampled_from(events.Verdict),
        call_id=short,
    ),
    st.builds(
        events.HookSettled,
        hook_id=short,
        kind=hook_kinds,
        name=short,
        payload_digest=digests,
        answer_json=texts,
        worker_id=short,
    ),
    st.builds(
        events.HookSettled,
        hook_id=short,
        kind=hook_kinds,
        name=short,
        payload_digest=digests,
        failure=failures,
    ),
    st.builds(
        events.ResultDiscarded,
        call_id=short,
        attempt=counts,
        worker_id=short,
        failure=failures,
        result_digest=digests,
    ),
)  # fmt: skip


def events_of(bodies: st.SearchStrategy[events.EventBody]) -> st.SearchStrategy[events.Event]:
    """Events of these bodies, in any turn, run and round."""
    return st.builds(events.Event, body=bodies, turn_id=short, round=counts, run_path=paths)


events_ = events_of(st.one_of(*event_kinds))

# -- inputs --------------------------------------------------------------------------------------

new_items = st.builds(
    inputs.NewItem,
    body=bodies,
    json=json_texts,
    model_item_id=short,
    status=st.sampled_from(items.ItemStatus),
)
lists_of_items = st.lists(new_items, max_size=2).map(tuple)

input_kinds: tuple[st.SearchStrategy[inputs.Input], ...] = (
    st.builds(inputs.Begun, items=lists_of_items, carried=lists_of_items),
    st.builds(inputs.Steered, items=lists_of_items),
    st.builds(
        inputs.ModelReplied,
        round=counts,
        items=lists_of_items,
        response_id=short,
        model=short,
        usage=usages,
        incomplete_reason=short,
        duration_ms=counts,
        model_attempts=counts,
        run_path=paths,
    ),
    st.builds(
        inputs.ModelTried,
        round=counts,
        model_attempt=counts,
        failure=failures,
        retry_after_s=millis,
        run_path=paths,
    ),
    st.builds(
        inputs.ModelFailed, round=counts, failure=failures, model_attempts=counts, run_path=paths
    ),
    st.builds(
        inputs.CallSettled,
        call_id=short,
        settlement=st.sampled_from(items.Settlement),
        output=content,
        attempt=counts,
        worker_id=short,
        error=st.one_of(st.none(), failures),
        digest=digests,
        joined_call_id=short,
    ),
    st.builds(
        inputs.AttemptFailed,
        call_id=short,
        attempt=counts,
        worker_id=short,
        may_retry=st.booleans(),
        ask=st.booleans(),
        check=st.booleans(),
    ),
    st.builds(inputs.CallTimedOut, call_id=short),
    st.builds(inputs.CallExpired, call_id=short),
    st.builds(inputs.RedeliveryAsked, call_id=short, decided_by=short),
    st.builds(
        inputs.HookAnswered,
        hook_id=short,
        hook=hook_kinds,
        name=short,
        payload_digest=digests,
        answer_json=texts,
        failure=st.one_of(st.none(), failures),
        worker_id=short,
        ask=st.booleans(),
    ),
    st.builds(
        inputs.CancelAsked, mode=st.sampled_from(events.CancelMode), reason=short, grace_s=millis
    ),
    st.builds(inputs.CallsUnheld, call_ids=ids),
    st.builds(inputs.DecisionMade, decision=decisions, expired=st.booleans()),
    st.builds(inputs.TextCutOff, text=texts, run_path=paths),
    st.builds(inputs.Broken, failure=failures),
    st.builds(inputs.GraceOver),
)  # fmt: skip
