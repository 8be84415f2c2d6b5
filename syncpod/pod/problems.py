"""What is wrong with a pod: a path and a sentence, and the errors that carry them."""

from collections.abc import Iterable
from dataclasses import dataclass

_SHOWN = 20


@dataclass(frozen=True, order=True, slots=True)
class Problem:
    """One thing that is wrong, or worth a warning, and where.

    `path` is spelled as Kubernetes spells it (`spec.containers[0].image`, `metadata.labels[app]`) and is empty where
    the whole document is meant.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def sentence(problems: Iterable[Problem]) -> str:
    """Join problems on one line, at most twenty of them."""
    texts = [str(problem) for problem in problems]
    if len(texts) > _SHOWN:
        texts[_SHOWN:] = [f"and {len(texts) - _SHOWN} more"]
    return "; ".join(texts)


class PodInvalid(ValueError):
    """A document is not a pod that can be taken; `problems` says why, all of it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(sentence(self.problems))


class ManifestError(ValueError):
    """A file or stream cannot be read: which one, which document in it (from 1; 0 is the whole), and why."""

    def __init__(self, source: str, document: int, reason: str) -> None:
        self.source = source
        self.document = document
        self.reason = reason
        place = f"{source}, document {document}" if document else source
        super().__init__(f"{place}: {reason}")
