"""xgrammar's macros in a GBNF text. In: the tokens of their arguments. Out: nodes of the IR.

    Regex("[a-z]+")                           the texts that the pattern matches as a whole
    Regex("[^0-9]+", json_string=true)        ... without texts that need escapes in a JSON string
    Regex("yes|no", flags="i")                ... with flags: i, s, u
    Substring("to ", "be ", "or ")            consecutive pieces of this list, or nothing
    Token(17, 18)   ExcludeToken(17)          one of these tokens; one token with text that is not among these
    TagDispatch(("<a>", body), excludes=("</s>",), loop_after_dispatch=true)
    TokenTagDispatch((17, body), excludes=(18,), loop_after_dispatch=true)

`TagDispatch` is free text up to one of its tags, then the rule of that tag, and then free text again; with
`loop_after_dispatch=false`, it ends with the rule. It may also end within free text. `common/aho_corasick.py` defines
where a tag is complete. `TokenTagDispatch` is the same with tokens: free text is any tokens with text, except the named
ones.

`patterns.py` reads regular expressions. With `flags`, a dot matches a line end only if they contain s. The flag i folds
the letters of all scripts, as in ECMA-262; in texts of xgrammar's dialect, it folds only ASCII letters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from guided.close_names import close_name
from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.common.aho_corasick import free_text
from guided.frontends.common.substrings import substring_automaton
from guided.frontends.regex.algebra import alt, conj, repeat, seq
from guided.ir.nodes import Chars, Node, OtherTokens, Ref
from guided.ir.ranges import charset

from .patterns import regex_node
from .tokens import Token, number_of

if TYPE_CHECKING:
    from .rules import Reader

__all__ = ["MACROS", "Macros"]

MACROS: Final = ("Regex", "Substring", "Token", "ExcludeToken", "TagDispatch", "TokenTagDispatch")

_JSON_CHARS: Final = repeat(Chars(charset([(0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF)])), 0, None)
"""The characters that a JSON string contains without escapes: no quotation mark, backslash or control character."""


@dataclass(frozen=True, slots=True)
class _Value:
    """An argument: its first token, and a string, an int, a bool, a rule's token, or the values of a tuple."""

    token: Token
    value: Any


class Macros:
    """Reads macros. `reader` provides the tokens and the rules."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def read(self, name: Token) -> Node:
        """The node of a macro. The reader is at its opening parenthesis."""
        read: Callable[[Token, list[_Value], dict[str, _Value]], Node] = {
            "Regex": self._regex,
            "Substring": self._substring,
            "Token": self._token,
            "ExcludeToken": self._exclude_token,
            "TagDispatch": self._tag_dispatch,
            "TokenTagDispatch": self._token_tag_dispatch,
        }[name.text]
        return read(name, *self._arguments(name))

    # --- the macros

    def _regex(self, name: Token, arguments: list[_Value], options: dict[str, _Value]) -> Node:
        self._check_names(options, "json_string", "flags")
        if len(arguments) != 1 or not isinstance(arguments[0].value, str):
            raise self._reader.error("Regex takes one pattern, as a literal", name, 'write Regex("[a-z]+")')
        pattern = arguments[0]
        json_string = self._flag(options, "json_string", False)
        try:
            node = regex_node(
                pattern.value, self._reader.limits, self._flags(options), ascii_case=self._reader.is_xgrammar
            )
        except LimitExceeded:
            raise
        except UnsupportedError as error:
            raise self._reader.unsupported(f"in the pattern: {error.reason}", pattern.token, error.hint) from None
        except SpecError as error:
            raise self._reader.error(f"in the pattern: {error.message}", pattern.token, error.hint) from None
        return conj(node, _JSON_CHARS) if json_string else node

    def _substring(self, name: Token, arguments: list[_Value], options: dict[str, _Value]) -> Node:
        self._check_names(options)
        for piece in arguments:
            if not isinstance(piece.value, str):
                raise self._reader.error("Substring takes string literals", piece.token, 'write Substring("to ", "be")')
        return substring_automaton([piece.value for piece in arguments], self._reader.limits)

    def _token(self, name: Token, arguments: list[_Value], options: dict[str, _Value]) -> Node:
        self._check_names(options)
        return self._reader.special(self._ids(name, arguments), name)

    def _exclude_token(self, name: Token, arguments: list[_Value], options: dict[str, _Value]) -> Node:
        self._check_names(options)
        return self._reader.other_tokens(self._ids(name, arguments))

    def _tag_dispatch(self, name: Token, arguments: list[_Value], options: dict[str, _Value]) -> Node:
        self._check_names(options, "loop_after_dispatch", "excludes")
        pairs = self._pairs(arguments, str, '("<tag>", rule)')
        excludes = self._excludes(options, str, '("</s>",)')
        for tag, _ in pairs:
            for exclude in excludes:
                if tag.value.startswith(exclude.value):
                    raise self._reader.error("a tag begins with an excluded text", exclude.token, "remove one of them")
        free = free_text(
            [tag.value for tag, _ in pairs], [exclude.value for exclude in excludes], limits=self._reader.limits
        )
        if free.unreachable:
            raise self._reader.error(
                "the tag is never reached: another tag or an excluded text is complete before it",
                pairs[free.unreachable[0]][0].token, "remove one of them",
            )  # fmt: skip
        return self._dispatch(options, [free.dispatch([rule for _, rule in pairs])], free.without_markers)

    def _token_tag_dispatch(self, name: Token, arguments: list[_Value], options: dict[str, _Value]) -> Node:
        self._check_names(options, "loop_after_dispatch", "excludes")
        pairs = self._pairs(arguments, int, "(128000, rule)")
        excludes = self._excludes(options, int, "(128001,)")
        triggers = {tag.value for tag, _ in pairs}
        for exclude in excludes:
            if exclude.value in triggers:
                raise self._reader.error(
                    "the token is both a trigger and excluded", exclude.token, "remove one of them"
                )
        excluded = tuple(dict.fromkeys([*triggers, *(exclude.value for exclude in excludes)]))
        free = OtherTokens(excluded, 0, None)
        self._reader.rule.has_tokens = True
        bodies = [seq((free, self._reader.special((tag.value,), tag.token), rule)) for tag, rule in pairs]
        return self._dispatch(options, bodies, free)

    def _dispatch(self, options: dict[str, _Value], bodies: Sequence[Node], free: Node) -> Node:
        if self._flag(options, "loop_after_dispatch", True):
            return seq((repeat(alt(bodies), 0, None), free))
        return alt((*bodies, free))

    # --- the values of arguments

    def _pairs(self, arguments: list[_Value], kind: type, form: str) -> list[tuple[_Value, Ref]]:
        """The triggers with references to their rules."""
        out: list[tuple[_Value, Ref]] = []
        for pair in arguments:
            parts = pair.value
            if not isinstance(parts, list) or len(parts) != 2 or not isinstance(parts[1].value, Token):
                raise self._reader.error("a trigger must be a pair of a tag and a rule", pair.token, f"write {form}")
            out.append((self._check_value(parts[0], kind, form), self._reader.refer(parts[1].value)))
        return out

    def _excludes(self, options: dict[str, _Value], kind: type, form: str) -> list[_Value]:
        if "excludes" not in options:
            return []
        excludes = options["excludes"]
        if not isinstance(excludes.value, list):
            raise self._reader.error("excludes must be a tuple", excludes.token, f"write excludes={form}")
        return [self._check_value(exclude, kind, form) for exclude in excludes.value]

    def _ids(self, name: Token, arguments: list[_Value]) -> list[int]:
        if not arguments:
            raise self._reader.error(f"{name.text} takes token ids", name, f"write {name.text}(128000)")
        return [self._check_value(argument, int, f"{name.text}(128000)").value for argument in arguments]

    def _check_value(self, argument: _Value, kind: type, form: str) -> _Value:
        if type(argument.value) is not kind or argument.value == "":
            expected = "a non-empty literal" if kind is str else "a token id"
            raise self._reader.error(f"{expected} is expected here", argument.token, f"write {form}")
        return argument

    def _flag(self, options: dict[str, _Value], name: str, default: bool) -> bool:
        if name not in options:
            return default
        value = options[name].value
        if not isinstance(value, bool):
            raise self._reader.error(f"{name} must be true or false", options[name].token)
        return value

    def _flags(self, options: dict[str, _Value]) -> str:
        if "flags" not in options:
            return "s"
        flags = options["flags"]
        if not isinstance(flags.value, str) or not set(flags.value) <= set("isu"):
            raise self._reader.error("flags may contain only i, s and u", flags.token, 'write flags="is"')
        return "".join(sorted(set(flags.value) - {"u"}))  # patterns match code points with or without u

    def _check_names(self, options: dict[str, _Value], *known_names: str) -> None:
        for name, value in options.items():
            if name not in known_names:
                close = close_name(name, known_names)
                hint = (
                    f"did you mean {close!r}?"
                    if close
                    else f"its named arguments are: {', '.join(known_names) or 'none'}"
                )
                raise self._reader.error(f"the macro has no argument {name!r}", value.token, hint)

    # --- the syntax of arguments

    def _arguments(self, name: Token) -> tuple[list[_Value], dict[str, _Value]]:
        """The positional and the named arguments."""
        reader = self._reader
        opening = reader.next()
        arguments: list[_Value] = []
        options: dict[str, _Value] = {}
        while reader.tokens[reader.at].kind != ")":
            key = reader.tokens[reader.at]
            if key.kind == "name" and reader.tokens[reader.at + 1].kind == "=":
                reader.at += 2
                if key.text in options:
                    raise reader.error(f"the argument {key.text!r} is given twice", key)
                options[key.text] = self._value(in_tuple=False)
            else:
                arguments.append(self._value(in_tuple=False))
            if not self._take_comma():
                break
        self._close_arguments(opening)
        return arguments, options

    def _value(self, in_tuple: bool) -> _Value:
        reader = self._reader
        token = reader.next()
        if token.kind == "literal":
            return _Value(token, reader.characters.literal(token))
        if token.kind == "name":
            if token.text.isdigit():
                return _Value(token, number_of(token.text))
            return _Value(token, {"true": True, "false": False}.get(token.text, token))
        if token.kind == "(" and not in_tuple:
            values: list[_Value] = []
            while reader.tokens[reader.at].kind != ")":
                values.append(self._value(in_tuple=True))
                if not self._take_comma():
                    break
            self._close_arguments(token)
            return _Value(token, values)
        raise reader.error(
            "an argument is missing here", token, "write a literal, a number, true, false, a rule or a tuple"
        )

    def _take_comma(self) -> bool:
        reader = self._reader
        if reader.tokens[reader.at].kind == ",":
            reader.at += 1
            return True
        return False

    def _close_arguments(self, opening: Token) -> None:
        token = self._reader.next()
        if token.kind != ")":
            raise self._reader.error("a comma or ) is missing here", token, "arguments are separated by commas")
