"""What turns are made of in these tests: functions, rules, and items as a model makes them."""

from __future__ import annotations

import contextlib
import hashlib
import json

from baton_server.core.events import EventBody
from baton_server.core.inputs import NewItem
from baton_server.core.items import Usage
from baton_server.core.responses import read_item
from baton_server.core.tools import AgentTool, Execution, FunctionTool, HookRef

WEATHER = FunctionTool(
    name="get_weather",
    parameters_json='{"properties":{"city":{"type":"string"}},"required":["city"]}',
    strict=True,
)
NOTE = FunctionTool(name="take_note", parameters_json='{"required":["text"]}', strict=False)
PAY = FunctionTool(
    name="pay",
    parameters_json='{"required":["order"]}',
    strict=False,
    execution=Execution(timeout_s=30, expires_s=60, idempotency_fields=("/order",)),
)
"""A function that must take effect once for each order."""

KYOTO = '{"city":"Kyoto"}'
USAGE = Usage(requests=1, input_tokens=7, cached_input_tokens=2, output_tokens=3, total_tokens=10)


class Schemas:
    """Rules that know `required` and the types string and array: enough of JSON Schema to break it."""

    def violation(self, schema_json: str, value_json: str) -> str | None:
        """Names the first property that is missing or is no string."""
        schema, value = json.loads(schema_json), json.loads(value_json)
        if schema.get("type") == "object" and not isinstance(value, dict):
            return "$: must be of type object"
        for name in schema.get("required", ()):
            if name not in value:
                return f"$.{name}: required"
        for name, property_schema in schema.get("properties", {}).items():
            if property_schema.get("type") == "string" and not isinstance(value[name], str):
                return f"$.{name}: must be of type string"
            if property_schema.get("type") == "array" and not isinstance(value[name], list):
                return f"$.{name}: must be of type array"
        return None

    def idempotency_key(self, session_id: str, name: str, pointers: tuple[str, ...], arguments: str) -> str:
        """Makes a key of the members that pointers of one step name."""
        try:
            values = [json.loads(arguments)[pointer[1:]] for pointer in pointers]
        except (ValueError, KeyError, TypeError):
            return ""
        return f"idem_{session_id}_{name}_{values}"

    def digest(self, text: str) -> str:
        """Digests a JSON text by what it says, any other by its bytes."""
        with contextlib.suppress(ValueError):
            text = json.dumps(json.loads(text), sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def definition_digest(self, tool: FunctionTool | AgentTool) -> str:
        """Digests a tool by how it prints."""
        return self.digest(repr(tool))


def say(text: str) -> NewItem:
    """Makes a message of the model."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return read_item({"id": "msg_1", "type": "message", "role": "assistant", "content": [part]})


def refuse(words: str) -> NewItem:
    """Makes a message in which the model refuses."""
    part = {"type": "refusal", "refusal": words}
    return read_item({"id": "msg_1", "type": "message", "role": "assistant", "content": [part]})


def call(name: str = "get_weather", arguments: str = KYOTO, id: str = "c1") -> NewItem:
    """Makes a call of the model, with the id that the model gave it."""
    return read_item({"type": "function_call", "call_id": id, "name": name, "arguments": arguments})


def think() -> NewItem:
    """Makes a thought of the model."""
    return read_item({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]})


def hosted() -> NewItem:
    """Makes an item of a tool that ran at the provider."""
    return read_item({"type": "web_search_call", "id": "ws_1", "status": "completed"})


def hook(name: str = "ask") -> HookRef:
    """Names a program."""
    return HookRef(name=name)


def names(bodies: list[EventBody]) -> list[str]:
    """Names the kinds of some events."""
    return [type(body).__name__ for body in bodies]
