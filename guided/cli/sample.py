"""`guided sample`: random sentences of the language, without a model.

In: a specification. Out: sentences of its language. Each is a random walk through the masks of the byte vocabulary
under a budget, so that it is complete and at most --max-length bytes long. A letter is likelier than a brace, which
gives texts that look like texts. With --characters any, every sentence that is short enough has a chance. The
distribution over sentences is not uniform.
"""

from __future__ import annotations

import argparse
import random
import secrets
from typing import Final

from guided.cli.arguments import at_least
from guided.cli.console import DONE, InputError, Progress, print_json
from guided.cli.specification import GENERATION, add_specification, specification_of
from guided.cli.vocabularies import byte_vocabulary
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask, allowed_tokens

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

_END: Final = 256
# (weight, bytes): the weight of a group is shared by those of its bytes that are allowed. The end is a group, too.
_KINDS: Final = (
    (3.0, frozenset([_END])),
    (8.0, frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")),
    (4.0, frozenset(b"0123456789")),
    (1.0, frozenset(b" ")),
    (2.0, frozenset(b'"')),
    (0.6, frozenset(b"}])")),
    (1.0, frozenset(b"!#$%&'(*+,-./:;<=>?@[^_`{|~")),
)
_OTHERS: Final = 0.5  # backslash, controls, bytes of characters outside ASCII


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_specification(parser, required=True, generating=True)
    group = parser.add_argument_group("sampling")
    group.add_argument("--n", type=at_least(1), default=1, metavar="N", help="the number of texts (1)")
    group.add_argument(
        "--seed", type=at_least(0), metavar="N", help="repeats the texts of an earlier run (a fresh one)"
    )
    group.add_argument(
        "--max-length", type=at_least(0), default=200, metavar="BYTES", help="the most bytes of a text (200)"
    )
    group.add_argument(
        "--characters",
        choices=("ascii", "any"),
        default="ascii",
        help="ascii: printable ASCII without escapes wherever the language allows some (ascii)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the sentences."""
    specification = specification_of(arguments)
    assert specification is not None
    grammar = specification.compile(GrammarCompiler(byte_vocabulary()), GENERATION)
    shortest = GrammarMatcher(grammar).min_tokens_to_finish() - 1
    if shortest > arguments.max_length:
        raise InputError(f"the shortest text needs --max-length {shortest}, which is {arguments.max_length}")
    seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
    generator = random.Random(seed)
    texts = []
    with Progress("sampling"):
        for _ in range(arguments.n):
            text = sentence(grammar, generator, arguments.max_length, arguments.characters == "any")
            if arguments.json:
                texts.append(text)
            else:
                print(text)
    if arguments.json:
        print_json({"seed": seed, "texts": texts})
    return DONE


def sentence(grammar: CompiledGrammar, generator: random.Random, max_length: int, any_character: bool) -> str:
    """One sentence of at most `max_length` bytes; `grammar` is compiled for the byte vocabulary."""
    matcher = GrammarMatcher(grammar)
    bitmask = allocate_token_bitmask(1, grammar.vocabulary.size)
    out = bytearray()
    while True:
        matcher.fill_next_token_bitmask(bitmask, max_tokens=max_length + 1 - len(out))
        token = _draw(allowed_tokens(bitmask), generator, any_character)
        matcher.accept_token(token)
        if token == _END:
            return out.decode()
        out.append(token)


def _draw(allowed: list[int], generator: random.Random, any_character: bool) -> int:
    kinds: list[tuple[float, list[int]]] = []
    left = set(allowed)
    for weight, kind in _KINDS:
        if common := sorted(left & kind):
            kinds.append((weight, common))
            left -= kind
    if left and (any_character or not kinds):
        kinds.append((_OTHERS, sorted(left)))
    _, chosen = generator.choices(kinds, [weight for weight, _ in kinds])[0]
    return generator.choice(chosen)
