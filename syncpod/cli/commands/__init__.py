"""The commands, and modules that only commands need. `syncpod.cli.command_table` names the module of each command."""
