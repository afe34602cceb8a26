"""Models: adapters of `ports.model`."""

from baton_server.model.demo import DemoModel
from baton_server.model.openai import OpenAIModel
from baton_server.model.router import ModelRouter, open_models

__all__ = ["DemoModel", "ModelRouter", "OpenAIModel", "open_models"]
