"""The node of this machine, as the commands find it: its processes, directories, runtime, objects and logs."""
