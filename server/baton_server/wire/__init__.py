"""The wire: the core's values as `baton.v1` messages and bytes, and back. Pure; nothing here waits.

Reading trusts what it reads: requests and frames from outside pass `check` before anything else reads them.
"""
