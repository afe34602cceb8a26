"""Use cases: submit, run, watch, drive, dispatch. Async; they know the core and the ports, nothing else."""
