"""Reads xgrammar's macros in a GBNF grammar. In: the tokens of their arguments. Out: IR nodes.

    Regex("[a-z]+")                           the strings that the pattern matches as a whole
    Regex("[^0-9]+", json_string=true)        ... except strings that need escapes in a JSON string
    Regex("yes|no", flags="i")                ... with flags: i, s, u
    Substring("to ", "be ", "or ")            consecutive pieces of this list, or nothing
    Token(17, 18)                             one of these tokens
    ExcludeToken(17)                          one token that has text and is not among these
    TagDispatch(("<a>", body), excludes=("</s>",), loop_after_dispatch=true)
    TokenTagDispatch((17, body), excludes=(18,), loop_after_dispatch=true)

`TagDispatch` is free text up to one of its tags, then the rule of that tag, and then free text again. With
`loop_after_dispatch=false`, it ends with the rule. It may also end within free text. `common/aho_corasick.py` defines
where a tag is complete. `TokenTagDispatch` does the same with tokens. Its free text is a sequence of tokens that have
text and are neither triggers nor excluded.

`patterns.py` reads regular expressions. Without `flags`, a dot also matches line ends. With `flags`, it does so only if
they contain s. The flag i folds the letters of all scripts, as in ECMA-262; in xgrammar's dialect, only ASCII letters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from guided.close_names import find_closest_name
from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.common.aho_corasick import free_text
from guided.frontends.common.digits import is_number
from guided.frontends.common.substrings import substring_automaton
from guided.frontends.regex.algebra import alt, conj, repeat, seq
from guided.ir.nodes import Chars, Node, OtherTokens, Ref
from guided.ir.ranges import charset

from .patterns import regex_node
from .tokens import Token, parse_number

if TYPE_CHECKING:
    from .rules import Reader

__all__ = ["MACROS", "Macros"]

MACROS: Final = ("Regex", "Substring", "Token", "ExcludeToken", "TagDispatch", "TokenTagDispatch")

_UNESCAPED_JSON_TEXT: Final = repeat(Chars(charset([(0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF)])), 0, None)
"""Strings of characters that need no escapes in JSON: no quotation mark, backslash or control character."""


@dataclass(frozen=True, slots=True)
class _Value:
    """The value of an argument: a string, an int, a bool, the token of a rule name, or a list of `_Value`s for a tuple.
    `token` is its first token.
    """

    token: Token
    value: Any


class Macros:
    """Reads macros. `reader` provides the tokens and the rules."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def read(self, name: Token) -> Node:
        """Read a macro from the reader's position, its opening parenthesis, and return its node."""
        make_node: Callable[[Token, list[_Value], dict[str, _Value]], Node] = {
            "Regex": self._make_regex,
            "Substring": self._make_substring,
            "Token": self._make_token,
            "ExcludeToken": self._make_excluded_token,
            "TagDispatch": self._make_tag_dispatch,
            "TokenTagDispatch": self._make_token_tag_dispatch,
        }[name.text]
        return make_node(name, *self._read_arguments())

    # --- the macros

    def _make_regex(self, name: Token, arguments: list[_Value], options: dict[str, _Value]) -> Node:
        self._check_names(options, "json_string", "flags")
        if len(arguments) != 1 or not isinstance(arguments[0].value, str):
            raise self._reader.error("Regex takes one pattern, as a literal", name, 'write Regex("[a-z]+")')
        pattern = arguments[0]
        json_string = self._read_flag(options, "json_string", False)
        try:
            is_xgrammar = self._reader.is_xgrammar
            node = regex_node(
                pattern.value, self._reader.limits, self._read_regex_flags(options),
                "full" if is_xgrammar else "plain", ascii_case=is_xgrammar,
            )  # fmt: skip
        except LimitExceeded:
            raise
        except UnsupportedError as error:
            raise self._reader.unsupported_error(f"in the pattern: {error.reason}", pattern.token, error.hint) from None
        except SpecError as error:
            raise self._reader.error(f"in the pattern: {error.message}", pattern.token, error.hint) from None
        return conj(node, _UNESCAPED_JSON_TEXT) if json_string else node

    def _make_substring(self, name: Token, arguments: list[_Value], options: dict[str, _Value]) -> Node:
        self._check_names(options)
        for piece in arguments:
            if not isinstance(piece.value, str):
                raise self._reader.error("Substring takes string literals", piece.token, 'write Substring("to ", "be")')
        return substring_automaton([piece.value for piece in arguments], self._reader.limits)

    def _make_token(self, name: Token, arguments: list[_Value], options: dict[str, _Value]) -> Node:
        self._check_names(options)
        return self._reader.make_special(self._read_ids(name, arguments), name)

    def _make_excluded_token(self, name: Token, arguments: list[_Value], options: dict[str, _Value]) -> Node:
        self._check_names(options)
        return self._reader.make_other_tokens(self._read_ids(name, arguments))

    def _make_tag_dispatch(self, name: Token, arguments: list[_Value], options: dict[str, _Value]) -> Node:
        self._check_names(options, "loop_after_dispatch", "excludes")
        pairs = self._read_pairs(arguments, str, '("<tag>", rule)')
        excludes = self._read_excludes(options, str, '("</s>",)')
        for tag, _ in pairs:
            for exclude in excludes:
                if tag.value.startswith(exclude.value):
                    raise self._reader.error("a tag begins with an excluded text", exclude.token, "remove one of them")
        texts = free_text(
            [tag.value for tag, _ in pairs], [exclude.value for exclude in excludes], limits=self._reader.limits
        )
        if texts.unreachable:
            raise self._reader.error(
                "the tag is never reached: another tag or an excluded text is complete before it",
                pairs[texts.unreachable[0]][0].token, "remove one of them",
            )  # fmt: skip
        return self._combine(options, [texts.dispatch([rule for _, rule in pairs])], texts.without_markers)

    def _make_token_tag_dispatch(self, name: Token, arguments: list[_Value], options: dict[str, _Value]) -> Node:
        self._check_names(options, "loop_after_dispatch", "excludes")
        pairs = self._read_pairs(arguments, int, "(128000, rule)")
        excludes = self._read_excludes(options, int, "(128001,)")
        triggers = {tag.value for tag, _ in pairs}
        for exclude in excludes:
            if exclude.value in triggers:
                raise self._reader.error(
                    "the token is both a trigger and excluded", exclude.token, "remove one of them"
                )
        excluded_ids = tuple(dict.fromkeys([*triggers, *(exclude.value for exclude in excludes)]))
        free_tokens = OtherTokens(excluded_ids, 0, None)
        self._reader.rule.has_tokens = True
        bodies = [seq((free_tokens, self._reader.make_special((tag.value,), tag.token), rule)) for tag, rule in pairs]
        return self._combine(options, bodies, free_tokens)

    def _combine(self, options: dict[str, _Value], bodies: Sequence[Node], free_node: Node) -> Node:
        """The node of a dispatch. `bodies`: free text up to a tag, and the tag's rule; `free_node`: the text at the
        end.
        """
        if self._read_flag(options, "loop_after_dispatch", True):
            return seq((repeat(alt(bodies), 0, None), free_node))
        return alt((*bodies, free_node))

    # --- the values of arguments

    def _read_pairs(self, arguments: list[_Value], kind: type, form: str) -> list[tuple[_Value, Ref]]:
        """(trigger, reference to its rule) for each argument. `kind`: the type of triggers; `form`: for hints."""
        out: list[tuple[_Value, Ref]] = []
        for pair in arguments:
            values = pair.value
            if not isinstance(values, list) or len(values) != 2 or not isinstance(values[1].value, Token):
                raise self._reader.error("a trigger must be a pair of a tag and a rule", pair.token, f"write {form}")
            out.append((self._check_value(values[0], kind, form), self._reader.make_reference(values[1].value)))
        return out

    def _read_excludes(self, options: dict[str, _Value], kind: type, form: str) -> list[_Value]:
        if "excludes" not in options:
            return []
        excludes = options["excludes"]
        if not isinstance(excludes.value, list):
            raise self._reader.error("excludes must be a tuple", excludes.token, f"write excludes={form}")
        return [self._check_value(exclude, kind, form) for exclude in excludes.value]

    def _read_ids(self, name: Token, arguments: list[_Value]) -> list[int]:
        if not arguments:
            raise self._reader.error(f"{name.text} takes token ids", name, f"write {name.text}(128000)")
        return [self._check_value(argument, int, f"{name.text}(128000)").value for argument in arguments]

    def _check_value(self, argument: _Value, kind: type, form: str) -> _Value:
        if type(argument.value) is not kind or argument.value == "":
            expected = "a non-empty literal" if kind is str else "a token id"
            raise self._reader.error(f"{expected} is expected here", argument.token, f"write {form}")
        return argument

    def _read_flag(self, options: dict[str, _Value], name: str, default: bool) -> bool:
        if name not in options:
            return default
        value = options[name].value
        if not isinstance(value, bool):
            raise self._reader.error(f"{name} must be true or false", options[name].token)
        return value

    def _read_regex_flags(self, options: dict[str, _Value]) -> str:
        if "flags" not in options:
            return "s"
        flags = options["flags"]
        if not isinstance(flags.value, str) or not set(flags.value) <= set("isu"):
            raise self._reader.error("flags may contain only i, s and u", flags.token, 'write flags="is"')
        return "".join(sorted(set(flags.value) - {"u"}))  # patterns match code points with or without u

    def _check_names(self, options: dict[str, _Value], *known_names: str) -> None:
        for name, value in options.items():
            if name not in known_names:
                close = find_closest_name(name, known_names)
                hint = (
                    f"did you mean {close!r}?"
                    if close
                    else f"its named arguments are: {', '.join(known_names) or 'none'}"
                )
                raise self._reader.error(f"the macro has no argument {name!r}", value.token, hint)

    # --- the syntax of arguments

    def _read_arguments(self) -> tuple[list[_Value], dict[str, _Value]]:
        """Read the positional and the named arguments."""
        reader = self._reader
        opening = reader.take_token()
        arguments: list[_Value] = []
        options: dict[str, _Value] = {}
        while reader.tokens[reader.index].kind != ")":
            key = reader.tokens[reader.index]
            if key.kind == "name" and reader.tokens[reader.index + 1].kind == "=":
                reader.index += 2
                if key.text in options:
                    raise reader.error(f"the argument {key.text!r} is given twice", key)
                options[key.text] = self._read_value(in_tuple=False)
            else:
                arguments.append(self._read_value(in_tuple=False))
            if not self._take_comma():
                break
        self._close_arguments(opening)
        return arguments, options

    def _read_value(self, in_tuple: bool) -> _Value:
        reader = self._reader
        token = reader.take_token()
        if token.kind == "literal":
            return _Value(token, reader.characters.read_literal(token))
        if token.kind == "name":
            if is_number(token.text):
                return _Value(token, parse_number(token.text))
            return _Value(token, {"true": True, "false": False}.get(token.text, token))
        if token.kind == "(" and not in_tuple:
            values: list[_Value] = []
            while reader.tokens[reader.index].kind != ")":
                values.append(self._read_value(in_tuple=True))
                if not self._take_comma():
                    break
            self._close_arguments(token)
            return _Value(token, values)
        raise reader.error(
            "an argument is missing here", token, "write a literal, a number, true, false, a rule or a tuple"
        )

    def _take_comma(self) -> bool:
        reader = self._reader
        if reader.tokens[reader.index].kind == ",":
            reader.index += 1
            return True
        return False

    def _close_arguments(self, opening: Token) -> None:
        token = self._reader.take_token()
        if token.kind == "end":
            raise self._reader.error("the arguments are never closed", opening, "end them with )")
        if token.kind != ")":
            raise self._reader.error("a comma or ) is missing here", token, "arguments are separated by commas")
