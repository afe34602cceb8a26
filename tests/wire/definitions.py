"""Strategies: any agent, graph and run configuration of the core, as the wire carries them."""

from __future__ import annotations

from hypothesis import strategies as st
from tests.wire.values import counts, ids, labels, millis, short

from baton_server.core import agents, run_config, settings, tools

said = st.text(min_size=1, max_size=8)
flags = st.booleans()


def maybe(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """A value, or None."""
    return st.one_of(st.none(), values)


def few(values: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    """None to two of them."""
    return st.lists(values, max_size=2).map(tuple)


# -- pieces --------------------------------------------------------------------------------------

refs = st.builds(tools.HookRef, name=short, timeout_s=st.one_of(millis, st.just(tools.DEFAULT_HOOK_TIMEOUT_S)))
_terms = st.builds(tools.Terms, terms=ids, case_sensitive=flags, allow=flags)
_checks = st.one_of(refs, _terms)
_guardrails = few(st.builds(agents.Guardrail, name=short, check=_checks, blocking=flags))
_tool_guardrails = few(st.builds(tools.ToolGuardrail, name=short, check=_checks, message=short))
_lifecycle_hooks = few(
    st.builds(
        agents.LifecycleHook,
        hook=refs,
        moments=st.lists(st.sampled_from(agents.Moment), max_size=3).map(tuple),
        awaited=flags,
    )
)
_filters = few(
    st.one_of(
        refs,
        st.builds(agents.KeepLast, items=counts),
        st.builds(agents.TrimOutputs, recent_messages=counts, max_chars=counts, preview_chars=counts, functions=ids),
        st.builds(agents.TrimOutputs),
        st.builds(agents.RemoveAllTools),
    )
)
_approvals = st.one_of(
    st.builds(tools.Approval, always=flags, expires_s=maybe(millis)),
    st.builds(tools.Approval, hook=refs, expires_s=maybe(millis)),
)
_enabled = st.one_of(st.builds(tools.Enabled, always=flags), st.builds(tools.Enabled, hook=refs))
_failure_texts = st.one_of(
    st.builds(tools.FailureText),
    st.builds(tools.FailureText, text=said),
    st.builds(tools.FailureText, hook=refs),
    st.builds(tools.FailureText, fail_turn=st.just(True)),
)

# -- settings ------------------------------------------------------------------------------------

_pairs = maybe(st.dictionaries(short, short, min_size=1, max_size=2))
_flat_rules = st.one_of(
    st.builds(
        settings.RetryRule,
        kind=st.sampled_from(
            [
                settings.RetryKind.PROVIDER_SUGGESTED,
                settings.RetryKind.NETWORK_ERROR,
                settings.RetryKind.RETRY_AFTER,
            ]
        ),
    ),
    st.builds(
        settings.RetryRule,
        kind=st.just(settings.RetryKind.HTTP_STATUS),
        statuses=st.lists(st.integers(400, 599), max_size=3).map(tuple),
    ),
    st.builds(settings.RetryRule, kind=st.just(settings.RetryKind.HOOK), hook=refs),
)
_rules = st.recursive(
    _flat_rules,
    lambda inner: st.builds(
        settings.RetryRule,
        kind=st.sampled_from([settings.RetryKind.ANY, settings.RetryKind.ALL]),
        rules=st.lists(inner, max_size=2).map(tuple),
    ),
    max_leaves=3,
)
_retries = st.builds(
    settings.RetrySettings,
    max_retries=maybe(counts),
    initial_delay_s=maybe(millis),
    max_delay_s=maybe(millis),
    multiplier=maybe(st.floats(1, 9)),
    jitter=maybe(flags),
    rule=maybe(_rules),
)
model_settings = st.builds(
    settings.ModelSettings,
    temperature=maybe(st.floats(0, 2)),
    top_p=maybe(st.floats(0, 1)),
    frequency_penalty=maybe(st.floats(-2, 2)),
    presence_penalty=maybe(st.floats(-2, 2)),
    tool_choice=maybe(said),
    parallel_tool_calls=maybe(flags),
    truncation=maybe(said),
    max_tokens=maybe(counts),
    reasoning_effort=maybe(said),
    reasoning_summary=maybe(said),
    verbosity=maybe(said),
    metadata=_pairs,
    store=maybe(flags),
    prompt_cache_retention=maybe(said),
    include_usage=maybe(flags),
    response_include=ids,
    top_logprobs=maybe(counts),
    extra_query=_pairs,
    extra_body_json=short,
    extra_headers=_pairs,
    extra_args_json=short,
    retry=_retries,
    context_management_json=short,
    prompt_cache_options_json=short,
    preserve_raw_usage=maybe(flags),
    timeout_s=maybe(millis),
)

# -- tools and agents ----------------------------------------------------------------------------

_executions = st.builds(
    tools.Execution,
    timeout_s=maybe(millis),
    expires_s=maybe(millis),
    lost_worker=maybe(st.sampled_from(tools.LostWorker)),
    max_attempts=maybe(st.integers(1, 100)),
    idempotency_fields=ids,
)
functions = st.builds(
    tools.FunctionTool,
    name=short,
    description=short,
    parameters_json=short,
    strict=maybe(flags),
    defer_loading=flags,
    approval=_approvals,
    enabled=_enabled,
    execution=_executions,
    input_guardrails=_tool_guardrails,
    output_guardrails=_tool_guardrails,
    on_crash=_failure_texts,
    on_timeout=_failure_texts,
    custom_data=maybe(refs),
    handler_version=short,
)
agent_tools = st.builds(
    tools.AgentTool,
    name=said,
    agent=short,
    description=short,
    parameters_json=short,
    input_builder=maybe(refs),
    output_extractor=maybe(refs),
    max_turns=maybe(counts),
    approval=_approvals,
    enabled=_enabled,
    on_crash=_failure_texts,
)
tools_ = st.one_of(functions, agent_tools, st.builds(tools.HostedTool, tool_json=short), st.builds(tools.ToolSearch))
_handoffs = st.builds(
    agents.Handoff,
    name=said,
    agent=short,
    description=short,
    input_schema_json=short,
    on_handoff=maybe(refs),
    input_filters=_filters,
    nest_history=maybe(flags),
    enabled=_enabled,
)
_behaviors = st.one_of(
    st.builds(agents.ToolUseBehavior),
    st.builds(agents.ToolUseBehavior, stop_on_first=st.just(True)),
    st.builds(agents.ToolUseBehavior, stop_at=st.lists(short, min_size=1, max_size=2).map(tuple)),
    st.builds(agents.ToolUseBehavior, hook=refs),
)
_lone_fields = {
    "name": short,
    "model": short,
    "model_settings": model_settings,
    "tools": few(tools_),
    "handoffs": few(_handoffs),
    "handoff_description": short,
    "output_schema": maybe(st.builds(agents.OutputSchema, name=said, schema_json=short, strict=flags)),
    "input_guardrails": _guardrails,
    "output_guardrails": _guardrails,
    "tool_use": _behaviors,
    "keep_tool_choice": flags,
    "lifecycle_hooks": _lifecycle_hooks,
}
lone_agents = st.one_of(
    st.builds(agents.Agent, **_lone_fields, instructions=maybe(short)),
    st.builds(agents.Agent, **_lone_fields, instructions_hook=refs),
)
graphs = st.builds(agents.Agent, **_lone_fields, agents=few(lone_agents))

# -- run configurations --------------------------------------------------------------------------

_limits = maybe(counts)
_histories = st.one_of(
    st.builds(run_config.History, limit=_limits),
    st.builds(run_config.History, mode=st.just(run_config.HistoryMode.CALLER)),
    st.builds(run_config.History, mode=st.just(run_config.HistoryMode.CONVERSATION), id=short),
    st.builds(run_config.History, mode=st.just(run_config.HistoryMode.RESPONSE), id=short, auto=flags),
    st.builds(run_config.History, mode=st.just(run_config.HistoryMode.STORED), limit=_limits, store=refs),
)
_handlers = maybe(
    st.one_of(
        st.builds(run_config.ErrorHandler, hook=refs),
        st.builds(run_config.ErrorHandler, output=short, include_in_history=flags),
        st.builds(run_config.ErrorHandler, output_json=short, include_in_history=flags),
    )
)
configs = st.builds(
    run_config.RunConfig,
    max_turns=maybe(counts),
    unlimited_turns=flags,
    model=short,
    model_provider=short,
    model_settings=model_settings,
    history=maybe(_histories),
    session_input=maybe(refs),
    input_guardrails=_guardrails,
    output_guardrails=_guardrails,
    handoff_input_filters=_filters,
    nest_handoff_history=maybe(flags),
    handoff_history=maybe(
        st.builds(run_config.HandoffHistory, mapper=maybe(refs), start_marker=short, end_marker=short)
    ),
    model_input_filters=_filters,
    reasoning_item_ids=maybe(st.sampled_from(run_config.ReasoningItemIds)),
    tool_execution=maybe(
        st.builds(run_config.ToolExecution, max_concurrency=maybe(counts), guardrails_before_approval=flags)
    ),
    tool_not_found=maybe(st.sampled_from(run_config.ToolNotFound)),
    tool_name_collision=maybe(st.sampled_from(run_config.ToolNameCollision)),
    tool_error_texts=maybe(
        st.builds(
            run_config.ToolErrorTexts,
            hook=maybe(refs),
            approval_rejected=short,
            tool_not_found=short,
            tool_exception=short,
        )
    ),
    blocked_output_text=maybe(
        st.one_of(
            st.builds(run_config.BlockedOutputText, text=said), st.builds(run_config.BlockedOutputText, hook=refs)
        )
    ),
    error_handlers=maybe(
        st.builds(
            run_config.ErrorHandlers, max_turns=_handlers, model_refusal=_handlers, invalid_final_output=_handlers
        )
    ),
    tracing=maybe(
        st.builds(
            run_config.Tracing,
            disabled=flags,
            include_sensitive_data=maybe(flags),
            workflow_name=short,
            trace_id=short,
            group_id=short,
            metadata=labels,
            include_turn_spans=flags,
        )
    ),
    unserved_grace_s=maybe(millis),
    scopes=ids,
    lifecycle_hooks=_lifecycle_hooks,
    start_agent=short,
)
