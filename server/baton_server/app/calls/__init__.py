"""Calls and the workers that execute them: who is there, who holds what, what waits for whom."""
