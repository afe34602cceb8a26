"""Events: each body of the core as its arm of `baton.v1.Event`, and back, by table.

Session, sequence and time are not written here; `stamp` appends them when the event is committed.
"""

from baton_server.wire.events.reading import Beside, read_event
from baton_server.wire.events.writing import WRITERS, write_event

__all__ = ["WRITERS", "Beside", "read_event", "write_event"]
