"""The options of a request, on the command line and in a line of --batch, for `guided.engine.request.Options`.

In: parsed arguments, or members of a JSON object. Out: the given options, by their Python names. This module checks
types, and the engine checks values.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from guided.cli.arguments import bias, ids, integer, real
from guided.cli.console import InputError
from guided.cli.kinds import OPTIONS_OF

if TYPE_CHECKING:
    from guided.tools import Tool

__all__ = [
    "GRAMMAR_OPTIONS",
    "LINE_OPTIONS",
    "add_options",
    "add_tools",
    "collect_options",
    "find_tools",
    "read_line_options",
]

_TOOLS: Final = ("calculator",)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options, grouped by purpose. They have no defaults here, since the engine sets missing values."""
    _add_sampling(parser.add_argument_group("sampling (among the allowed tokens; applied in this order)"))
    _add_length(
        parser.add_argument_group("length (stop options apply to free text; a specification defines its own end)")
    )
    group = parser.add_argument_group("reasoning, tools, speed")
    add = group.add_argument
    add("--reasoning-end", metavar="TEXT", help="the end marker of the model's reasoning, such as '</think>'; the "
        "specification applies after it")  # fmt: skip
    add_tools(group)
    add("--drafts", type=integer(0, 64), metavar="N", help="tokens to draft for each forward pass, from earlier text "
        "or with --draft-model; the output does not change (default: 4 with a draft model, otherwise 0)")  # fmt: skip
    add("--canonical", action="store_true", default=None, help="only tokens that the tokenizer itself would produce")
    add(
        "--describe",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="describe in the system message what the answer must look like (default: schemas, types and choices, with "
        "models of at least about 200 million parameters without embeddings)",
    )
    add(
        "--think-first",
        type=_parse_think_first,
        metavar="N",
        help="write at most N tokens of free text before the answer; 'answer': write a free answer, then rewrite it",
    )
    add("--heal-prompt", action="store_true", default=None, help="if a longer token could cross the end of "
        "a raw prompt, remove the last tokens of the prompt, and generate their text again")  # fmt: skip
    group = parser.add_argument_group("log probabilities (--json)")
    add = group.add_argument
    add(
        "--logprobs",
        type=integer(0),
        metavar="K",
        help="report the log probabilities of each token and of the K most likely tokens",
    )
    add("--prompt-logprobs", type=integer(0), metavar="K", help="like --logprobs, for the tokens of the prompt")
    add(
        "--logprobs-mode",
        choices=("raw", "masked"),
        help="raw: the model's own; masked: after mask, bias and penalties (default: raw)",
    )
    add(
        "--score-forced",
        action="store_true",
        default=None,
        help="also report the log probabilities of forced tokens; costs one more forward pass",
    )


def add_tools(group: argparse._ArgumentGroup) -> None:
    """Add the options for tools that the engine runs."""
    add = group.add_argument
    add("--tool", dest="tools", action="append", choices=_TOOLS,
        help="a tool that free text may call; the engine inserts its result")  # fmt: skip
    add("--tool-tokens", nargs=4, metavar=("BEGIN", "END", "RESULT", "RESULT_END"),
        help="the control tokens of a call, if they are not nanochat's")  # fmt: skip


def _add_sampling(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--allowed-token-ids", type=ids, metavar="ID,ID", help="allow only these tokens; list end tokens, too")
    add("--bad-words", type=ids, action="append", metavar="ID,ID", help="forbid this token sequence; may be repeated")
    add("--logit-bias", type=bias, action="append", metavar="ID=B", help="add B (-100 to 100) to a token's logit")
    add("--repetition-penalty", type=real(1e-9), metavar="R", help="above 1: penalize tokens of the prompt and output")
    add("--presence-penalty", type=real(-2, 2), metavar="P", help="penalize tokens of the output (-2 to 2)")
    add(
        "--frequency-penalty",
        type=real(-2, 2),
        metavar="F",
        help="penalize tokens of the output, once per occurrence (-2 to 2)",
    )
    add("--temperature", type=real(0), metavar="T", help="0: the most likely token (default: 0)")
    add("--min-p", type=real(0, 1), metavar="P", help="only tokens at least P times as likely as the most likely one")
    add("--top-k", type=integer(1), metavar="K", help="only the K most likely tokens")
    add("--top-p", type=real(1e-9, 1), metavar="P", help="only the most likely tokens, with this total probability")
    add("--sampling", choices=("masked", "exact"), help="exact: sample from the model's distribution under the "
        "specification; needs a temperature and more forward passes (default: masked)")  # fmt: skip
    add(
        "--max-passes",
        type=integer(1),
        metavar="N",
        help="maximum forward passes for --sampling exact or --retries (default: 1000)",
    )
    add("--retries", type=integer(0, 64), metavar="N", help="write a doubtful value again N times, and keep the "
        "version that the model prefers without the mask (default: 0)")  # fmt: skip
    add("--retry-below", type=real(0, 1), metavar="C", help="a value is doubtful below this confidence (default: 0.5)")
    add(
        "--seed",
        type=integer(0, 2**64 - 1),
        metavar="N",
        help="the same seed gives the same answer (default: a random seed)",
    )
    add("--n", type=integer(1), metavar="N", help="number of answers, with seeds SEED, SEED + 1, ... (default: 1)")


def _add_length(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--max-tokens",
        type=integer(1),
        metavar="N",
        help="maximum tokens of the text, with forced tokens (default: 256)",
    )
    add("--budget-ramp", type=real(0, 100), metavar="R", help="near the end of --max-tokens, lower by up to R the "
        "logits of tokens that make the answer longer; 0: never (default: 1)")  # fmt: skip
    add("--min-tokens", type=integer(0), metavar="N", help="do not end before N tokens, unless only the end is allowed")
    add("--stop", action="append", metavar="TEXT", help="end before this string; may be repeated")
    add(
        "--stop-regex",
        action="append",
        metavar="PATTERN",
        help="end before a match of this regular expression; may be repeated",
    )
    add("--stop-token-ids", type=ids, metavar="ID,ID", help="additional end tokens")
    add("--include-stop", dest="include_stop_str_in_output", action="store_true", default=None,
        help="the text ends after the stop string or match, not before it")  # fmt: skip
    add("--ignore-eos", action="store_true", default=None, help="do not end at the model's end tokens")


def collect_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options on the command line, including n. `tools` contains the names of tools, see `find_tools`."""
    specification_options = {name for names in OPTIONS_OF.values() for name in names}
    names = [name for name in LINE_OPTIONS if name not in specification_options]
    options = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    if "logit_bias" in options:
        options["logit_bias"] = dict(options["logit_bias"])
    if arguments.tool_tokens is not None and "tools" not in options:
        raise InputError("--tool-tokens belongs to --tool, which is not given")
    return options


def read_line_options(members: Mapping[str, Any]) -> dict[str, Any]:
    """Check the options of a line, and return them.

    Raises:
        TypeError: a value has a wrong type. The arguments are the option's name and the expected type.
    """
    for name, value in members.items():
        expected, fits = (LINE_OPTIONS | GRAMMAR_OPTIONS)[name]
        if not fits(value):
            raise TypeError(name, expected)
    options = dict(members)
    if isinstance(options.get("logit_bias"), dict):
        options["logit_bias"] = {int(id): value for id, value in options["logit_bias"].items()}
    return options


def find_tools(names: list[str], tokens: list[str] | None) -> list[Tool]:
    """The tools with these names."""
    from dataclasses import replace

    from guided.tools import CALCULATOR, ToolTokens

    tools_by_name = {"calculator": CALCULATOR}
    tools = [tools_by_name[name] for name in dict.fromkeys(names)]
    return tools if tokens is None else [replace(tool, tokens=ToolTokens(*tokens)) for tool in tools]


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_list_of(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _are_biases(value: object) -> bool:
    return (
        isinstance(value, dict)
        and all(key.isascii() and key.isdigit() for key in value)
        and all(map(_is_number, value.values()))
    )


def _are_grammars(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str | dict) for each in value.values())


def _parse_think_first(text: str) -> int | str:
    """Parse the argument of --think-first."""
    return text if text == "answer" else integer(1)(text)


_INTEGER, _NUMBER, _BOOLEAN = ("an integer", _is_integer), ("a number", _is_number), ("true or false", _is_boolean)
_IDS = ("a list of token ids", _is_list_of(_is_integer))
_TEXT = ("a string", _is_text)
_TEXTS = ("a string or a list of strings", lambda value: _is_text(value) or _is_list_of(_is_text)(value))

# name -> (the expected type in a line, a check of the value)
LINE_OPTIONS: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "allowed_token_ids": _IDS,
    "bad_words": ("a list of lists of token ids", _is_list_of(_is_list_of(_is_integer))),
    "logit_bias": ('an object such as {"17": -5}', _are_biases),
    **dict.fromkeys(("repetition_penalty", "presence_penalty", "frequency_penalty"), _NUMBER),
    **dict.fromkeys(("temperature", "min_p", "top_p", "budget_ramp"), _NUMBER),
    **dict.fromkeys(("top_k", "seed", "n", "max_tokens", "min_tokens"), _INTEGER),
    **dict.fromkeys(("stop", "stop_regex"), _TEXTS),
    **dict.fromkeys(("max_string", "max_items", "max_digits"), _INTEGER),
    **dict.fromkeys(("surrounding_whitespace", "strict", "search"), _BOOLEAN),
    **dict.fromkeys(("whitespace", "property_order", "numbers", "escapes", "constants", "classes", "format"), _TEXT),
    **dict.fromkeys(("unknown_format", "draft", "dialect"), _TEXT),
    "separators": ("a list of two strings", _is_list_of(_is_text)),
    "indent": ("an integer or a string", lambda value: _is_integer(value) or _is_text(value)),
    "additional_properties": ('true, false or "minimal"', lambda value: _is_boolean(value) or value == "minimal"),
    "registry": ("an object of schemas", lambda value: isinstance(value, dict)),
    "documents": ("an object of texts", lambda value: isinstance(value, dict)),
    "stop_token_ids": _IDS,
    **dict.fromkeys(("include_stop_str_in_output", "ignore_eos", "score_forced"), _BOOLEAN),
    **dict.fromkeys(("raw", "canonical", "heal_prompt", "describe"), _BOOLEAN),
    **dict.fromkeys(("reasoning_end", "sampling"), _TEXT),
    **dict.fromkeys(("max_passes", "retries"), _INTEGER),
    "retry_below": _NUMBER,
    "think_first": ('an integer or "answer"', lambda value: _is_integer(value) or value == "answer"),
    "tools": (f"a list of tool names ({', '.join(_TOOLS)})", _is_list_of(lambda value: value in _TOOLS)),
    **dict.fromkeys(("drafts", "logprobs", "prompt_logprobs"), _INTEGER),
    "logprobs_mode": _TEXT,
}
GRAMMAR_OPTIONS: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    **dict.fromkeys(("start", "semantics", "lexer", "postlex", "root"), _TEXT),
    "grammars": ("an object of texts and schemas", _are_grammars),
}
"""Like `LINE_OPTIONS`, for the options of Lark and GBNF grammars, which go to the compiler instead of the engine."""
