"""Functions and hooks of this process: the worker stream, what runs on it, and what must still be told."""
