"""Baton: run agents on a Baton server, and host their functions from here.

    from baton import Agent, Runner, function_tool

    @function_tool
    def get_weather(city: str) -> str: ...

    agent = Agent(name="Assistant", instructions="Be brief.", tools=[get_weather])
    print(Runner.run_sync(agent, "What is the weather in Kyoto?").final_output)

The shape is the OpenAI Agents SDK's. The loop runs in the server, whose turns survive crashes; the functions run
in this process, which attaches to the server by itself. Where the server is: an argument, else
`set_default_address`, else the environment's BATON_ADDRESS, else 127.0.0.1:50051.

General layout: `agent`, `tools`, `hooks`, `run_config` are what a program says; `runner`, `results`, `streamed`,
`items` what it gets; `session`, `client`, `worker` the rest of the door; `testing` tries functions without a server.
Behind it `attachment` keeps the worker stream (`link`: one stream, `held`: calls that run, `kept`: results, `journal`:
the same on disk, `asked`: hooks, `frames`: chunks, `hosting`: whose functions), `connection` the channels, `resume` the
event streams. `v1` is generated from the contract.
"""

from baton.address import set_default_address
from baton.agent import Agent, ModelSettings, Reasoning
from baton.client import Client
from baton.connection import close_connections
from baton.context import RunContext, RunContextWrapper, ToolContext
from baton.errors import (
    AgentsException,
    BatonConnectionError,
    BatonError,
    BatonInternalError,
    BatonProtocolError,
    CallLostError,
    ContextLengthExceededError,
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
    RequestIdReusedError,
    RunData,
    SessionBusyError,
    SessionKeyTakenError,
    StateError,
    TooLargeError,
    ToolTimeoutError,
    TurnCancelledError,
    UnservedError,
    UserError,
    Violation,
)
from baton.execution_options import FunctionOptions
from baton.hooks import (
    CallModelData,
    EffectCheckData,
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailData,
    InputGuardrailResult,
    LifecycleData,
    LifecycleHook,
    ModelInputData,
    RemoteHook,
    TookEffect,
    input_guardrail,
)
from baton.items import (
    ItemHelpers,
    MessageOutputItem,
    ReasoningItem,
    RunItem,
    ToolCallItem,
    ToolCallOutputItem,
)
from baton.outputs import ToolOutputFileContent, ToolOutputImage, ToolOutputText
from baton.results import RunResult
from baton.run_config import RunConfig, trace
from baton.runner import Runner
from baton.session import Session, SQLiteSession
from baton.stream_events import (
    AgentUpdatedStreamEvent,
    RawResponsesStreamEvent,
    ResponseResetEvent,
    ResponseTextDeltaEvent,
    RunItemStreamEvent,
    StreamEvent,
)
from baton.streamed import RunResultStreaming
from baton.tools import FunctionTool, RemoteFunction, function_tool
from baton.usage import Usage
from baton.worker import Worker

__all__ = [
    "Agent",
    "AgentUpdatedStreamEvent",
    "AgentsException",
    "BatonConnectionError",
    "BatonError",
    "BatonInternalError",
    "BatonProtocolError",
    "CallLostError",
    "CallModelData",
    "Client",
    "ContextLengthExceededError",
    "EffectCheckData",
    "EffectUnknownError",
    "FunctionError",
    "FunctionOptions",
    "FunctionTool",
    "GuardrailFunctionOutput",
    "HandlerCrashedError",
    "HandlerRefusedError",
    "HookError",
    "InputGuardrail",
    "InputGuardrailData",
    "InputGuardrailResult",
    "InputGuardrailTripwireTriggered",
    "InvalidRequestError",
    "ItemHelpers",
    "JournalError",
    "LifecycleData",
    "LifecycleHook",
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
    "ModelSettings",
    "ModelTimeoutError",
    "ModelUnavailableError",
    "NotFoundError",
    "RawResponsesStreamEvent",
    "Reasoning",
    "ReasoningItem",
    "RemoteFunction",
    "RemoteHook",
    "RequestIdReusedError",
    "ResponseResetEvent",
    "ResponseTextDeltaEvent",
    "RunConfig",
    "RunContext",
    "RunContextWrapper",
    "RunData",
    "RunItem",
    "RunItemStreamEvent",
    "RunResult",
    "RunResultStreaming",
    "Runner",
    "SQLiteSession",
    "Session",
    "SessionBusyError",
    "SessionKeyTakenError",
    "StateError",
    "StreamEvent",
    "TooLargeError",
    "TookEffect",
    "ToolCallItem",
    "ToolCallOutputItem",
    "ToolContext",
    "ToolOutputFileContent",
    "ToolOutputImage",
    "ToolOutputText",
    "ToolTimeoutError",
    "TurnCancelledError",
    "UnservedError",
    "Usage",
    "UserError",
    "Violation",
    "Worker",
    "close_connections",
    "function_tool",
    "input_guardrail",
    "set_default_address",
    "trace",
]
