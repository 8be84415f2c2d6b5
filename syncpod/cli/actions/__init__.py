"""The work of the commands. A command imports it when it runs, so that `--help` and completion stay quick."""
