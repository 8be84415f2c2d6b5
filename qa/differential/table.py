"""The generated part of docs/differential.md: counts, and each difference with its sentence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, get_args

from qa.differential.compare import NEVER_TRIED, Difference, Kind, Verdict
from qa.differential.explained import DEFECTS, EXPLAINED
from qa.differential.sentence import Reason, Sentence

_BEGIN: Final = "<!-- scenarios: begin -->"
_END: Final = "<!-- scenarios: end -->"
_MOST: Final = 4
"""The most unexplained differences of a scenario that are shown."""
_WORDS: Final = 90
"""The most characters of a value that are shown."""


def write_table(path: Path, verdicts: Sequence[Verdict]) -> None:
    """Write the tables between the marks of a page. Raises ValueError if the page has no marks."""
    before, begin, rest = path.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"{path} has no {_BEGIN} … {_END}")
    path.write_text("\n".join((before + begin, "", *_lines(verdicts), "", end + after)))


def _lines(verdicts: Sequence[Verdict]) -> Iterator[str]:
    counts = Counter(verdict.kind for verdict in verdicts)
    told = ", ".join(f"{counts[kind]} {_TOLD[kind]}" for kind in get_args(Kind) if counts[kind])
    yield f"{len(verdicts)} scenarios: {told}."
    yield ""
    yield from _families(verdicts)
    met = _met(verdicts)
    yield from _reasons(met)
    for reason in Reason:
        yield from _sentences(
            f"{reason.value[0].upper()}{reason.value[1:]}", [each for each in _ALL if each.reason is reason], met
        )
    yield from _rest(verdicts)


_ALL: Final = (*EXPLAINED, *DEFECTS)


_TOLD: Final[dict[Kind, str]] = {
    "equal": "equal",
    "explained": "with intended differences only",
    "defect": "with a known defect",
    "unexplained": "with a difference that nothing explains",
    "undecided": "undecided",
}


def _families(verdicts: Sequence[Verdict]) -> Iterator[str]:
    yield "| family | scenarios | equal or as intended | known defect | unexplained | undecided |"
    yield "|---|---|---|---|---|---|"
    families: dict[str, Counter[str]] = defaultdict(Counter)
    for verdict in verdicts:
        families[verdict.title.partition("/")[0]][verdict.kind] += 1
    for family, counts in families.items():
        fine = counts["equal"] + counts["explained"]
        rest = " | ".join(str(counts[kind] or "–") for kind in ("defect", "unexplained", "undecided"))
        yield f"| {family} | {counts.total()} | {fine or '–'} | {rest} |"


_Met = Mapping[Sentence, list[tuple[str, Difference]]]
"""The differences that each sentence explains, each with its scenario's title."""


def _met(verdicts: Iterable[Verdict]) -> _Met:
    met: dict[Sentence, list[tuple[str, Difference]]] = defaultdict(list)
    for verdict in verdicts:
        for each in verdict.differences:
            if each.sentence is not None:
                met[each.sentence].append((verdict.title, each))
    return met


def _reasons(met: _Met) -> Iterator[str]:
    """The table of the kinds of reasons, with the numbers of their sentences, scenarios and facts."""
    yield "\n### Reasons\n"
    yield "| reason | sentences | scenarios | facts |"
    yield "|---|---|---|---|"
    for reason in Reason:
        found = {sentence: each for sentence, each in met.items() if sentence.reason is reason}
        if found:
            facts = [title for each in found.values() for title, _ in each]
            yield f"| {reason.value} | {len(found)} | {len(set(facts))} | {len(facts)} |"


def _sentences(title: str, sentences: Iterable[Sentence], met: _Met) -> Iterator[str]:
    shown = [sentence for sentence in sentences if sentence in met]
    if not shown:
        return
    yield f"\n### {title}\n"
    yield "| difference | checked by | scenarios | facts | for example | what | kubelet | here |"
    yield "|---|---|---|---|---|---|---|---|"
    for sentence in shown:
        scenario, example = met[sentence][0]
        counts = f"{len({scenario for scenario, _ in met[sentence]})} | {len(met[sentence])}"
        cells = (f"`{example.path}`", _cell(example.kubelet), _cell(example.ours))
        how = "all facts" if sentence.turned is not None else "both values"
        yield f"| {sentence.text} | {how} | {counts} | {scenario} | {' | '.join(cells)} |"


def _rest(verdicts: Sequence[Verdict]) -> Iterator[str]:
    left = [verdict for verdict in verdicts if verdict.kind in ("unexplained", "undecided")]
    untried = Counter(verdict.title.partition("/")[0] for verdict in left if verdict.why == NEVER_TRIED)
    if untried:
        yield f"\nNot tried in these runs: {', '.join(f'{count} of {family}' for family, count in untried.items())}."
    left = [verdict for verdict in left if verdict.why != NEVER_TRIED]
    if not left:
        return
    yield "\n### Not decided or not explained\n"
    yield "| scenario | what | kubelet | here |"
    yield "|---|---|---|---|"
    for verdict in left:
        if verdict.kind == "undecided":
            yield f"| {verdict.title} | {_text(verdict.why)} | | |"
        unexplained = [each for each in verdict.differences if each.sentence is None]
        for each in unexplained[-_MOST:]:  # those of the status come last, and are the most informative
            yield f"| {verdict.title} | `{each.path}` | {_cell(each.kubelet)} | {_cell(each.ours)} |"
        if len(unexplained) > _MOST:
            yield f"| {verdict.title} | {len(unexplained) - _MOST} more | | |"


def _cell(value: Any) -> str:
    return "–" if value is None else f"`{_text(str(value))}`"


def _text(value: str) -> str:
    one_line = value.replace("\n", " ⏎ ").replace("|", "¦").replace("`", "'")
    return one_line if len(one_line) <= _WORDS else f"{one_line[:_WORDS]}…"
