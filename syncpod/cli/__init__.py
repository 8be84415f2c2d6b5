"""The ``syncpod`` command: kubectl's verbs, flags and columns, on pods that are Temporal workflows.

Layers import downwards only (a contract in pyproject.toml says which): `main`, `program`, then `commands`, then the
rooms that do their work. Modules that only some commands need (the Temporal client, the models, the runtime's client)
are imported where they are used, to keep each start of the program short.
"""
