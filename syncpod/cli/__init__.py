"""The ``syncpod`` command: kubectl's verbs, flags and columns, on pods that are Temporal workflows.

Layers import downwards only, in the order of a contract in pyproject.toml: `main`, `program`, `commands`, then the
modules that do the commands' work. Modules that only some commands need (the Temporal client, the models, the runtime's
client) are imported where they are used, to keep each start of the program short.
"""
