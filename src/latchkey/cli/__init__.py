"""The command line: entry, output, and commands that belong to no subject. Begin with `main.py`."""
