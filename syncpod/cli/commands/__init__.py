"""The commands: a module for each, named as a person types it, beside what only one of them needs."""
