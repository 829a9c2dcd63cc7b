"""Texts on the command line: --instance FILE and --text TEXT, each any number of times."""

from __future__ import annotations

import argparse
import os

from guided.cli.console import read_text

__all__ = ["add_texts", "read_texts"]


def add_texts(group: argparse._ArgumentGroup, purpose: str) -> None:
    """Add --instance and --text to a group. `purpose`: what is done with a text, such as "match"."""
    group.add_argument(
        "--instance",
        metavar="FILE",
        action="append",
        default=[],
        help=f"a file with a text to {purpose}; - for standard input",
    )
    group.add_argument("--text", action="append", default=[], help=f"a text to {purpose}")


def read_texts(arguments: argparse.Namespace) -> list[tuple[str, bytes]]:
    """The name and the content of each text. Raises InputError if a file cannot be read."""
    texts = [(name, read_text(name, "--text takes the text itself").encode()) for name in arguments.instance]
    return [*texts, *((f"text {number + 1}", os.fsencode(text)) for number, text in enumerate(arguments.text))]
