"""Records whether aiohttp decompresses a body, which it does on the event loop, at a cost that the sender chooses."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from aiohttp import compression_utils

BODY = gzip.compress(bytes(1 << 20))


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the sizes of bodies that are decompressed from now on."""
    sizes: list[int] = []
    unpacked = compression_utils.ZLibDecompressor.decompress_sync

    def noting(self: Any, data: Any, *arguments: Any, **options: Any) -> bytes:
        sizes.append(len(data))
        return unpacked(self, data, *arguments, **options)

    monkeypatch.setattr(compression_utils.ZLibDecompressor, "decompress_sync", noting)
    return sizes
