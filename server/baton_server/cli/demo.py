"""placeholder"""

from __future__ import annotations

from rich.console import Console


def run_demo(console: Console) -> int:
    """Run."""
    return 1
