"""The seeds that are run with the tests, in quarters, so that several processes share them."""

from __future__ import annotations

import os

from tests.simulator.campaign import explained, run_seeds

SEEDS = 10_000 if os.environ.get("SYNCPOD_REQUIRE") else 1_000
"""Of the whole: all where nothing may be left out, else a tenth."""


def check_quarter(quarter: int) -> None:
    """Run one quarter of the seeds; a failure is reduced and explained."""
    campaign = run_seeds(range(quarter - 1, SEEDS, 4))
    assert not campaign.failed, "\n" + explained(campaign)
    assert campaign.seeds == SEEDS // 4
    assert campaign.replays >= campaign.seeds // 2
