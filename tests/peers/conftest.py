"""A stage for workers by hand and for those of the client, and a server for runs of the client."""

from tests.client.end_to_end import serve
from tests.support.stage import empty_stage, stage

__all__ = ["empty_stage", "serve", "stage"]
