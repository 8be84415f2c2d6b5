"""The scenarios, by family."""

from __future__ import annotations

from typing import Final

from tests.differential.families import ends, inside, probes, restarts
from tests.differential.scenario import Scenario, unique

SCENARIOS: Final[tuple[Scenario, ...]] = unique(
    (*restarts.SCENARIOS, *probes.SCENARIOS, *inside.SCENARIOS, *ends.SCENARIOS)
)
"""All of them."""
