"""The work of ``syncpod patch``: change fields of pods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncpod.cli.failure import BadInput
from syncpod.pod import ManifestError, read_documents

if TYPE_CHECKING:
    pass


def read_patch(text: str, file: str) -> Any:
    """Return the patch's data. Raises BadInput for what is neither JSON nor YAML."""
    try:
        whole = Path(file).read_text() if file else text
        found = [document for _, document in read_documents(whole, source=file or "--patch")]
    except OSError as error:
        raise BadInput(f"--patch-file: {file}: {error.strerror}") from None
    except ManifestError as wrong:
        raise BadInput(str(wrong)) from None
    if len(found) != 1:
        raise BadInput("--patch: must be one document")
    return found[0]
