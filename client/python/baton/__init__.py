"""Baton: run agents on a Baton server, and host their functions from here.

    from baton import Agent, Runner, function_tool

    @function_tool
    def get_weather(city: str) -> str: ...

    agent = Agent(name="Assistant", instructions="Be brief.", tools=[get_weather])
    print(Runner.run_sync(agent, "What is the weather in Kyoto?").final_output)

The shape is the OpenAI Agents SDK's. The loop runs in the server, whose turns survive crashes; the functions run
in this process, which attaches to the server by itself. Where the server is: an argument, else
`set_default_address`, else the environment's BATON_ADDRESS, else 127.0.0.1:50051.

General layout: `agents` is what a program says (agents, functions, handoffs, guardrails), each written for the
contract by itself; `hooks`, how the server asks this process, kind by kind; `runs`, how a run is asked for, proceeds
and ends, and what it gives; `hosting`, the worker stream and what runs on it; `server`, the services, sessions and
the way to them; `testing` tries functions without a server. `v1` is generated from the contract.
"""

from typing import TYPE_CHECKING

from baton import handoff_filters, sdk_names
from baton.absent import refusing
from baton.address import set_default_address
from baton.agents.agent import Agent
from baton.agents.agent_output import AgentOutputSchema, AgentOutputSchemaBase
from baton.agents.agent_tool import AgentTool, AgentToolResult, StructuredToolInputBuilderOptions
from baton.agents.conditions import Approval
from baton.agents.error_handlers import RunErrorData, RunErrorHandlerInput
from baton.agents.execution_options import FunctionOptions
from baton.agents.guardrails import (
    InputGuardrail,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
    input_guardrail,
    output_guardrail,
)
from baton.agents.handoff_data import HandoffInputData
from baton.agents.handoff_history import (
    get_conversation_history_wrappers,
    reset_conversation_history_wrappers,
    set_conversation_history_wrappers,
)
from baton.agents.handoffs import Handoff, handoff
from baton.agents.hosted_tools import HostedTool, ToolSearchTool
from baton.agents.input_filters import KeepLast, ToolOutputTrimmer, TrimOutputs
from baton.agents.lifecycle import AgentHooks, LifecycleHook, RunHooks
from baton.agents.model_retry import ModelRetryBackoffSettings, ModelRetrySettings, RetryPolicyContext, retry_policies
from baton.agents.model_settings import ModelSettings, Reasoning
from baton.agents.terms import AllowTerms, DenyTerms
from baton.agents.tool_errors import (
    OutputGuardrailBlockedMessageArgs,
    ToolErrorFormatterArgs,
    default_tool_error_function,
)
from baton.agents.tool_guardrails import (
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolInputGuardrailResult,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
    ToolOutputGuardrailResult,
    tool_input_guardrail,
    tool_output_guardrail,
)
from baton.agents.tool_use import FunctionToolResult, StopAtTools
from baton.agents.tools import FunctionTool, FunctionToolCustomDataContext, RemoteFunction, ToolOptions, function_tool
from baton.context.call_context import RunContext, ToolContext
from baton.context.run_context import RunContextWrapper
from baton.errors import (
    AgentsException,
    BatonConnectionError,
    BatonError,
    BatonInternalError,
    BatonProtocolError,
    CallLostError,
    ContextLengthExceededError,
    ConversationLockedError,
    EffectUnknownError,
    FunctionError,
    HandlerCrashedError,
    HandlerRefusedError,
    HookError,
    InputGuardrailTripwireTriggered,
    InvalidRequestError,
    JournalError,
    MaxTurnsExceeded,
    ModelAuthenticationError,
    ModelBehaviorError,
    ModelNotFoundError,
    ModelProviderError,
    ModelQuotaExceededError,
    ModelRateLimitedError,
    ModelRefusalError,
    ModelRequestInvalidError,
    ModelTimeoutError,
    ModelUnavailableError,
    NotFoundError,
    OutputGuardrailTripwireTriggered,
    RequestIdReusedError,
    SessionBusyError,
    SessionKeyTakenError,
    StateError,
    TooLargeError,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
    ToolTimeoutError,
    TurnCancelledError,
    UnservedError,
    UserError,
    Violation,
)
from baton.hooks import HookData, RemoteHook
from baton.hooks.answers import (
    Effect,
    GuardrailFunctionOutput,
    ModelInputData,
    RetryDecision,
    RunErrorHandlerResult,
    TookEffect,
    ToolGuardrailFunctionOutput,
    ToolsToFinalOutputResult,
)
from baton.hooks.data import (
    AgentInputData,
    AgentOutputData,
    BlockedOutputData,
    CallModelData,
    EffectCheckData,
    EnabledData,
    ErrorHandlerData,
    HandoffFilterData,
    HandoffHistoryData,
    InputGuardrailData,
    InstructionsData,
    LifecycleData,
    ModelRetryData,
    OnHandoffData,
    OutputGuardrailData,
    SessionInputData,
    SessionStoreData,
    ToolCallData,
    ToolErrorData,
    ToolOutcome,
    ToolOutputData,
    ToolUseData,
)
from baton.items.item_helpers import ItemHelpers
from baton.items.model_response import ModelResponse
from baton.items.outputs import ToolOutputFileContent, ToolOutputImage, ToolOutputText
from baton.items.run_items import (
    HandoffCallItem,
    HandoffOutputItem,
    MCPApprovalRequestItem,
    MCPListToolsItem,
    MessageOutputItem,
    ReasoningItem,
    RunItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
    ToolSearchCallItem,
    ToolSearchOutputItem,
)
from baton.items.usage import RequestUsage, Usage
from baton.logs import enable_verbose_stdout_logging
from baton.repl import run_demo_loop
from baton.runs.results import RunResult
from baton.runs.run_config import RunConfig, ToolExecutionConfig
from baton.runs.run_data import RunErrorDetails
from baton.runs.run_state import RunState
from baton.runs.runner import Runner
from baton.runs.session_store import SessionABC, SessionStore
from baton.runs.stream_events import (
    AgentUpdatedStreamEvent,
    RawResponsesStreamEvent,
    ResponseResetEvent,
    ResponseTextDeltaEvent,
    RunItemStreamEvent,
    StreamEvent,
)
from baton.runs.streamed import RunResultStreaming
from baton.runs.tracing import (
    Trace,
    TracingConfig,
    gen_trace_id,
    get_current_trace,
    set_tracing_disabled,
    trace,
)
from baton.sdk import library_version
from baton.sdk_names import *  # noqa: F403  # it lists them; two lines for each would be all that this module says
from baton.server.client import Client
from baton.server.connection import close_connections
from baton.server.session import Session, SQLiteSession
from baton.server.session_settings import SessionSettings
from baton.server.worker import Worker

__version__ = library_version()

__all__ = [
    "Agent",
    "AgentHooks",
    "AgentInputData",
    "AgentOutputData",
    "AgentOutputSchema",
    "AgentOutputSchemaBase",
    "AgentTool",
    "AgentToolResult",
    "AgentUpdatedStreamEvent",
    "AgentsException",
    "AllowTerms",
    "Approval",
    "BatonConnectionError",
    "BatonError",
    "BatonInternalError",
    "BatonProtocolError",
    "BlockedOutputData",
    "CallLostError",
    "CallModelData",
    "Client",
    "ContextLengthExceededError",
    "ConversationLockedError",
    "DenyTerms",
    "Effect",
    "EffectCheckData",
    "EffectUnknownError",
    "EnabledData",
    "ErrorHandlerData",
    "FunctionError",
    "FunctionOptions",
    "FunctionTool",
    "FunctionToolCustomDataContext",
    "FunctionToolResult",
    "GuardrailFunctionOutput",
    "HandlerCrashedError",
    "HandlerRefusedError",
    "Handoff",
    "HandoffCallItem",
    "HandoffFilterData",
    "HandoffHistoryData",
    "HandoffInputData",
    "HandoffOutputItem",
    "HookData",
    "HookError",
    "HostedTool",
    "InputGuardrail",
    "InputGuardrailData",
    "InputGuardrailResult",
    "InputGuardrailTripwireTriggered",
    "InstructionsData",
    "InvalidRequestError",
    "ItemHelpers",
    "JournalError",
    "KeepLast",
    "LifecycleData",
    "LifecycleHook",
    "MCPApprovalRequestItem",
    "MCPListToolsItem",
    "MaxTurnsExceeded",
    "MessageOutputItem",
    "ModelAuthenticationError",
    "ModelBehaviorError",
    "ModelInputData",
    "ModelNotFoundError",
    "ModelProviderError",
    "ModelQuotaExceededError",
    "ModelRateLimitedError",
    "ModelRefusalError",
    "ModelRequestInvalidError",
    "ModelResponse",
    "ModelRetryBackoffSettings",
    "ModelRetryData",
    "ModelRetrySettings",
    "ModelSettings",
    "ModelTimeoutError",
    "ModelUnavailableError",
    "NotFoundError",
    "OnHandoffData",
    "OutputGuardrail",
    "OutputGuardrailBlockedMessageArgs",
    "OutputGuardrailData",
    "OutputGuardrailResult",
    "OutputGuardrailTripwireTriggered",
    "RawResponsesStreamEvent",
    "Reasoning",
    "ReasoningItem",
    "RemoteFunction",
    "RemoteHook",
    "RequestIdReusedError",
    "RequestUsage",
    "ResponseResetEvent",
    "ResponseTextDeltaEvent",
    "RetryDecision",
    "RetryPolicyContext",
    "RunConfig",
    "RunContext",
    "RunContextWrapper",
    "RunErrorData",
    "RunErrorDetails",
    "RunErrorHandlerInput",
    "RunErrorHandlerResult",
    "RunHooks",
    "RunItem",
    "RunItemStreamEvent",
    "RunResult",
    "RunResultStreaming",
    "RunState",
    "Runner",
    "SQLiteSession",
    "Session",
    "SessionABC",
    "SessionBusyError",
    "SessionInputData",
    "SessionKeyTakenError",
    "SessionSettings",
    "SessionStore",
    "SessionStoreData",
    "StateError",
    "StopAtTools",
    "StreamEvent",
    "StructuredToolInputBuilderOptions",
    "TooLargeError",
    "TookEffect",
    "ToolApprovalItem",
    "ToolCallData",
    "ToolCallItem",
    "ToolCallOutputItem",
    "ToolContext",
    "ToolErrorData",
    "ToolErrorFormatterArgs",
    "ToolExecutionConfig",
    "ToolGuardrailFunctionOutput",
    "ToolInputGuardrail",
    "ToolInputGuardrailData",
    "ToolInputGuardrailResult",
    "ToolInputGuardrailTripwireTriggered",
    "ToolOptions",
    "ToolOutcome",
    "ToolOutputData",
    "ToolOutputFileContent",
    "ToolOutputGuardrail",
    "ToolOutputGuardrailData",
    "ToolOutputGuardrailResult",
    "ToolOutputGuardrailTripwireTriggered",
    "ToolOutputImage",
    "ToolOutputText",
    "ToolOutputTrimmer",
    "ToolSearchCallItem",
    "ToolSearchOutputItem",
    "ToolSearchTool",
    "ToolTimeoutError",
    "ToolUseData",
    "ToolsToFinalOutputResult",
    "Trace",
    "TracingConfig",
    "TrimOutputs",
    "TurnCancelledError",
    "UnservedError",
    "Usage",
    "UserError",
    "Violation",
    "Worker",
    "__version__",
    "close_connections",
    "default_tool_error_function",
    "enable_verbose_stdout_logging",
    "function_tool",
    "gen_trace_id",
    "get_conversation_history_wrappers",
    "get_current_trace",
    "handoff",
    "handoff_filters",
    "input_guardrail",
    "output_guardrail",
    "reset_conversation_history_wrappers",
    "retry_policies",
    "run_demo_loop",
    "set_conversation_history_wrappers",
    "set_default_address",
    "set_tracing_disabled",
    "tool_input_guardrail",
    "tool_output_guardrail",
    "trace",
]
__all__ += sdk_names.__all__

if not TYPE_CHECKING:  # else every name would be one, for a type checker
    __getattr__ = refusing(__name__)
