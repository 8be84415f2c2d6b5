"""The ``syncpod`` command: kubectl's verbs, flags and columns, on pods that are Temporal workflows.

One module per command or noun; `main` puts them together. Modules that only some commands need (the Temporal client,
the models, the runtime's client) are imported where they are used, since a command line is started often.
"""
