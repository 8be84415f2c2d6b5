"""The commands: a module for each, with the name that the user types, and modules that only commands need."""
