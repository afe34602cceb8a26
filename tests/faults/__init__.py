"""Injects faults into a whole house of processes and counts what they broke: `python -m tests.faults --help`."""
