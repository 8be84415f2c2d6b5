"""`python -m qa.planted`: plant each bug, run its tests, and say which of them the suite finds."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from qa.planted.bugs import TABLE
from qa.planted.plant import Plant, StalePlant
from qa.planted.trial import nursery

_SECONDS, _SECONDS_WHOLE = 600.0, 7200.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant the chosen bugs. Return 0 if all are found, 1 if one is not, and 2 if one cannot be planted."""
    parser = argparse.ArgumentParser(prog="python -m qa.planted", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which bugs; all, if none is named")
    parser.add_argument("--list", action="store_true", help="list the bugs, and plant none")
    parser.add_argument("--whole", action="store_true", help="run the whole suite for each, which takes a night")
    parser.add_argument("--seconds", type=float, default=0.0, help="time limit of each; 600, or 7200 with --whole")
    parser.add_argument("--processes", type=int, default=1, help="processes that run the tests")
    chosen = parser.parse_args(arguments)
    by_name = {plant.name: plant for plant in TABLE}
    if unknown := [name for name in chosen.names if name not in by_name]:
        parser.error(f"no such bug: {', '.join(unknown)}; --list names them")
    plants = [by_name[name] for name in chosen.names] or list(TABLE)
    if chosen.list:
        for plant in plants:
            _say(f"{plant.name:42}{plant.room:22}{plant.harm}")
        return 0
    # A shell lets its background processes ignore SIGINT, and pytest would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seconds = chosen.seconds or (_SECONDS_WHOLE if chosen.whole else _SECONDS)
    return _plant_all(plants, whole=chosen.whole, seconds=seconds, processes=chosen.processes)


def _plant_all(plants: Sequence[Plant], *, whole: bool, seconds: float, processes: int) -> int:
    found: dict[Plant, str] = {}
    rotten: list[str] = []
    _say(f"{'BUG':42}{'ROOM':22}{'FOUND':8}{'SECONDS':9}BY")
    with nursery(whole=whole, seconds=seconds, processes=processes) as copies:
        for plant in plants:
            try:
                trial = copies.try_out(plant)
            except StalePlant as error:
                rotten.append(str(error))
                _say(f"{plant.name:42}{plant.room:22}{'error':8}{'':9}{error}")
                continue
            if trial.found:
                found[plant] = trial.said
            _say(f"{plant.name:42}{plant.room:22}{'yes' if trial.found else 'NO':8}{trial.seconds:<9.1f}{trial.said}")
        broken = copies.failing_without_bug(set(found.values()))
    sound = {plant for plant, test in found.items() if test not in broken}
    for plant in found.keys() - sound:
        _say(f"{plant.name} does not count as found: {found[plant]} fails without it, too")
    for why in rotten:
        _say(f"cannot be planted: {why}")
    _say(f"{len(sound)} of {len(plants)} found")
    return 2 if rotten else int(len(sound) < len(plants))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
