"""The first version of the calls."""
