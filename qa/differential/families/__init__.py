"""The scenarios, by family."""

from __future__ import annotations

from typing import Final

from qa.differential.families import ends, inside, probes, restarts
from qa.differential.scenario import Scenario, unique

SCENARIOS: Final[tuple[Scenario, ...]] = unique(
    (*restarts.SCENARIOS, *probes.SCENARIOS, *inside.SCENARIOS, *ends.SCENARIOS)
)
"""The scenarios of all families."""
