"""Whether this run is `make nightly`, which draws more random cases and simulates more."""

import os

NIGHTLY = bool(os.environ.get("SYNCPOD_NIGHTLY"))
