"""What Baton costs: ratios of its server to the bare I/O of the same work, measured in one run on one machine.

    python -m bench --help

`first.py` says what is measured; `house.py` holds the processes, `load.py` and `worker.py` drive them,
`record.py` takes a `tape.py` of one real run, `floor.py` replays its I/O with nothing in between, and
`report.py` does the arithmetic. Nothing here is imported by the product.
"""
