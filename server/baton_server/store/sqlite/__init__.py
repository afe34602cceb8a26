"""The store of one process, on SQLite: one writer thread with group commit, readers beside it."""

from baton_server.store.sqlite.lock import StoreHeld
from baton_server.store.sqlite.store import SQLiteStore, open_sqlite

__all__ = ["SQLiteStore", "StoreHeld", "open_sqlite"]
