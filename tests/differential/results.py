"""What scenarios came to, kept in a file from run to run, so that they can be tried in parts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tests.differential.compare import Difference, Verdict, judge, sentence_for

NEVER_TRIED: Final = "never tried"
"""Why a scenario is undecided of which a file of results has nothing."""


def keep(path: Path, verdicts: Iterable[Verdict]) -> None:
    """Put verdicts into the file, each in place of an older one of its scenario."""
    known = _read(path)
    for verdict in verdicts:
        found = [{"path": each.path, "kubelet": each.kubelet, "ours": each.ours} for each in verdict.differences]
        known[verdict.title] = {"why": verdict.why, "differences": found}
    path.write_text(json.dumps(known, indent=1, sort_keys=True))


def kept(path: Path, titles: Iterable[str]) -> list[Verdict]:
    """The verdicts of these scenarios, judged by the sentences that there are now; undecided if never tried."""
    known = _read(path)
    verdicts = []
    for title in titles:
        entry = known.get(title, {"why": NEVER_TRIED, "differences": []})
        found = tuple(
            Difference(each["path"], each["kubelet"], each["ours"], sentence_for(title, **each))
            for each in entry["differences"]
        )
        verdicts.append(Verdict(title, "undecided", why=entry["why"]) if entry["why"] else judge(title, found))
    return verdicts


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found
