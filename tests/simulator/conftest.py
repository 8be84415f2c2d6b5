"""Closes simulations that a test did not run to their end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulator.simulation import OPEN


@pytest.fixture(autouse=True)
def closed_simulations() -> Iterator[None]:
    yield
    for simulation in tuple(OPEN):
        simulation.close()
