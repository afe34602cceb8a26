"""Runs of agents: how one is asked for, how it proceeds, and what comes of it."""
