"""Tells the person that the server was lost, and that it is back."""

from __future__ import annotations

from baton import Client
from baton_server.cli.talk.screen import Screen

LOST = "the server does not answer any more; waiting for it"
BACK = "the server is back"


class ConnectionNotes:
    """Notes on a screen; while they are `held`, only how things stand in the end is told, afterwards."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._there = self._told = True
        self._held = False

    def watch(self, client: Client) -> None:
        """Begin, with the connection of the running event loop."""
        client.on_connection_change(self._changed)

    def hold(self) -> None:
        """Write nothing for now: somebody types."""
        self._held = True

    def release(self) -> None:
        """Write again."""
        self._held = False
        self._tell()

    def _changed(self, there: bool) -> None:
        self._there = there
        if not self._held:
            self._tell()

    def _tell(self) -> None:
        if self._told != self._there:
            self._told = self._there
            self._screen.note(BACK if self._there else LOST)
