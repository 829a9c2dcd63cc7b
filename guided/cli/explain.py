"""`guided explain`: what may follow a prefix, and why a text or a token is or is not allowed there.

In: a specification, a prefix, and optionally a text or a token. Out: where the text stops being allowed, what was
expected there, which part of the specification expects it, and the shortest completion; also how many tokens the mask
allows, which are forced, and how many tokens complete the output. The exit code is 1 if the prefix, text or token is
not allowed.
"""

from __future__ import annotations

import argparse
import os
from typing import Final

from guided.cli.arguments import integer
from guided.cli.console import DONE, NEGATIVE, InputError, print_json, read_text
from guided.cli.specification import add_specification, read_specification
from guided.cli.vocabularies import add_vocabulary, load_vocabulary
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.matching.explain.error_location import ErrorLocation, error_location_of
from guided.matching.explain.explanation import is_text
from guided.matching.explain.next_texts import NextStep, explain_next
from guided.vocabulary import Vocabulary

__all__ = ["EXAMPLES", "HELP", "NAME", "PURPOSE", "USAGE", "add_arguments", "run"]

NAME = "explain"
USAGE = "SPECIFICATION [--prefix TEXT] [--text TEXT | --token ID] [OPTION ...]"
HELP = "explain why a text or token is or is not allowed after a prefix"
PURPOSE = "Show what may follow a prefix, and why a text or a token is or is not allowed there."
EXAMPLES = r"""examples:
  guided explain --schema s.json --prefix '{"name": '              # what may follow?
  guided explain --schema s.json --prefix '{"name": ' --text 12    # why is this not allowed?
  guided explain --regex '\d{4}' --prefix 20 --token 284 --vocabulary model.gguf
  guided explain --schema s.json --prefix-file half.json --json

exit codes: 0 allowed; 1 the prefix, text or token is not allowed; 2 bad input
"""

_MAX_LISTED: Final = 8  # allowed tokens


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_specification(parser, required=True, generating=False)
    add_vocabulary(parser)
    group = parser.add_argument_group("prefix and continuation")
    prefix_group = group.add_mutually_exclusive_group()
    prefix_group.add_argument("--prefix", metavar="TEXT", default="", help="the output so far (default: empty)")
    prefix_group.add_argument(
        "--prefix-file", metavar="FILE", help="a file with the output so far; - for standard input"
    )
    continuation_group = group.add_mutually_exclusive_group()
    continuation_group.add_argument("--text", metavar="TEXT", help="a text: is it allowed next?")
    continuation_group.add_argument("--token", type=integer(0), metavar="ID", help="a token: is it allowed next?")


def run(arguments: argparse.Namespace) -> int:
    """Explain. Return 0, or 1 if the prefix, text or token is not allowed."""
    specification = read_specification(arguments)
    assert specification is not None
    vocabulary = load_vocabulary(arguments)
    if arguments.token is not None and arguments.token >= vocabulary.size:
        raise InputError(f"--token {arguments.token} is not an id of this vocabulary (0 to {vocabulary.size - 1})")
    from_file = arguments.prefix_file is not None
    prefix = (
        read_text(arguments.prefix_file, "--prefix takes the text itself").encode()
        if from_file
        else os.fsencode(arguments.prefix)
    )
    grammar = specification.compile(GrammarCompiler(vocabulary))
    matcher = GrammarMatcher(grammar)
    if not matcher.accept_string(prefix):
        return _report_refused_prefix(error_location_of(grammar, prefix), arguments.json)
    continuation = arguments.token if arguments.text is None else os.fsencode(arguments.text)
    answer = explain_next(matcher, prefix, continuation)
    if arguments.json:
        print_json({"prefix_accepted": True, **answer.fields()})
    else:
        _print(answer, continuation, vocabulary)
    return DONE if answer.explanation.accepted else NEGATIVE


def _report_refused_prefix(location: ErrorLocation, as_json: bool) -> int:
    if as_json:
        print_json({"prefix_accepted": False, "accepted": False, "reason": str(location), "place": location.fields()})
    else:
        print(f"the prefix itself is not allowed\n{location}")
    return NEGATIVE


def _print(answer: NextStep, continuation: int | bytes | None, vocabulary: Vocabulary) -> None:
    explanation = answer.explanation
    if isinstance(continuation, int):
        print(f"token {continuation} is {_describe_token(continuation, vocabulary)}")
    if answer.error_location is not None:
        print(f"not allowed\n{answer.error_location}")
    elif continuation is None:
        print(f"expected {answer.prefix_end.expected}" + answer.prefix_end.details)
    else:
        print("allowed" if explanation.accepted else explanation.reason)
    allowed = answer.allowed
    shown_tokens = ", ".join(_describe_token(token, vocabulary) for token in allowed[:_MAX_LISTED])
    ellipsis = ", ..." if len(allowed) > _MAX_LISTED else ""
    print(f"tokens allowed after the prefix: {len(allowed):,} of {vocabulary.size:,}: {shown_tokens}{ellipsis}")
    if answer.forced:
        forced_text = vocabulary.decode(answer.forced).decode(errors="replace")
        print(f"forced: {forced_text!r} ({_format_count(len(answer.forced))})")
    completion = answer.prefix_end.completion.decode(errors="backslashreplace")
    print(f"shortest way to finish: {completion!r}, {answer.min_tokens} with the end token")


def _format_count(count: int) -> str:
    return "1 token" if count == 1 else f"{count:,} tokens"


def _describe_token(token: int, vocabulary: Vocabulary) -> str:
    """A token for display: its text, or its name or id if it has no text."""
    data = vocabulary.token_bytes(token)
    if data is not None:
        return repr(data.decode()) if is_text(data) else f"id {token} (part of a character)"
    end = "end token " if token in vocabulary.eos_token_ids else ""
    return end + vocabulary.special_tokens.get(token, f"id {token}")
