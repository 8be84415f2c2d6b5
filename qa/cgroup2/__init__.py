"""A machine with cgroups of version 2: a guest of this one, with its files and a Debian kernel."""
