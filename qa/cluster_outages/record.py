"""The recorded results of the trials, one line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("record.tsv")


@dataclass(frozen=True)
class Result:
    """The result of one trial."""

    trial: str
    has_held: bool
    numbers: str
    """The measurements, or the reason why the trial did not hold: a clause."""


@dataclass(frozen=True)
class Start:
    """The seconds until a crowd of pods was Running, with a kubelet and with a node of ours."""

    crowd: int
    kubelet: float
    ours: float
    load: str
    """The machine's load average."""


def read(path: Path = FILE) -> dict[str, Result]:
    """Read the results, by trial."""
    rows = [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []
    return {trial: Result(trial, held == "held", numbers) for trial, held, numbers in rows}


def write(results: Sequence[Result], path: Path = FILE) -> None:
    """Write results to the file, each in place of an earlier one of the same trial."""
    known = read(path) | {each.trial: each for each in results}
    lines = [
        f"{each.trial}\t{'held' if each.has_held else 'fell'}\t{' '.join(each.numbers.split())}"
        for _, each in sorted(known.items())
    ]
    path.write_text("".join(f"{line}\n" for line in lines))
