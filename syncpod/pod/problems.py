"""The problems of a pod: a path and a sentence, and the errors that carry them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_SHOWN = 20
_LONGEST_PATH = 300
_LONGEST_MESSAGE = 1000
_LONGEST_REASON = _SHOWN * _LONGEST_MESSAGE


@dataclass(frozen=True, order=True, slots=True)
class Problem:
    """One error or warning about a pod, and the field it is about.

    `path` is spelled as Kubernetes spells it (`spec.containers[0].image`, `metadata.labels[app]`) and is empty if
    the problem is about the whole document.
    """

    path: str
    message: str

    def __str__(self) -> str:
        """Format it as one line: user-chosen text is truncated, and characters that could mislead are escaped."""
        path, message = in_ascii(self.path, _LONGEST_PATH), on_one_line(self.message, _LONGEST_MESSAGE)
        return f"{path}: {message}" if path else message


def on_one_line(text: str, longest: int) -> str:
    """Return a text with control and invisible characters escaped, truncated to this many characters."""
    cut = text if len(text) <= longest else f"{text[:longest]}…"
    return cut if cut.isprintable() else "".join(one if one.isprintable() else _escaped(one) for one in cut)


def in_ascii(text: str, longest: int) -> str:
    """Return a text as `on_one_line` does, with non-ASCII characters escaped too.

    This is for names, which are ASCII if they are valid, so that a Cyrillic letter does not pass for a Latin one.
    """
    line = on_one_line(text, longest)
    return line if line.isascii() else "".join(one if one.isascii() or one == "…" else _escaped(one) for one in line)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def sentence(problems: Iterable[Problem]) -> str:
    """Join at most twenty problems on one line. Equal messages appear once, after the paths of all their problems."""
    found = tuple(problems)
    paths: dict[str, list[str]] = {}
    for problem in found[:_SHOWN]:
        paths.setdefault(problem.message, []).append(problem.path)
    texts = [
        f"{', '.join(in_ascii(path, _LONGEST_PATH) for path in those)}: {on_one_line(message, _LONGEST_MESSAGE)}"
        if len(those) > 1
        else str(Problem(those[0], message))
        for message, those in paths.items()
    ]
    return "; ".join([*texts, *_others(found)])


def lines(problems: Iterable[Problem]) -> list[str]:
    """Format problems as lines, at most twenty, and a last line that says how many more there are."""
    found = tuple(problems)
    return [*(str(problem) for problem in found[:_SHOWN]), *_others(found)]


def _others(found: Sequence[Problem]) -> list[str]:
    """Return a line with the number of problems that are not shown; empty if all are shown."""
    return [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []


class PodInvalid(ValueError):
    """A document is not a pod that can be admitted; `problems` has every reason."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(sentence(self.problems))


class ManifestError(ValueError):
    """A file or stream cannot be read: which one, which document in it (from 1; 0 is the whole), and why."""

    def __init__(self, source: str, document: int, reason: str) -> None:
        self.source = source
        self.document = document
        self.reason = reason
        name = on_one_line(source, _LONGEST_PATH)
        place = f"{name}, document {document}" if document else name
        super().__init__(f"{place}: {on_one_line(reason, _LONGEST_REASON)}")


class OtherKind(ManifestError):
    """An object is of a kind that is not applied here."""


class ManifestErrors(ValueError):
    """Objects of a file or stream are invalid: a line for each, at most twenty."""

    def __init__(self, errors: Iterable[ManifestError]) -> None:
        self.errors = tuple(errors)
        texts = [str(error) for error in self.errors[:_SHOWN]]
        if len(self.errors) > _SHOWN:
            texts.append(f"and {len(self.errors) - _SHOWN} more")
        super().__init__("\n".join(texts))
