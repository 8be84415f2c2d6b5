"""Texts for people: why a seed fails, a test to paste, and how often each fault was injected."""

from __future__ import annotations

from collections.abc import Mapping
from pprint import pformat

from tests.simulator.faults import EVENTS, Case
from tests.simulator.simulation import Verdict

TRAIL_SHOWN = 60


def as_test(case: Case, violation: str, name: str) -> str:
    """Return a case as a test of its own."""
    lives = "".join(f"        {key!r}: {value!r},\n" for key, value in case.lives.items())
    events = "".join(f"        {event!r},\n" for event in case.events)
    spec = pformat(case.manifest["spec"], width=100, sort_dicts=False).replace("\n", "\n    ")
    annotations = case.manifest["metadata"].get("annotations")
    annotated = f", {annotations!r}" if annotations else ""
    more = f"absent={case.absent}, max_events={case.max_events}"
    return (
        f"def test_{name}() -> None:\n"
        f'    """{violation.splitlines()[0]}."""\n'
        f"    spec = {spec}\n"
        f"    lives = {{\n{lives}    }}\n"
        f"    events = (\n{events}    )\n"
        f"    case = Case(pod(spec{annotated}), lives, events, {more})\n"
        f'    assert simulate(case).violation == ""\n'
    )


def explain(seed: int, short: Case, verdict: Verdict) -> str:
    """Return a text on the failure of a seed, from the reduced case's verdict."""
    trail = "\n".join(verdict.trail[-TRAIL_SHOWN:])
    test = as_test(short, verdict.violation, f"seed_{seed}")
    reduced = f"The same as a test, reduced to {len(short.events)} events:"
    return f"seed {seed}: {verdict.violation}\n\n{trail}\n\n{reduced}\n\n{test}"


def table(injected: Mapping[str, int]) -> str:
    """Return how often each kind of event was injected."""
    width = max(len(name) for name in EVENTS)
    return "\n".join(f"{name:<{width}}  {injected.get(name, 0):>7,}" for name in EVENTS)
