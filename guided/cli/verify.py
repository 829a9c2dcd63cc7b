"""`guided verify`: was each token of an output allowed by the masks of its generation?

In: a specification, a vocabulary, and outputs: token ids, or texts, which the vocabulary's tokenizer encodes. Out: for
each output, whether every token was allowed; otherwise the first token that was not allowed, its position in the text,
and the reason. The masks are the same as in `guided generate`, so the options have the same defaults. The exit code is
1 if a token was not allowed. Failed requests of a batch have no output. They are reported, and do not change the code.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any, Final

from guided.cli.arguments import integer
from guided.cli.console import DONE, NEGATIVE, InputError, Progress, parse_json, print_json, read_text
from guided.cli.specification import GENERATION, add_specification, read_specification
from guided.cli.texts import add_texts, read_texts
from guided.cli.vocabularies import add_vocabulary, load_vocabulary
from guided.errors import marked_line
from guided.matching import CompiledGrammar, Explanation, GrammarCompiler, Masks, masks_of
from guided.matching.explain.explanation import is_text
from guided.vocabulary import Vocabulary

__all__ = ["EXAMPLES", "HELP", "NAME", "PURPOSE", "USAGE", "add_arguments", "run"]

NAME = "verify"
USAGE = "SPECIFICATION [--ids FILE] [--text TEXT ...] [--instance FILE ...] [OPTION ...]"
HELP = "check that every token of an output was allowed by the masks"
PURPOSE = "Check that every token of an output was allowed by the masks of a specification, with or without a budget."
EXAMPLES = r"""Each line of --ids is an array of ids, such as [90, 1, 92], or an object with them as "tokens". The end
token may be among them. Lines of guided generate --json and --batch fit, too: a result, several results, or a
failed request, which has no output and is only reported. Reasoning at the beginning of a result is not verified.
With --max-tokens, each mask is computed with the budget that was left at its position.

examples:
  guided verify --schema s.json --vocabulary model.gguf --ids outputs.jsonl
  guided verify --schema s.json --vocabulary model.gguf --ids outputs.jsonl --max-tokens 256
  guided verify --regex '\d{4}-\d\d' --text 2025-1x          # over single bytes; the caret shows the x
  guided verify --schema s.json --instance answer.json --whitespace json --open --json

exit codes: 0 every token was allowed; 1 a token was not allowed; 2 bad input, or no output at all
"""

_LINE_FORM: Final = (
    'a line must be an array of token ids, an object {"tokens": [id, ...]}, or a line of guided generate --json'
)


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
        help="the budget of each output, in tokens of its reasoning and its text (default: none)",
    )


@dataclass(frozen=True)
class _Output:
    """The tokens of an output. `reasoning_length`: how many of `ids` belong to the reasoning before the text."""

    name: str
    ids: list[int]
    reasoning_length: int = 0

    def compute_masks(self, grammar: CompiledGrammar, max_tokens: int | None) -> Masks:
        """The masks of the text. The budget covers the reasoning, too."""
        budget = None if max_tokens is None else max(0, max_tokens - self.reasoning_length)
        return masks_of(grammar, self.ids[self.reasoning_length :], max_tokens=budget)


@dataclass(frozen=True)
class _Failure:
    """A request of a batch that failed. `error`: the fields of its error."""

    name: str
    error: dict[str, Any]


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
    outputs, failures = _read_lines(arguments.ids) if arguments.ids is not None else ([], [])
    outputs += [_Output(name, _encode(vocabulary, name, text)) for name, text in read_texts(arguments)]
    grammar = specification.compile(GrammarCompiler(vocabulary), GENERATION)
    with Progress("verifying"):
        verdicts = [(output, output.compute_masks(grammar, arguments.max_tokens)) for output in outputs]
    if arguments.json:
        failed = [{"name": failure.name, "error": failure.error} for failure in failures]
        print_json({"outputs": [_to_json(output, masks) for output, masks in verdicts], "failed": failed})
    else:
        for output, masks in verdicts:
            _print(output, masks)
        for failure in failures:
            print(f"{failure.name}: the request failed, so there is no output: {failure.error['message']}")
    return DONE if all(masks.refused_at is None for _, masks in verdicts) else NEGATIVE


def _read_lines(file: str) -> tuple[list[_Output], list[_Failure]]:
    """The outputs in a file, and the requests that failed."""
    source = "standard input" if file == "-" else file
    outputs, failures = list[_Output](), list[_Failure]()
    text = read_text(file, "--text takes a text itself")
    end = -1
    for number, line in enumerate(text.split("\n"), 1):
        start, end = end + 1, end + 1 + len(line)
        if not line.strip():
            continue
        name, value = f"line {number}", parse_json(text, source, "the line", (start, end))
        error = value.get("error") if isinstance(value, dict) and "tokens" not in value else None
        if isinstance(error, dict) and isinstance(error.get("message"), str):
            failures.append(_Failure(name, error))
        elif (new_outputs := _find_outputs(value, name)) is not None:
            outputs += new_outputs
        else:
            raise InputError("the line is no output").with_location(text, (start, end), source, hint=_LINE_FORM)
    if not outputs:
        reason = f"all {len(failures)} requests in it failed" if failures else _LINE_FORM
        raise InputError(f"{source} contains no outputs; {reason}")
    return outputs, failures


def _find_outputs(value: Any, name: str) -> list[_Output] | None:
    """The outputs in a line with this name; None if the line has another form."""
    if isinstance(value, dict):
        results = [value] if "tokens" in value else value.get("results")
    else:
        has_objects = isinstance(value, list) and bool(value) and isinstance(value[0], dict)
        results = value if has_objects else [{"tokens": value}]
    if not isinstance(results, list) or not results or not all(map(_is_result, results)):
        return None
    names = [name] if len(results) == 1 else [f"{name}, result {i}" for i in range(1, len(results) + 1)]
    return [
        _Output(name, result["tokens"], result.get("reasoning_tokens", 0))
        for name, result in zip(names, results, strict=True)
    ]


def _is_result(value: Any) -> bool:
    """Whether a value has the form {"tokens": [id, ...]}, and is no event of a stream, which has only some ids."""
    if not isinstance(value, dict) or "forced" in value:
        return False
    tokens, reasoning_length = value.get("tokens"), value.get("reasoning_tokens", 0)
    if not isinstance(tokens, list) or not all(type(id) is int and abs(id) < 1 << 63 for id in tokens):
        return False
    return type(reasoning_length) is int and 0 <= reasoning_length <= len(tokens)


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


def _print(output: _Output, masks: Masks) -> None:
    refusal = _find_refusal(masks)
    if refusal is None:
        count = "the only token is" if len(masks) == 1 else f"all {len(masks):,} tokens are"
        skipped = f" ({output.reasoning_length:,} of the reasoning not verified)" if output.reasoning_length else ""
        print(f"{output.name}: {count} allowed{skipped}; the output {'is' if masks.is_complete else 'is not'} complete")
        return
    assert masks.refused_at is not None
    position = output.reasoning_length + masks.refused_at
    print(f"{output.name}: token {position + 1:,} of {len(output.ids):,} is not allowed")
    print(marked_line(refusal.text, (refusal.start, refusal.end)))
    print(f"position {position}, id {output.ids[position]}, {refusal.token!r}: {refusal.explanation.reason}")


def _to_json(output: _Output, masks: Masks) -> dict[str, Any]:
    refusal = _find_refusal(masks)
    refused_token: dict[str, Any] | None = None
    if refusal is not None:
        assert masks.refused_at is not None
        position = output.reasoning_length + masks.refused_at
        refused_token = {
            "position": position,
            "id": output.ids[position],
            "token": refusal.token,
            "offset": refusal.start,
            "reason": refusal.explanation.reason,
            "expected": str(refusal.explanation.expected),
            "places": [place or "(root)" for place in refusal.explanation.places],
            "refused_by": list(refusal.explanation.refused_by),
        }
    return {
        "name": output.name,
        "tokens": len(output.ids),
        **({"reasoning_tokens": output.reasoning_length} if output.reasoning_length else {}),
        "allowed": refusal is None,
        "complete": masks.is_complete,
        "refused": refused_token,
    }
