"""The parser of the command line: `argparse`, with errors that suggest corrections.

In: an error message of `argparse`. Out: a `UsageError` with a one-line message. The usage is not printed; `--help`
shows it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from guided.cli.console import InputError
from guided.close_names import find_closest_name

__all__ = ["Parser", "UsageError"]


class UsageError(InputError):
    """The arguments are invalid. `prog`: the command that received them."""

    def __init__(self, prog: str, message: str) -> None:
        super().__init__(message)
        self.prog = prog


class Parser(argparse.ArgumentParser):
    """`argparse.ArgumentParser` with its own error messages, and with the usage after the description."""

    _words: Sequence[str] = ()

    def format_help(self) -> str:
        """The help: the command's purpose, usage, options, and examples."""
        formatter = self._get_formatter()
        formatter.add_text(self.description)
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As in `argparse`, but the command itself reports an argument that it does not know."""
        self._words = list(args or ())
        self._refuse_repeated()
        result, unknown_arguments = super().parse_known_args(args, namespace)
        if unknown_arguments:
            self.error(self._describe_unknown(unknown_arguments[0]))
        return result, unknown_arguments

    def _refuse_repeated(self) -> None:
        """Refuse an option that is given twice, since one value would be ignored."""
        given_names = set[str]()
        for word in self._words[: self._words.index("--")] if "--" in self._words else self._words:
            action = self._option_string_actions.get(word.split("=")[0])
            if isinstance(action, argparse._StoreAction):
                if action.dest in given_names:
                    self.error(f"{action.option_strings[-1]} is given twice")
                given_names.add(action.dest)

    def _print_message(self, message: str, file: Any = None) -> None:
        """As in `argparse`, but an error of writing is raised."""
        print(message, end="", file=file or sys.stderr, flush=True)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with a suggestion."""
        raise UsageError(self.prog, self._reword(message))

    def _reword(self, message: str) -> str:
        if unknown_match := re.match(r"argument COMMAND: invalid choice: '(.*)' \(choose from ", message):
            names = self._command_names()
            suggestion = _suggest(unknown_match[1], [*names, *self._option_string_actions])
            return f"unknown command {unknown_match[1]!r}{suggestion or _list_commands(names)}"
        if message.endswith(("is required", "are required")) or "are required: " in message:
            # The missing argument may have been misspelled.
            options = [word.split("=")[0] for word in self._words if word.startswith("--") and word != "--"]
            unknown_option = next((option for option in options if option not in self._option_string_actions), None)
            if unknown_option is not None:
                return self._describe_unknown(unknown_option)
            return f"a command is missing{_list_commands(self._command_names())}" if "COMMAND" in message else message
        return message

    def _describe_unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"unexpected argument {word!r}; put an argument with spaces in quotation marks"
        option = word.split("=")[0]
        if any(option in command._option_string_actions for command in self._subparsers_by_name().values()):
            return f"{option} goes after the command, as in guided check {option}"
        return f"unknown option {option}{_suggest(option, list(self._option_string_actions))}"

    def _subparsers_by_name(self) -> dict[str, Parser]:
        choices = (action.choices for action in self._actions if isinstance(action, argparse._SubParsersAction))
        return next(choices, {})

    def _command_names(self) -> list[str]:
        return list(self._subparsers_by_name())


def _suggest(word: str, words: list[str]) -> str:
    similar_name = find_closest_name(word, words, cutoff=0.75)
    return f"; did you mean {similar_name}?" if similar_name else ""


def _list_commands(commands: list[str]) -> str:
    return f"; the commands are {', '.join(commands)}"
