"""From samples to figures: medians, ratios, and how they are shown."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A figure beside its floor: one sample of each per round, in the order of the rounds. Both in `unit`."""

    name: str
    unit: str
    ours: tuple[float, ...]
    floor: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Our median over the floor's."""
        return median(self.ours) / median(self.floor)

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest ratio of a round."""
        ratios = [ours / floor for ours, floor in zip(self.ours, self.floor, strict=True)]
        return min(ratios), max(ratios)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a measurement gave. `counted`: of one run, by what was counted; `also`: figures without a floor."""

    pairs: Sequence[Pair]
    counted: Mapping[str, Any] = field(default_factory=dict)
    also: Mapping[str, float] = field(default_factory=dict)


def percentile(samples: Sequence[float], share: float) -> float:
    """Read off the sample below which a share of all lies, the next higher one. Raises ValueError on none."""
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def as_json(report: Report) -> dict[str, Any]:
    """Write a report as JSON values."""
    return {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()},
        "figures": [
            {
                "name": pair.name,
                "unit": pair.unit,
                "ours": round(median(pair.ours), 3),
                "floor": round(median(pair.floor), 3),
                "ratio": round(pair.ratio, 2),
                "ratio_of_rounds": [round(ratio, 2) for ratio in pair.spread],
                "rounds": {
                    "ours": [round(sample, 3) for sample in pair.ours],
                    "floor": [round(sample, 3) for sample in pair.floor],
                },
            }
            for pair in report.pairs
        ],
        "counted": dict(report.counted),
        "also": {name: round(value, 2) for name, value in report.also.items()},
    }


def as_text(report: Report) -> str:
    """Write a report for people."""
    width = max(len(pair.name) for pair in report.pairs)
    lines = [f"{'':{width}}  {'ours':>9} {'floor':>9} {'ratio':>6}  of rounds"]
    for pair in report.pairs:
        low, high = pair.spread
        lines.append(
            f"{pair.name:{width}}  {median(pair.ours):6.2f} {pair.unit} {median(pair.floor):6.2f} {pair.unit} "
            f"{pair.ratio:6.2f}  {low:.2f} to {high:.2f}"
        )
    lines += ["", *(f"{name}: {value:.2f}" for name, value in report.also.items())]
    lines += [f"{name}: {_shown(value)}" for name, value in report.counted.items()]
    return "\n".join(lines)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {count}" for name, count in value.items()) or "none"
    return str(value)
