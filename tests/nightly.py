"""Whether this is `make nightly`, which runs more of what is drawn at random and simulated."""

import os

NIGHTLY = bool(os.environ.get("SYNCPOD_NIGHTLY"))
