"""Strategies: any value of the core that the wire carries. Some texts are on either side of the inline limit."""

from __future__ import annotations

from hypothesis import strategies as st

from baton_server.core import agents, events, inputs, items
from baton_server.core.errors import Failure, Reason

LARGE = ("a" * 262_144, "b" * 262_145, "é" * 131_072, "ü" * 131_073)
"""Exactly at 262,144 bytes, and one character above, in ASCII and beside it."""

short = st.text(max_size=8)
texts = st.one_of(short, short, short, st.sampled_from(LARGE))
counts = st.integers(0, 2**31 - 1)
labels = st.dictionaries(short, short, max_size=2)
digests = st.sampled_from(["", "0" * 64])
millis = st.integers(0, 600_000).map(lambda ms: ms / 1000)
json_texts = st.sampled_from(["{}", '{"a":[1,9007199254740993]}', '{"t":"' + "j" * 262_145 + '"}'])

failures = st.builds(Failure, reason=st.sampled_from(Reason), message=short, metadata=labels)
usages = st.builds(
    items.Usage, **dict.fromkeys((
        "requests", "input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "total_tokens",
    ), counts)
)  # fmt: skip

# -- items ---------------------------------------------------------------------------------------


def _sourced(kind: type, **rest: st.SearchStrategy[str]) -> st.SearchStrategy[items.ContentPart]:
    url = st.builds(kind, url=st.one_of(st.text(min_size=1, max_size=8), st.sampled_from(LARGE)), **rest)
    return st.one_of(url, st.builds(kind, file_id=short, **rest))


parts: st.SearchStrategy[items.ContentPart] = st.one_of(
    st.builds(items.TextPart, text=texts, annotations_json=st.sampled_from(["", "[{}]"])),
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
    ),
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
        output=st.one_of(st.none(), texts),
        failure=st.one_of(st.none(), failures),
        last_response_id=short,
    )


ids = st.lists(short, max_size=3).map(tuple)
calls = st.builds(
    events.OpenCall,
    call_id=short,
    name=short,
    agent=short,
    arguments=texts,
    key=st.text(min_size=1, max_size=8),
    effect_unknown=st.booleans(),
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
    st.builds(events.ItemsWithdrawn, item_ids=ids),
    st.builds(
        events.RoundCompleted, model=short, response_id=short, usage=usages, duration_ms=counts
    ),
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
    st.builds(events.GuardrailTripped, name=short, info_json=short),
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
    """Events of these bodies, in any turn and round."""
    return st.builds(events.Event, body=bodies, turn_id=short, round=counts)


events_ = events_of(st.one_of(*event_kinds))

# -- agents --------------------------------------------------------------------------------------

_said = st.text(min_size=1, max_size=8)
settings = st.builds(
    agents.ModelSettings,
    temperature=st.one_of(st.none(), st.floats(0, 2)),
    top_p=st.one_of(st.none(), st.floats(0, 1)),
    tool_choice=st.one_of(st.none(), _said),
    parallel_tool_calls=st.one_of(st.none(), st.booleans()),
    truncation=st.one_of(st.none(), _said),
    max_tokens=st.one_of(st.none(), st.integers(1, 2**31 - 1)),
    reasoning_effort=st.one_of(st.none(), _said),
    reasoning_summary=st.one_of(st.none(), _said),
    verbosity=st.one_of(st.none(), _said),
    metadata=st.one_of(st.none(), st.dictionaries(short, short, min_size=1, max_size=2)),
    store=st.one_of(st.none(), st.booleans()),
)
executions = st.builds(
    agents.Execution,
    timeout_s=st.one_of(st.none(), millis),
    expires_s=st.one_of(st.none(), millis),
    lost_worker=st.one_of(st.none(), st.sampled_from(agents.LostWorker)),
    max_attempts=st.one_of(st.none(), st.integers(1, 100)),
    idempotency_fields=ids,
)


def _functions(**on_timeout: st.SearchStrategy[object]) -> st.SearchStrategy[agents.FunctionTool]:
    return st.builds(
        agents.FunctionTool,
        name=short,
        description=short,
        parameters_json=short,
        strict=st.one_of(st.none(), st.booleans()),
        execution=executions,
        handler_version=short,
        **on_timeout,
    )


functions = st.one_of(_functions(), _functions(timeout_text=_said), _functions(timeout_fails_turn=st.just(True)))
refs = st.builds(agents.HookRef, name=short, timeout_s=st.one_of(millis, st.just(agents.DEFAULT_HOOK_TIMEOUT_S)))
guardrails = st.lists(st.builds(agents.Guardrail, name=short, hook=refs, blocking=st.booleans()), max_size=2).map(tuple)
lifecycle_hooks = st.builds(
    agents.LifecycleHook,
    hook=refs,
    moments=st.lists(st.sampled_from(agents.Moment), max_size=3).map(tuple),
)
agents_ = st.builds(
    agents.Agent,
    name=short,
    instructions=st.one_of(st.none(), short),
    model=short,
    model_settings=settings,
    functions=st.lists(functions, max_size=2).map(tuple),
    input_guardrails=guardrails,
)
configs = st.builds(
    agents.RunConfig,
    max_turns=st.one_of(st.none(), counts),
    unlimited_turns=st.booleans(),
    model=short,
    model_settings=settings,
    history=st.one_of(st.none(), st.sampled_from(agents.History)),
    tracing=st.one_of(
        st.none(),
        st.builds(agents.Tracing, disabled=st.booleans(), workflow_name=short, group_id=short, metadata=labels),
    ),
    unserved_grace_s=st.one_of(st.none(), millis),
    scopes=ids,
    input_guardrails=guardrails,
    model_input_filters=st.lists(refs, max_size=2).map(tuple),
    lifecycle_hooks=st.lists(lifecycle_hooks, max_size=2).map(tuple),
)

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
    st.builds(inputs.Begun, items=lists_of_items),
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
    ),
    st.builds(inputs.ModelFailed, round=counts, failure=failures),
    st.builds(
        inputs.CallSettled,
        call_id=short,
        settlement=st.sampled_from(items.Settlement),
        output=content,
        attempt=counts,
        worker_id=short,
        error=st.one_of(st.none(), failures),
        digest=digests,
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
    st.builds(inputs.TextCutOff, text=texts),
    st.builds(inputs.GraceOver),
)  # fmt: skip
