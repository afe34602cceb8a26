"""Names of the Agents SDK that stand for nothing here, and what does their work: told to whoever imports one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

_PARAGRAPHS: Mapping[str, str] = {
    "models are named, and the server asks them: model='gpt-5', or 'provider/name' of a provider that it has": """
        Model ModelProvider ModelTracing MultiProvider OpenAIChatCompletionsModel OpenAIProvider OpenAIResponsesModel
        OpenAIResponsesWSModel
    """,
    "the server asks the models; OPENAI_API_KEY and OPENAI_BASE_URL belong in its environment": """
        OpenAIAgentRegistrationConfig set_default_openai_agent_registration set_default_openai_api
        set_default_openai_client set_default_openai_harness set_default_openai_key
    """,
    "the server asks the models over HTTP; leave it out": """
        OpenAIResponsesWebSocketOptions ResponsesWebSocketSession responses_websocket_session
        set_default_openai_responses_transport
    """,
    "tools of the model's provider are written as its API has them: HostedTool({'type': 'web_search'})": """
        CodeInterpreterTool FileSearchTool HostedMCPTool ImageGenerationTool ImageGenerationToolConfig
        MCPToolApprovalFunction MCPToolApprovalFunctionResult MCPToolApprovalRequest WebSearchTool
        WebSearchToolImageSettings
    """,
    "there are functions alone: write what it does as a function_tool": """
        ApplyPatchEditor ApplyPatchOperation ApplyPatchResult ApplyPatchTool ApplyPatchToolCustomDataContext
        ApplyPatchToolCustomDataExtractor AsyncComputer Button Computer ComputerProvider ComputerTool
        ComputerToolCustomDataContext ComputerToolCustomDataExtractor CustomTool CustomToolCustomDataContext
        CustomToolCustomDataExtractor Environment LocalShellCommandRequest LocalShellExecutor LocalShellTool
        ProgrammaticToolCallingTool ShellActionRequest ShellCallData ShellCallOutcome ShellCommandOutput
        ShellCommandRequest ShellExecutor ShellResult ShellTool ShellToolContainerAutoEnvironment
        ShellToolContainerNetworkPolicy ShellToolContainerNetworkPolicyAllowlist
        ShellToolContainerNetworkPolicyDisabled ShellToolContainerNetworkPolicyDomainSecret
        ShellToolContainerReferenceEnvironment ShellToolContainerSkill ShellToolEnvironment
        ShellToolHostedEnvironment ShellToolInlineSkill ShellToolInlineSkillSource ShellToolLocalEnvironment
        ShellToolLocalSkill ShellToolSkillReference apply_diff dispose_resolved_computers resolve_computer sandbox
    """,
    "there are no MCP servers but those at the model's provider: HostedTool({'type': 'mcp', …})": """
        MCPApprovalResponseItem MCPToolCancellationError
    """,
    "tools have no namespaces; give the functions names that tell them apart": """
        tool_namespace
    """,
    "an item of a call says which function, and which agent called it; more is not told": """
        ToolCaller ToolOrigin ToolOriginType
    """,
    "the server traces the runs, and its OpenTelemetry sends the traces on (docs/operating.md)": """
        Span SpanData SpanError TracingProcessor add_trace_processor flush_traces get_current_span set_trace_processors
        set_trace_provider set_tracing_export_api_key AgentSpanData CustomSpanData FunctionSpanData GenerationSpanData
        GuardrailSpanData HandoffSpanData MCPListToolsSpanData ResponseSpanData SpeechGroupSpanData SpeechSpanData
        TaskSpanData TranscriptionSpanData TurnSpanData
    """,
    "the server makes the spans of runs; make those of your own program with OpenTelemetry": """
        agent_span custom_span function_span gen_span_id generation_span guardrail_span handoff_span mcp_tools_span
        response_span speech_group_span speech_span task_span transcription_span turn_span
    """,
    "a conversation at the model's API is named where a run begins: Runner.run(…, conversation_id='conv_…')": """
        OpenAIConversationsSession
    """,
    "histories are not compacted; SessionSettings(limit=…) and session_input_callback say what of one is sent": """
        CompactionItem OpenAIResponsesCompactionArgs OpenAIResponsesCompactionAwareSession
        OpenAIResponsesCompactionSession is_openai_responses_compaction_aware_session
    """,
    "there are no prompts of the provider; instructions may be a function": """
        DynamicPromptFunction GenerateDynamicPromptData Prompt
    """,
    "the server folds histories: RunConfig(nest_handoff_history=True), or handoff(…, nest_handoff_history=True)": """
        default_handoff_history_mapper nest_handoff_history
    """,
    "a RetryPolicyContext has what there is to know of a failed request": """
        ModelRetryAdvice ModelRetryAdviceRequest ModelRetryNormalizedError
    """,
    "a nested run is part of the turn, and what happens in it is in the session's log: Client().watch(session_id)": """
        AgentToolInvocation AgentToolStreamEvent
    """,
    "items of an input are dictionaries, as the Responses API writes them": """
        InputItem
    """,
}
"""What to do, and the names that it is for."""

INSTEAD: Mapping[str, str] = {name: words for words, names in _PARAGRAPHS.items() for name in names.split()}
"""What to do in place of a name."""


def refuse_absent(name: str) -> None:
    """Raise ImportError, with what to do, for a name of the Agents SDK; nothing for one that nobody knows."""
    words = INSTEAD.get(name)
    if words is not None:
        raise ImportError(f"Baton has no {name}: {words}. See docs/from-the-agents-sdk.md")


def refusing(module: str) -> Callable[[str], object]:
    """Make the `__getattr__` of a module that has names of the Agents SDK: as `refuse_absent`, else AttributeError."""

    def missing(name: str) -> object:
        refuse_absent(name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return missing
