"""`guided generate`: a model answers a prompt, and what it writes satisfies the specification.

In: a prompt, a model, a specification (or none), numbers of sampling. Out: the text, as it comes on a terminal. The
answer is complete within --max-tokens, or refused before the first token. Needs guided[engine].
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import TYPE_CHECKING, Any

from guided.cli.arguments import at_least, real
from guided.cli.console import DONE, InputError, Progress, note, print_json, read_text
from guided.cli.specification import GENERATION, add_specification, specification_of
from guided.cli.vocabularies import byte_vocabulary
from guided.matching import GrammarCompiler

if TYPE_CHECKING:
    from guided.engine.engine import Engine, Options, Prompt
    from guided.engine.result import Result
    from guided.matching import CompiledGrammar

__all__ = ["EXAMPLES", "HELP", "NAME", "add_arguments", "run"]

NAME = "generate"
HELP = "answer a prompt with a model, under a specification"
EXAMPLES = r"""examples:
  guided generate "Three rivers in Europe?" --schema '{"type": "array", "items": {"type": "string", "maxLength": 20},
                                                       "minItems": 3, "maxItems": 3}'
  guided generate "Is 91 a prime number?" --choice yes,no
  guided generate "When did the Berlin Wall fall?" --regex '\d{1,2} (October|November|December) \d{4}'
  guided generate - --schema order.schema.json --max-tokens 200 --json < email.txt
  guided generate "Once upon a time" --raw --temperature 0.8 --seed 7 --model model.gguf

Small models loop in strings and arrays without an end: give caps (maxLength, maxItems; --max-string, --max-items).
exit codes: 0 done, 2 bad input
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("prompt", help="the message to answer; - for standard input")
    add_specification(parser, required=False, generating=True)
    model = parser.add_argument_group("model")
    model.add_argument(
        "--model",
        default="smollm2-135m-instruct",
        metavar="NAME",
        help="a name, a GGUF file or a directory (%(default)s)",
    )
    model.add_argument("--system", metavar="TEXT", help="the system message")
    model.add_argument("--raw", action="store_true", help="go on from the prompt itself, without the chat template")
    model.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, ... (auto)")
    model.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto", help="of the weights (auto)")
    model.add_argument("--threads", type=at_least(1), metavar="N", help="of PyTorch (its own choice)")
    sampling = parser.add_argument_group("sampling")
    sampling.add_argument(
        "--max-tokens", type=at_least(1), default=256, metavar="N", help="budget, end token included (256)"
    )
    sampling.add_argument("--temperature", type=real(0), default=0.0, metavar="T", help="0: the most likely token (0)")
    sampling.add_argument("--top-k", type=at_least(1), metavar="K", help="only the K most likely")
    sampling.add_argument("--top-p", type=real(1e-9, 1), metavar="P", help="only the likeliest with this probability")
    sampling.add_argument(
        "--seed", type=at_least(0, 2**64 - 1), metavar="N", help="the same answer again (none: a fresh one)"
    )
    sampling.add_argument("--n", type=at_least(1), default=1, metavar="N", help="how many answers (1)")
    output = parser.add_argument_group("output")
    output.add_argument(
        "--stream",
        action=argparse.BooleanOptionalAction,
        help="print the text as it comes; with --json an event a line (on a terminal: yes)",
    )
    output.add_argument("--quiet", action="store_true", help="no figures on standard error")


def run(arguments: argparse.Namespace) -> int:
    """Generate and print."""
    specification = specification_of(arguments)
    if arguments.raw and arguments.system is not None:
        raise InputError("--system is a message, and --raw sends none")
    if arguments.stream and arguments.n > 1:
        raise InputError("--stream shows one answer; leave it out, or --n")
    text = read_text("-") if arguments.prompt == "-" else arguments.prompt
    if specification is not None:  # what is wrong with it is said before a model is fetched and loaded
        specification.compile(GrammarCompiler(byte_vocabulary()), **GENERATION)
    engine = _engine(arguments)
    grammar = specification.compile(engine.compiler, **GENERATION) if specification is not None else None
    prompt = _prompt(text, arguments)
    options: Options = {
        "max_tokens": arguments.max_tokens,
        "temperature": arguments.temperature,
        "top_k": arguments.top_k,
        "top_p": arguments.top_p,
        "seed": arguments.seed,
    }
    streaming = arguments.stream if arguments.stream is not None else sys.stdout.isatty() and not arguments.json
    if streaming and arguments.n == 1:
        results = [_stream(engine, prompt, grammar, options, arguments.json)]
    else:
        with Progress("generating"):
            made = engine.generate(prompt, grammar, n=arguments.n, **options)
        results = made if isinstance(made, list) else [made]
        _print(results, arguments.json)
    for result in results:
        if result.finish_reason == "length":
            note(f"cut off after {len(result.tokens)} tokens: --max-tokens allows more")
        if not arguments.quiet and not arguments.json and sys.stderr.isatty():
            note(_figures(result))
    return DONE


def _engine(arguments: argparse.Namespace) -> Engine:
    try:
        with Progress("loading PyTorch"):
            import torch

            from guided.engine.engine import Engine
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise InputError("generating needs PyTorch: pip install 'guided[engine]'") from None
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    try:
        torch.empty(0, device="cpu" if arguments.device == "auto" else arguments.device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"--device {arguments.device} cannot be used: {str(error).splitlines()[0]}") from None
    return Engine.from_pretrained(arguments.model, device=arguments.device, dtype=arguments.dtype)


def _prompt(text: str, arguments: argparse.Namespace) -> Prompt:
    if arguments.raw:
        return text
    messages = [{"role": "user", "content": text}]
    return [{"role": "system", "content": arguments.system}, *messages] if arguments.system is not None else messages


def _stream(engine: Engine, prompt: Prompt, grammar: CompiledGrammar | None, options: Options, as_json: bool) -> Result:
    result = None
    for event in engine.stream(prompt, grammar, **options):
        result = event.result
        if not as_json:
            print(event.text, end="", flush=True)
        elif result is None:
            print_json({"text": event.text, "tokens": list(event.tokens), "forced": event.forced})
        else:
            print_json({"text": event.text, "result": _fields(result)})
    assert result is not None
    if not as_json:
        print(flush=True)
    return result


def _print(results: list[Result], as_json: bool) -> None:
    if as_json:
        fields = [_fields(result) for result in results]
        print_json(fields[0] if len(fields) == 1 else fields)
        return
    for result in results:
        print(result.text)


def _fields(result: Result) -> dict[str, Any]:
    try:
        value, value_error = result.value, None
    except (ValueError, RecursionError) as error:
        value, value_error = None, str(error)
    timings = result.timings
    return {
        "text": result.text,
        "value": value,
        **({"value_error": value_error} if value_error is not None else {}),
        "tokens": result.tokens,
        "token_masks": result.token_masks,
        "finish_reason": result.finish_reason,
        "prompt_tokens": result.prompt_tokens,
        "seed": result.seed,
        "removed_log_mass": result.removed_log_mass,
        "seconds": timings.total,
        "tokens_per_second": result.tokens_per_second,
        "mask_us": {"median": statistics.median(timings.mask_us), "max": max(timings.mask_us)}
        if timings.mask
        else None,
    }


def _figures(result: Result) -> str:
    forced = len(result.tokens) - sum(result.token_masks)
    parts = [f"{len(result.tokens)} tokens, {forced} of them forced", f"{result.timings.total:.1f} s"]
    parts += [f"{result.tokens_per_second:.1f} tokens/s", f"seed {result.seed}"]
    if result.timings.mask:
        parts.append(f"mask {statistics.median(result.timings.mask_us):.0f} us")
    return "; ".join(parts)
