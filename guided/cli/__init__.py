"""The command line: guided generate | check | explain | verify | sample | serve | lint | bench | models.

In: arguments. Out: the exit code: 0 success; 1 a negative or incomplete result; 2 bad input; 3 a bug in guided; 130
interrupted; 141 the reader closed the output pipe. Each command is a module that adds its own arguments and runs.
Packages beyond the base install are imported when a command needs them.
"""

from __future__ import annotations

from guided.cli.main import main

__all__ = ["main"]
