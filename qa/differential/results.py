"""What scenarios came to, kept in a file from run to run, so that they can be tried in parts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from qa.differential.compare import Seen, Verdict, judge

NEVER_TRIED: Final = "never tried"
"""Why a scenario is undecided of which a file of results has nothing."""


def keep(path: Path, verdicts: Iterable[Verdict]) -> None:
    """Put verdicts into the file, each in place of an older one of its scenario."""
    known = _read(path)
    for verdict in verdicts:
        seen = {"kubelet": verdict.seen.kubelet, "ours": verdict.seen.ours} if verdict.seen is not None else None
        known[verdict.title] = {"why": verdict.why, "seen": seen}
    path.write_text(json.dumps(known, indent=1, sort_keys=True))


def kept(path: Path, titles: Iterable[str]) -> list[Verdict]:
    """The verdicts of these scenarios, judged by the sentences that there are now; undecided if never tried."""
    known = _read(path)
    verdicts = []
    for title in titles:
        entry = known.get(title, {"why": NEVER_TRIED, "seen": None})
        if entry["seen"] is None:
            verdicts.append(Verdict(title, "undecided", why=entry["why"]))
        else:
            verdicts.append(judge(title, Seen(**entry["seen"])))
    return verdicts


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found
