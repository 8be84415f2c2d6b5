"""Tests under cgroups of version 2: in a virtual machine with this machine's files and a Debian kernel."""
