"""The store in memory: a fake for tests, and the specification of what a store does, to be read."""

from baton_server.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
