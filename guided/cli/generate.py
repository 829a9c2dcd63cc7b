"""`guided generate`: a model answers a prompt, and its text satisfies the specification.

In: a prompt, a model, an optional specification, and options (options.py); or a file of such requests (batch.py). Out:
the text, streamed on a terminal. Under a specification, the answer is complete within --max-tokens; if no answer fits,
the command fails before the first token. Needs guided-decoding[engine].
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from guided.cli.batch import Batch, add_batch, build_prompt
from guided.cli.console import DONE, InputError, Progress, note, print_json, read_text
from guided.cli.model import DEFAULT_MODEL, MODEL_HELP, add_model_options
from guided.cli.model import load_engine as _load_engine
from guided.cli.options import add_options, collect_options, find_tools
from guided.cli.results import describe_shortening, describe_speed, is_shortened, result_to_json
from guided.cli.specification import GENERATION, add_specification, read_specification
from guided.errors import GuidedError, VocabularyError
from guided.matching import GrammarCompiler
from guided.matching.sentences import byte_vocabulary

if TYPE_CHECKING:
    from guided.engine.engine import Engine, Prompt
    from guided.engine.result import Result
    from guided.matching import CompiledGrammar

__all__ = ["EXAMPLES", "HELP", "NAME", "PURPOSE", "USAGE", "add_arguments", "run"]

NAME = "generate"
USAGE = "(PROMPT | - | --batch FILE) [SPECIFICATION] [OPTION ...]"
HELP = "answer a prompt with a model, under a specification"
PURPOSE = "Answer a prompt with a model. The output satisfies the specification and is complete within --max-tokens."
EXAMPLES = r"""examples:
  guided generate "Three rivers in Europe?" --schema '{"type": "array", "items": {"type": "string", "maxLength": 20},
                                                       "minItems": 3, "maxItems": 3}'
  guided generate "Is 91 a prime number?" --choice yes,no
  guided generate "When did the Berlin Wall fall?" --regex '\d{1,2} (October|November|December) \d{4}'
  guided generate - --schema order.schema.json --max-tokens 200 --json < email.txt
  guided generate "Once upon a time" --raw --temperature 0.8 --seed 7 --model model.gguf
  guided generate "Sort this ticket: ..." --choice bug,idea --model base.gguf --adapter tickets-lora
  guided generate "A haiku." --temperature 1 --min-p 0.1 --repetition-penalty 1.1 --stop END --n 3
  guided generate --batch questions.jsonl -o answers.jsonl --schema answer.schema.json --max-tokens 200

A line of --batch is one request. The command line gives defaults for its options:
  {"id": "a", "prompt": "Three rivers?", "regex": "[a-z]+(, [a-z]+){2}", "max_tokens": 40}
  {"messages": [{"role": "user", "content": "Who?"}], "schema": {"type": "string", "maxLength": 20}, "seed": 7}
  {"prompt": "Yes or no?", "choice": ["yes", "no"], "temperature": 0.5, "n": 3}
  {"prompt": "A date?", "gbnf": "root ::= [0-9]{4} \"-\" [0-9]{2}"}
Options have the names of the flags, with _ for - (exceptions: include_stop_str_in_output, tools: ["calculator"]).
Answers are JSON lines in the order of the input; a request that fails becomes {"id": ..., "line": 3, "error": {...}}.

Small models may loop in unbounded strings and arrays: set maxLength, maxItems, --max-string, --max-items.
exit codes: 0 done; 1 some requests of a batch failed; 2 bad input
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("prompt", nargs="?", help="the message to answer; - for standard input")
    add_specification(parser, required=False, generating=True)
    model = parser.add_argument_group("model")
    model.add_argument("--model", default=DEFAULT_MODEL, metavar="NAME", help=MODEL_HELP)
    add_model_options(model)
    model.add_argument("--system", metavar="TEXT", help="the system message")
    model.add_argument(
        "--raw", action="store_true", default=None, help="continue the prompt itself, without the chat template"
    )
    add_options(parser)
    add_batch(parser)
    output = parser.add_argument_group("streaming")
    output.add_argument(
        "--stream",
        action=argparse.BooleanOptionalAction,
        help="print the text as it is generated; with --json, one event per line (default: only on a terminal)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Generate and print."""
    is_batch = arguments.batch is not None
    specification = read_specification(arguments, allows_other_kinds=is_batch)
    options = collect_options(arguments)
    n: int = options.pop("n", 1)
    _check_flags(arguments, n, specification is not None)
    if specification is not None:  # report errors in it before downloading and loading a model
        with suppress(*([VocabularyError] if specification.options.get("allow_special_tokens") else [])):
            specification.compile(GrammarCompiler(byte_vocabulary()), GENERATION)
    if is_batch:
        return Batch(arguments, specification, {**options, "n": n}).run(lambda: _load_engine(arguments))
    text = _read_prompt(arguments.prompt)
    if "tools" in options:
        options["tools"] = find_tools(options["tools"], arguments.tool_tokens)
    engine = _load_engine(arguments)
    grammar = specification.compile(engine.compiler, GENERATION) if specification is not None else None
    prompt = build_prompt(text, arguments)
    is_streaming = arguments.stream if arguments.stream is not None else sys.stdout.isatty() and not arguments.json
    try:
        if is_streaming and n == 1:
            results = [_stream(engine, prompt, grammar, options, arguments.json)]
        else:
            with Progress("generating"):
                output = engine.generate(prompt, grammar, n=n, **options)
            results = output if isinstance(output, list) else [output]
            _print(results, arguments.json)
    except ValueError as error:  # options contradict each other, or name a token that the vocabulary lacks
        raise error if isinstance(error, GuidedError) else InputError(str(error)) from None
    for result in results:
        if result.finish_reason == "length":
            note(_describe_cut_off(len(result.tokens), options.get("max_tokens")))
        if is_shortened(result):
            note(describe_shortening(result))
        if not arguments.json and sys.stderr.isatty():
            note(describe_speed(result))
    return DONE


def _read_prompt(prompt: str) -> str:
    """The prompt: the argument itself, or the text of standard input."""
    text = read_text("-") if prompt == "-" else prompt
    if not text:
        raise InputError(
            "standard input is empty, but must contain a prompt" if prompt == "-" else "the prompt is empty"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"the prompt is not UTF-8 text: invalid data at character {error.start}") from None
    return text


def _describe_cut_off(token_count: int, max_tokens: int | None) -> str:
    """A note on an output that was cut off, with advice."""
    if max_tokens is not None and token_count < max_tokens:
        return f"cut off after {token_count} tokens, because the model's context is full"
    return f"cut off after {token_count} tokens: raise --max-tokens"


def _check_flags(arguments: argparse.Namespace, n: int, has_specification: bool) -> None:
    """Refuse options that cannot be combined."""
    if (arguments.prompt is None) == (arguments.batch is None):
        raise InputError("give one prompt or --batch FILE" + (", not both" if arguments.batch else ""))
    if arguments.batch is None:
        flags = ("output", "resume", "progress")
        if flag_of_batch := next((flag for flag in flags if getattr(arguments, flag) not in (None, False)), None):
            raise InputError(f"--{flag_of_batch} belongs to --batch, which is not given")
    if arguments.raw and arguments.system is not None:
        raise InputError("--system cannot be combined with --raw, which sends no messages")
    if arguments.stream and (n > 1 or arguments.batch is not None):
        raise InputError(f"--stream shows one answer: remove --stream, or {'--n' if n > 1 else '--batch'}")
    if arguments.tools and has_specification:
        raise InputError("--tool cannot be combined with a specification: only free text can contain calls")


def _stream(
    engine: Engine, prompt: Prompt, grammar: CompiledGrammar | None, options: dict[str, Any], as_json: bool
) -> Result:
    result = None
    for event in engine.stream(prompt, grammar, **options):
        result = event.result
        if not as_json:  # reasoning is not part of the answer
            print(event.text, end="", flush=True, file=sys.stderr if event.reasoning else sys.stdout)
        elif result is None:
            extra: dict[str, Any] = {"reasoning": True} if event.reasoning else {}
            if event.budget_bound.steps:
                extra["budget_bound"] = asdict(event.budget_bound)
            if event.captures:
                extra["captures"] = event.captures
            print_json({"text": event.text, "tokens": list(event.tokens), "forced": event.forced, **extra})
        else:
            print_json({"text": event.text, "result": result_to_json(result)})
    assert result is not None
    if not as_json:
        print(flush=True)
    return result


def _print(results: list[Result], as_json: bool) -> None:
    if as_json:
        objects = [result_to_json(result) for result in results]
        print_json(objects[0] if len(objects) == 1 else objects)
        return
    for result in results:
        print(result.text)
