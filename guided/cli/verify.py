"""`guided verify`: was each token of an output allowed by the masks of its generation?

In: a specification, a vocabulary, and outputs: token ids, or texts, which the vocabulary's tokenizer encodes. Out: for
each output, whether every token was allowed; otherwise the first token that was not allowed, its position in the text,
and the reason. The masks are the same as in `guided generate`, so the options have the same defaults. The exit code is
1 if a token was not allowed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any, Final

from guided.cli.arguments import integer
from guided.cli.console import DONE, NEGATIVE, InputError, Progress, print_json, read_text
from guided.cli.specification import GENERATION, add_specification, read_specification
from guided.cli.texts import add_texts, read_texts
from guided.cli.vocabularies import add_vocabulary, load_vocabulary
from guided.errors import SpecError, brief, marked_line
from guided.frontends.json_schema.documents.values import load_json
from guided.matching import Explanation, GrammarCompiler, Masks, masks_of
from guided.matching.explain.explanation import is_text
from guided.vocabulary import Vocabulary

__all__ = ["EXAMPLES", "HELP", "NAME", "PURPOSE", "USAGE", "add_arguments", "run"]

NAME = "verify"
USAGE = "SPECIFICATION [--ids FILE] [--text TEXT ...] [--instance FILE ...] [OPTION ...]"
HELP = "check that every token of an output was allowed by the masks"
PURPOSE = "Check that every token of an output was allowed by the masks of a specification, with or without a budget."
EXAMPLES = r"""Each line of --ids is an array of ids, such as [90, 1, 92], or an object with them as "tokens", such as a
result of guided generate --json. The end token may be among them. With --max-tokens, each mask is computed with
the budget that was left at its position.

examples:
  guided verify --schema s.json --vocabulary model.gguf --ids outputs.jsonl
  guided verify --schema s.json --vocabulary model.gguf --ids outputs.jsonl --max-tokens 256
  guided verify --regex '\d{4}-\d\d' --text 2025-1x          # over single bytes; the caret shows the x
  guided verify --schema s.json --instance answer.json --whitespace json --open --json

exit codes: 0 every token was allowed; 1 a token was not allowed; 2 bad input
"""

_LINE_FORM: Final = 'a line must be an array of token ids, or an object {"tokens": [id, ...]}'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_specification(parser, required=True, generating=True)
    add_vocabulary(parser)
    group = parser.add_argument_group("outputs")
    group.add_argument("--ids", metavar="FILE", help="a file with the token ids of one output on each line, see below")
    add_texts(group, "encode and verify")
    group.add_argument(
        "--max-tokens",
        type=integer(0),
        metavar="N",
        help="the budget of each output, in tokens of its text (default: none)",
    )


@dataclass(frozen=True)
class _Refusal:
    """The first token of an output that was not allowed. `start`, `end`: its span in the text, in characters."""

    token: str
    text: str
    start: int
    end: int
    explanation: Explanation


def run(arguments: argparse.Namespace) -> int:
    """Verify the outputs. Return 0, or 1 if a token was not allowed."""
    specification = read_specification(arguments)
    assert specification is not None
    if arguments.ids is None and not arguments.text and not arguments.instance:
        raise InputError("there is no output to verify: give --ids, --text or --instance")
    vocabulary = load_vocabulary(arguments)
    outputs = _read_lines(arguments.ids) if arguments.ids is not None else []
    outputs += [(name, _encode(vocabulary, name, text)) for name, text in read_texts(arguments)]
    grammar = specification.compile(GrammarCompiler(vocabulary), GENERATION)
    with Progress("verifying"):
        verdicts = [(name, masks_of(grammar, ids, max_tokens=arguments.max_tokens)) for name, ids in outputs]
    if arguments.json:
        print_json({"outputs": [_to_json(name, masks) for name, masks in verdicts]})
    else:
        for name, masks in verdicts:
            _print(name, masks)
    return DONE if all(masks.refused_at is None for _, masks in verdicts) else NEGATIVE


def _read_lines(file: str) -> list[tuple[str, list[int]]]:
    """The name and the ids of each output in a file."""
    source = "standard input" if file == "-" else file
    outputs = []
    for number, line in enumerate(read_text(file, "--text takes a text itself").split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = load_json(line)
        except SpecError as error:
            raise InputError(f"{source}, line {number}: {error.message}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{source}, line {number} is not JSON: {error}; {_LINE_FORM}") from None
        ids = value.get("tokens") if isinstance(value, dict) else value
        if not isinstance(ids, list) or not all(type(id) is int and abs(id) < 1 << 63 for id in ids):
            raise InputError(f"{source}, line {number} is {brief(line)}; {_LINE_FORM}")
        outputs.append((f"line {number}", ids))
    if not outputs:
        raise InputError(f"{source} contains no outputs; {_LINE_FORM}")
    return outputs


def _encode(vocabulary: Vocabulary, name: str, text: bytes) -> list[int]:
    if not is_text(text):
        raise InputError(f"{name} is not UTF-8 text; pass its token ids with --ids")
    return vocabulary.encode(text.decode())


def _find_refusal(masks: Masks) -> _Refusal | None:
    explanation, index = masks.explain(), masks.refused_at
    if explanation is None or index is None:
        return None
    vocabulary, ids = masks.grammar.vocabulary, masks.ids.tolist()
    pieces = [_get_token_text(vocabulary, id) for id in ids]
    start, end = (len(b"".join(pieces[:count]).decode(errors="replace")) for count in (index, index + 1))
    text = b"".join(pieces).decode(errors="replace")
    return _Refusal(pieces[index].decode(errors="replace"), text, min(start, end), end, explanation)


def _get_token_text(vocabulary: Vocabulary, id: int) -> bytes:
    """The text of a token, or its name."""
    data = vocabulary.token_bytes(id) if 0 <= id < vocabulary.size else None
    return vocabulary.special_tokens.get(id, f"<[{id}]>").encode() if data is None else data


def _print(name: str, masks: Masks) -> None:
    refusal = _find_refusal(masks)
    if refusal is None:
        count = "the only token is" if len(masks) == 1 else f"all {len(masks):,} tokens are"
        print(f"{name}: {count} allowed; the output {'is' if masks.is_complete else 'is not'} complete")
        return
    assert masks.refused_at is not None
    print(f"{name}: token {masks.refused_at + 1:,} of {len(masks):,} is not allowed")
    print(marked_line(refusal.text, (refusal.start, refusal.end)))
    print(
        f"position {masks.refused_at}, id {masks.ids[masks.refused_at]}, {refusal.token!r}: "
        f"{refusal.explanation.reason}"
    )


def _to_json(name: str, masks: Masks) -> dict[str, Any]:
    refusal = _find_refusal(masks)
    refused_token: dict[str, Any] | None = None
    if refusal is not None:
        assert masks.refused_at is not None
        refused_token = {
            "position": masks.refused_at,
            "id": int(masks.ids[masks.refused_at]),
            "token": refusal.token,
            "offset": refusal.start,
            "reason": refusal.explanation.reason,
            "expected": str(refusal.explanation.expected),
            "places": [place or "(root)" for place in refusal.explanation.places],
            "refused_by": list(refusal.explanation.refused_by),
        }
    return {
        "name": name,
        "tokens": len(masks),
        "allowed": refusal is None,
        "complete": masks.is_complete,
        "refused": refused_token,
    }
