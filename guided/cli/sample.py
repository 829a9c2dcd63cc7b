"""`guided sample`: random sentences that satisfy a specification, without a model.

In: a specification. Out: sentences of its language, see `guided/matching/sentences.py`.
"""

from __future__ import annotations

import argparse
import random
import secrets

from guided.cli.arguments import integer
from guided.cli.console import DONE, InputError, Progress, print_json
from guided.cli.specification import GENERATION, add_specification, read_specification
from guided.errors import format_count
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.matching.sentences import byte_vocabulary, draw_sentence

__all__ = ["EXAMPLES", "HELP", "NAME", "PURPOSE", "USAGE", "add_arguments", "run"]

NAME = "sample"
USAGE = "SPECIFICATION [--n N] [OPTION ...]"
HELP = "print random texts that satisfy a specification (no model)"
PURPOSE = "Print random texts that satisfy a specification. No model is needed."
EXAMPLES = r"""examples:
  guided sample --regex '[A-Z]{2}-\d{4}' --n 3
  guided sample --schema order.schema.json --n 10 --seed 7 --max-length 400
  guided sample --choice 'yes,no,I do not know' --json
  guided sample --pattern 'UPPER+ : SPACE LOWER+'

exit codes: 0 done; 2 bad input, or no text is short enough
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_specification(parser, required=True, generating=True)
    group = parser.add_argument_group("sampling")
    group.add_argument("--n", type=integer(1), default=1, metavar="N", help="the number of texts (default: 1)")
    group.add_argument(
        "--seed", type=integer(0), metavar="N", help="the same seed gives the same texts (default: a random seed)"
    )
    group.add_argument(
        "--max-length",
        type=integer(0),
        default=200,
        metavar="BYTES",
        help="the maximum length of a text (default: 200)",
    )
    group.add_argument(
        "--characters",
        choices=("ascii", "any"),
        default="ascii",
        help="ascii: printable ASCII without escapes, wherever the specification allows it (default: ascii)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the sentences."""
    specification = read_specification(arguments)
    assert specification is not None
    grammar = specification.compile(GrammarCompiler(byte_vocabulary()), GENERATION)
    min_length = GrammarMatcher(grammar).min_tokens_to_finish() - 1
    if min_length > arguments.max_length:
        shortest = format_count(min_length, "byte")
        raise InputError(f"the shortest text has {shortest}, but --max-length is {arguments.max_length}")
    seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
    generator = random.Random(seed)
    texts = []
    with Progress("sampling"):
        for _ in range(arguments.n):
            text = draw_sentence(grammar, generator, arguments.max_length, arguments.characters == "any")
            if arguments.json:
                texts.append(text)
            else:
                print(text)
    if arguments.json:
        print_json({"seed": seed, "texts": texts})
    return DONE
