"""The node of this machine: its processes, directories, runtime, objects and logs."""
