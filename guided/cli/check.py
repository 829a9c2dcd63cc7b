"""`guided check`: does a specification compile, is each of its keywords enforced, and do texts satisfy it?

In: a specification, and texts. Out: a report. The exit code is 1 if the specification is refused or a text does not
match. Texts are matched by the compiled automaton, with the result of a validator: any whitespace, escapes and member
order that JSON allows are accepted, unless options say otherwise.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import Final

from guided.cli.console import DONE, NEGATIVE, Progress, error_fields, print_json
from guided.cli.kinds import as_flags
from guided.cli.specification import Specification, add_specification, read_specification
from guided.cli.texts import add_texts, read_texts
from guided.errors import GuidedError, LimitExceeded, UnsupportedError
from guided.frontends.json_schema import JsonSchemaOptions, Report, check_json_schema
from guided.frontends.json_schema.check import pattern_notes, set_notes
from guided.matching import CompiledGrammar, Explanation, GrammarCompiler, GrammarMatcher
from guided.matching.explain.error_location import ErrorLocation, error_location_of
from guided.matching.sentences import byte_vocabulary

__all__ = ["EXAMPLES", "HELP", "NAME", "PURPOSE", "USAGE", "add_arguments", "run"]

NAME = "check"
USAGE = "SPECIFICATION [--text TEXT ...] [--instance FILE ...] [OPTION ...]"
HELP = "report what is enforced and what is refused, and whether texts match"
PURPOSE = "Report which parts of a specification are enforced and which are refused, and whether texts match it."
EXAMPLES = r"""examples:
  guided check --schema order.schema.json                     # a line for each keyword
  guided check --schema order.schema.json --instance order.json --instance other.json
  guided check --schema '{"type": "integer"}' --text 12       # a schema and a text on the command line
  guided check --regex '(\w+) \1'                             # refused: the caret shows the back-reference
  guided check --schema s.json --numbers plain --text 1e3     # would generation write a number like this?

exit codes: 0 it compiles, and every text matches; 1 it is refused, or a text does not match; 2 it is invalid
"""

_MAX_SHOWN: Final = 200  # characters of the shortest text
_VALIDATOR_OPTIONS: Final = JsonSchemaOptions(surrounding_whitespace=True, property_order="any")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_specification(parser, required=True, generating=False)
    add_texts(parser.add_argument_group("texts"), "match")


@dataclass(frozen=True)
class Verdict:
    """Whether a text matches, and where it fails."""

    name: str
    matches: bool
    error_location: ErrorLocation | None = None


def run(arguments: argparse.Namespace) -> int:
    """Print the report. Return 0, or 1 if a check failed."""
    specification = read_specification(arguments)
    assert specification is not None
    texts = read_texts(arguments)
    base = _VALIDATOR_OPTIONS if texts else JsonSchemaOptions()
    report = _check_keywords(specification, base)
    error: GuidedError | None = report.error if report is not None else None
    grammar: CompiledGrammar | None = None
    if error is None:
        try:
            grammar = specification.compile(GrammarCompiler(byte_vocabulary()), base)
        except (UnsupportedError, LimitExceeded) as refusal:
            error = refusal
    elif not isinstance(error, UnsupportedError | LimitExceeded):
        raise error
    verdicts = [_check_text(grammar, name, text) for name, text in texts] if grammar is not None else []
    explanation = GrammarMatcher(grammar).explain() if grammar is not None else None
    if arguments.json:
        _print_json(specification, report, error, explanation, verdicts)
    else:
        _print_text(report, error, explanation, verdicts)
    return DONE if error is None and all(verdict.matches for verdict in verdicts) else NEGATIVE


def _check_keywords(specification: Specification, base: JsonSchemaOptions) -> Report | None:
    if specification.kind == "regex":
        list_notes = pattern_notes if specification.options.get("dialect") == "ecma" else set_notes
        return Report(tuple(list_notes(specification.value, "", "")))
    if specification.kind != "schema":
        return None
    with Progress("reading the schema"):
        options = specification.schema_options(base)
        return check_json_schema(
            specification.value, options, registry=specification.registry, documents=specification.documents
        )


def _check_text(grammar: CompiledGrammar, name: str, text: bytes) -> Verdict:
    matcher = GrammarMatcher(grammar)
    if matcher.accept_string(text) and matcher.is_accepting():
        return Verdict(name, True)
    return Verdict(name, False, error_location_of(grammar, text, must_end=True))


def _print_text(
    report: Report | None, error: GuidedError | None, explanation: Explanation | None, verdicts: list[Verdict]
) -> None:
    for entry in report.entries if report is not None else ():
        print(f"{entry.status:10}  {entry.pointer or '(root)'}" + (f"  {entry.reason}" if entry.reason else ""))
        if entry.hint:
            print(f"{'':10}  hint: {as_flags(entry.hint)}")
    if error is not None:
        print(as_flags(f"refused: {error}"))
    else:
        assert explanation is not None
        text, tokens = explanation.completion.decode(), explanation.completion_tokens
        excerpt = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
        if tokens:
            predicate = "is a control token" if len(tokens) == 1 else "are control tokens"
            print(
                f"compiles; the shortest output is {excerpt!r}, where {', '.join(tokens[:9])} {predicate} and not text"
            )
        else:
            print(f"compiles; the shortest text is {excerpt!r}")
    for verdict in verdicts:
        print(f"{verdict.name}: {'matches' if verdict.error_location is None else 'does not match'}")
        if verdict.error_location is not None:
            print(verdict.error_location)


def _print_json(
    specification: Specification,
    report: Report | None,
    error: GuidedError | None,
    explanation: Explanation | None,
    verdicts: list[Verdict],
) -> None:
    print_json(
        {
            "kind": specification.kind,
            "compiles": error is None,
            "error": None if error is None else error_fields(error),
            "entries": [asdict(entry) for entry in report.entries] if report is not None else [],
            "findings": [asdict(finding) for finding in report.findings] if report is not None else [],
            "shortest": None if explanation is None else explanation.completion.decode(),
            "control_tokens": [] if explanation is None else list(explanation.completion_tokens),
            "texts": [
                {
                    "name": verdict.name,
                    "matches": verdict.matches,
                    "place": verdict.error_location.fields() if verdict.error_location else None,
                }
                for verdict in verdicts
            ],
        }
    )
