"""The options of a request, on the command line and in a line of --batch. Both become `guided.engine.request.Options`.

In: parsed arguments, or members of a JSON object. Out: the given options, by their Python names. Types are checked
here; the engine checks values.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from guided.cli.arguments import at_least, bias, ids, real
from guided.cli.console import InputError
from guided.cli.kinds import OPTIONS_OF

if TYPE_CHECKING:
    from guided.tools import Tool

__all__ = [
    "GRAMMAR_OPTIONS",
    "LINE_OPTIONS",
    "add_options",
    "add_tools",
    "options_given",
    "options_of_line",
    "tools_named",
]

_TOOLS: Final = ("calculator",)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options, grouped by purpose. They have no defaults here: the engine chooses values that are not given."""
    _add_choice(parser.add_argument_group("which token is chosen (from what the specification allows, in this order)"))
    _add_length(parser.add_argument_group("when it ends (stops: of free text; a specification says itself where)"))
    group = parser.add_argument_group("thinking, tools, speed")
    add = group.add_argument
    add("--reasoning-end", metavar="TEXT", help="what ends a model's thinking, such as '</think>': the specification "
        "holds after it")  # fmt: skip
    add_tools(group)
    add("--drafts", type=at_least(0, 64), metavar="N", help="tokens drafted for a pass, from what was said before or "
        "by --draft-model: the same output, sooner where they are right (4 with a draft model, else 0)")  # fmt: skip
    add("--canonical", action="store_true", default=None, help="only tokens that the tokenizer itself would write")
    add("--heal-prompt", action="store_true", default=None, help="the last tokens of a raw prompt are spelled anew "
        "where a longer token could go on over its end")  # fmt: skip
    group = parser.add_argument_group("what is told of it (--json)")
    add = group.add_argument
    add("--logprobs", type=at_least(0), metavar="K", help="log probability of each token, and of the K likeliest")
    add("--prompt-logprobs", type=at_least(0), metavar="K", help="the same of the prompt's tokens")
    add("--logprobs-mode", choices=("raw", "masked"), help="the model's own, or after mask, bias and penalties (raw)")
    add("--score-forced", action="store_true", default=None, help="of forced tokens, too; one more forward pass")


def add_tools(group: argparse._ArgumentGroup) -> None:
    """Tools that the engine runs."""
    add = group.add_argument
    add("--tool", dest="tools", action="append", choices=_TOOLS, help="what free text may call; its result is forced")
    add("--tool-tokens", nargs=4, metavar=("BEGIN", "END", "RESULT", "RESULT_END"),
        help="the control tokens of a call, if they are not nanochat's")  # fmt: skip


def _add_choice(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--allowed-token-ids", type=ids, metavar="ID,ID", help="no other tokens, end tokens neither")
    add("--bad-words", type=ids, action="append", metavar="ID,ID", help="not these tokens in a row; may be repeated")
    add("--logit-bias", type=bias, action="append", metavar="ID=B", help="add B (-100 to 100) to a token's logit")
    add("--repetition-penalty", type=real(1e-9), metavar="R", help="above 1: less of what stands in prompt or output")
    add("--presence-penalty", type=real(-2, 2), metavar="P", help="less of what is in the output (-2 to 2)")
    add("--frequency-penalty", type=real(-2, 2), metavar="F", help="the same, as often as it is there (-2 to 2)")
    add("--temperature", type=real(0), metavar="T", help="0: the most likely token (0)")
    add("--min-p", type=real(0, 1), metavar="P", help="only tokens at least P times as likely as the likeliest")
    add("--top-k", type=at_least(1), metavar="K", help="only the K most likely")
    add("--top-p", type=real(1e-9, 1), metavar="P", help="only the likeliest with this probability")
    add("--seed", type=at_least(0, 2**64 - 1), metavar="N", help="the same answer again (none: a fresh one)")
    add("--n", type=at_least(1), metavar="N", help="how many answers, of seeds N, N + 1, ... (1)")


def _add_length(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--max-tokens", type=at_least(1), metavar="N", help="tokens of the text, forced ones included (256)")
    add("--budget-ramp", type=real(0, 100), metavar="R", help="where little is left of --max-tokens, what "
        "makes the answer longer loses up to R of its logit (1); 0: the budget cuts, and does not lead")  # fmt: skip
    add("--min-tokens", type=at_least(0), metavar="N", help="no end before so many, where something else may come")
    add("--stop", action="append", metavar="TEXT", help="end before this text; may be repeated")
    add("--stop-regex", action="append", metavar="PATTERN", help="end before what matches; may be repeated")
    add("--stop-token-ids", type=ids, metavar="ID,ID", help="these tokens end it, too")
    add("--include-stop", dest="include_stop_str_in_output", action="store_true", default=None,
        help="the text ends after the stop, not before it")  # fmt: skip
    add("--ignore-eos", action="store_true", default=None, help="the model's end tokens end nothing")


def options_given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options on the command line, including n; tools are still names."""
    written = {name for names in OPTIONS_OF.values() for name in names}  # the specification is compiled here
    names = [name for name in LINE_OPTIONS if name not in written]
    given = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    if "logit_bias" in given:
        given["logit_bias"] = dict(given["logit_bias"])
    if arguments.tool_tokens is not None and "tools" not in given:
        raise InputError("--tool-tokens belongs to --tool, which is not given")
    return given


def options_of_line(members: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a line.

    Raises:
        TypeError: (option name, expected type).
    """
    for name, value in members.items():
        wanted, fits = (LINE_OPTIONS | GRAMMAR_OPTIONS)[name]
        if not fits(value):
            raise TypeError(name, wanted)
    options = dict(members)
    if isinstance(options.get("logit_bias"), dict):
        options["logit_bias"] = {int(id): value for id, value in options["logit_bias"].items()}
    return options


def tools_named(names: list[str], tokens: list[str] | None) -> list[Tool]:
    """The tools with these names."""
    from dataclasses import replace

    from guided.tools import CALCULATOR, ToolTokens

    known = {"calculator": CALCULATOR}
    tools = [known[name] for name in dict.fromkeys(names)]
    return tools if tokens is None else [replace(tool, tokens=ToolTokens(*tokens)) for tool in tools]


def _integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _boolean(value: object) -> bool:
    return isinstance(value, bool)


def _text(value: object) -> bool:
    return isinstance(value, str)


def _list_of(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _biases(value: object) -> bool:
    return (
        isinstance(value, dict)
        and all(key.isascii() and key.isdigit() for key in value)
        and all(map(_number, value.values()))
    )


def _grammars(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str | dict) for each in value.values())


_INTEGER, _NUMBER, _BOOLEAN = ("an integer", _integer), ("a number", _number), ("true or false", _boolean)
_IDS = ("a list of token ids", _list_of(_integer))
_TEXT = ("a text", _text)
_TEXTS = ("a text, or a list of texts", lambda value: _text(value) or _list_of(_text)(value))

# name -> (the expected type in a line, a check of the value)
LINE_OPTIONS: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "allowed_token_ids": _IDS,
    "bad_words": ("a list of lists of token ids", _list_of(_list_of(_integer))),
    "logit_bias": ('an object such as {"17": -5}', _biases),
    **dict.fromkeys(("repetition_penalty", "presence_penalty", "frequency_penalty"), _NUMBER),
    **dict.fromkeys(("temperature", "min_p", "top_p", "budget_ramp"), _NUMBER),
    **dict.fromkeys(("top_k", "seed", "n", "max_tokens", "min_tokens"), _INTEGER),
    **dict.fromkeys(("stop", "stop_regex"), _TEXTS),
    **dict.fromkeys(("max_string", "max_items", "max_digits"), _INTEGER),
    **dict.fromkeys(("surrounding_whitespace", "strict", "search"), _BOOLEAN),
    **dict.fromkeys(("whitespace", "property_order", "numbers", "escapes", "constants", "classes", "format"), _TEXT),
    **dict.fromkeys(("unknown_format", "draft", "dialect"), _TEXT),
    "separators": ("a list of two texts", _list_of(_text)),
    "indent": ("an integer or a text", lambda value: _integer(value) or _text(value)),
    "additional_properties": ('true, false or "minimal"', lambda value: _boolean(value) or value == "minimal"),
    "registry": ("an object of schemas", lambda value: isinstance(value, dict)),
    "stop_token_ids": _IDS,
    **dict.fromkeys(("include_stop_str_in_output", "ignore_eos", "score_forced"), _BOOLEAN),
    **dict.fromkeys(("raw", "canonical", "heal_prompt"), _BOOLEAN),
    "reasoning_end": _TEXT,
    "tools": (f"a list of {', '.join(_TOOLS)}", _list_of(lambda value: value in _TOOLS)),
    **dict.fromkeys(("drafts", "logprobs", "prompt_logprobs"), _INTEGER),
    "logprobs_mode": _TEXT,
}
GRAMMAR_OPTIONS: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    **dict.fromkeys(("start", "semantics", "lexer", "postlex", "root"), _TEXT),
    "grammars": ("an object of texts and schemas", _grammars),
}
"""The same, of options that only grammars have: the engine gets these compiled."""
