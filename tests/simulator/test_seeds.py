"""All invariants hold under random faults: some seeds in a usual run, many more in `make nightly`.

Holds: The loop holds under any schedule of faults.
"""

from __future__ import annotations

import pytest

from tests.nightly import NIGHTLY
from tests.simulator.campaign import explained, run_seeds

SEEDS = 20_000 if NIGHTLY else 125
STRETCH = 125
"""The number of seeds of one test, so that several processes share them."""


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(
            range(first, first + STRETCH),
            marks=pytest.mark.xdist_group(f"seeds from {first}"),
            id=f"seeds {first} to {first + STRETCH - 1}",
        )
        for first in range(0, SEEDS, STRETCH)
    ],
)
def test_no_schedule_of_faults_breaks_an_invariant(seeds: range) -> None:
    campaign = run_seeds(seeds)
    assert not campaign.failed, "\n" + explained(campaign)
    assert campaign.seeds == len(seeds)
    assert campaign.replays >= campaign.seeds // 2
