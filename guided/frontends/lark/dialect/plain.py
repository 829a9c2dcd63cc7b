"""Rewrites a grammar with extensions to Lark's own notation. In: a grammar. Out: `PlainLark`: a grammar that Lark's
loader can read, and the extensions that its declared names represent.

    arguments: "(" %json {"type": "object"} ")"          arguments: "(" PART_0 ")"
                                                         %declare PART_0
    start: <think> /(.|\\n)*/ <[7]>                       start: PART_1 /(.|\\n)*/ PART_2
    head[lazy]: TEXT "<tool>"                            head: PART_3

How: each statement is rewritten token by token. The location of each token is kept, so Lark's errors get locations in
the original grammar. A terminal that uses `&`, `~` or `%regex`, directly or through other terminals, is only declared
for Lark, and `expressions.py` reads it. A rule with a parameter is written once for each reachable value
(`parameters.py`).

Cost: linear in the length of the grammar, and in the number of values of parameters.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.common.line_table import LineTable
from guided.frontends.lark.scan import Token, is_terminal, scan
from guided.limits import Limits

from .attributes import RegionSource, TerminalSource
from .definitions import Definition, Directive, split_statements
from .expressions import read_counts, read_range_ends
from .literals import JSON_ESCAPES, format_string, group_pattern, keep_escapes
from .parameters import evaluate_condition, evaluate_value, split_alternatives

__all__ = ["PlainLark", "rewrite_extensions"]

_PARTS: Final = ("%json", "%lark")
_OPTIONS: Final = {
    "allow_initial_skip": (False, True),
    "allow_final_skip": (False, True),
    "no_forcing": (False, True),
    "allow_invalid_utf8": (False,),
    "skip_repetition": ("many", "once"),
    "ignore_once": (False, True),  # the older name of skip_repetition
}


@dataclass(slots=True)
class PlainLark:
    """See the module docstring.

    Attributes:
        source: the original grammar.
        text: the grammar in Lark's notation.
        parts: name of a declared terminal -> the token that it represents.
        terminals: name of a declared terminal -> its expression.
        definitions: name of a terminal -> the tokens of its expression, for all terminals that `source` defines.
        lines: name of a rule or terminal in `text` -> its line in `source`.
        regions: name of a rule in `text` -> its capture and sampling attributes.
        initial_skip, final_skip: whether ignored terminals may come first or last.
        skip_once: whether a gap is at most one ignored terminal.
        uses_fullmatch: whether `re.fullmatch` defines the texts of patterns; see `LoadedTerminal`.
        is_regular: whether there are no parts, and no attributes that change which texts a rule matches.
    """

    source: str
    text: str = ""
    parts: dict[str, Token] = field(default_factory=dict)
    terminals: dict[str, TerminalSource] = field(default_factory=dict)
    definitions: dict[str, tuple[Token, ...]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    initial_skip: bool = True
    final_skip: bool = True
    skip_once: bool = False
    uses_fullmatch: bool = False
    is_regular: bool = True
    regions: dict[str, RegionSource] = field(default_factory=dict)
    original_spans: list[tuple[int, int, int]] = field(
        default_factory=list
    )  # (offset in `text`, start in `source`, end in `source`)

    def original_span(self, span: tuple[int, int]) -> tuple[int, int]:
        """The location in `source` that corresponds to a location in `text`."""
        index = bisect_right(self.original_spans, (span[0], len(self.source), 0)) - 1
        if index < 0:
            return 0, 0
        _, start, end = self.original_spans[index]
        return start, end


def rewrite_extensions(text: str, limits: Limits) -> PlainLark | None:
    """See the module docstring. None if the grammar uses no extension.

    Raises:
        SpecError, UnsupportedError: an extension is malformed or not supported.
        LimitExceeded: a parameter has too many values.
    """
    try:
        tokens = scan(text)
        if not any(map(_is_extension, tokens, [*tokens[1:], tokens[-1]])):
            return None
    except SpecError:
        if not re.search(
            r"%(?:json|lark|regex|llguidance|grammar_options)\b|::|(?m:^[^\S\n]*+[?!]*+\w+\[)|@\w|<\W", text
        ):
            return None  # let Lark report the error
        raise
    return _Writer(text, split_statements(text, tokens), limits).write()


def _is_extension(token: Token, next_token: Token) -> bool:
    if token.kind in ("special", "reference", "::", "&") or token.value:
        return True
    if token.kind == "directive":
        return token.text in ("%llguidance", "%grammar_options", "%if")
    if token.kind == "name":
        return "-" in token.text or (next_token.kind == "[" and next_token.start == token.end)
    if token.kind in ("{", "~"):
        return (next_token.kind == "number" or next_token.kind == ",") == (token.kind == "{")
    return token.kind == "string" and (token.text.startswith('""') or bool(JSON_ESCAPES.search(token.text)))


class _Writer:
    def __init__(self, source: str, lines: Sequence[Definition | Directive], limits: Limits) -> None:
        self.source, self.lines, self.limits = source, lines, limits
        self.plain_grammar, self.line_table = PlainLark(source), LineTable(source)
        self.pieces: list[tuple[str, Token | None]] = []
        self.rules = {line.name.text: line for line in lines if isinstance(line, Definition)}
        self.used_names = set(re.findall(r"\w+", source))
        self.lark_names: dict[str, str] = {}
        self.part_names: dict[str, str] = {}
        self.instances: dict[tuple[str, int], str] = {}
        self.pending_instances: list[tuple[str, int]] = []
        self.options: dict[str, Any] = {}
        self.groups_patterns = any(
            isinstance(line, Directive) and line.token.text in ("%llguidance", "%grammar_options") for line in lines
        )

    def write(self) -> PlainLark:
        plain_grammar = self.plain_grammar
        plain_grammar.definitions = {name: rule.body for name, rule in self.rules.items() if is_terminal(name)}
        unreadable_names = self._find_unreadable_terminals()
        seen: set[str] = set()
        for line in self.lines:
            if isinstance(line, Directive):
                self._write_directive(line)
                continue
            name = line.name.text
            if name in seen and not line.modifiers:
                raise self.error(f"{name} is defined twice", line.name, "join the alternatives with |")
            seen.add(name)
            if name in unreadable_names:
                self._declare_terminal(line)
            elif not line.is_parametric:
                self._write_definition(line, self.to_lark_name(line.name), None)
        while self.pending_instances:
            name, value = self.pending_instances.pop()
            self._write_definition(self.rules[name], self.instances[name, value], value)
            if len(self.instances) > self.limits.nodes // 100:
                raise LimitExceeded("nodes", len(self.instances) * 100, self.limits.nodes, hint="use fewer bits")
        for name in (*plain_grammar.parts, *plain_grammar.terminals):
            self.put(f"%declare {name}\n", None)
        self._join()
        return plain_grammar

    def _join(self) -> None:
        offset, out = 0, []
        for string, token in self.pieces:
            if token is not None:
                self.plain_grammar.original_spans.append((offset, *token.span))
            out.append(string)
            offset += len(string)
        self.plain_grammar.text = "".join(out)

    # --- statements

    def _find_unreadable_terminals(self) -> set[str]:
        """The terminals that Lark cannot read, because of an operator in them or because they use such terminals."""
        token_texts = {name: {token.text for token in body} for name, body in self.plain_grammar.definitions.items()}
        unreadable_names = set()
        for name, body in self.plain_grammar.definitions.items():
            for token, next_token in zip_longest(body, body[1:]):
                if token.kind in ("special", "reference") or token.text in _PARTS:
                    hint = "terminals are regular: move it to a rule"
                    raise self.error(f"{token.text} cannot be used in terminals", token, hint)
                is_count = next_token is not None and next_token.kind == "number"
                if token.kind == "&" or token.text == "%regex" or (token.kind == "~" and not is_count):
                    unreadable_names.add(name)
        while new_names := {
            name for name, texts in token_texts.items() if name not in unreadable_names and texts & unreadable_names
        }:
            unreadable_names |= new_names
        return unreadable_names

    def _declare_terminal(self, line: Definition) -> None:
        if line.modifiers or line.suffix or line.attributes:
            token = (*line.modifiers, *line.suffix, line.name)[0]
            reason = "a terminal with &, ~ or %regex cannot have a priority, modifiers or parameters"
            raise UnsupportedError(reason, text=self.source, span=token.span, hint="use it in another terminal")
        name = self.to_lark_name(line.name)
        self.plain_grammar.terminals[name] = TerminalSource(line.body)
        self.plain_grammar.lines[name] = self._find_line(line.name)

    def _write_directive(self, line: Directive) -> None:
        match line.token.text:
            case "%llguidance" | "%grammar_options":
                self._read_options(line.token)
            case "%ignore" if any(token.kind == "&" or token.text == "%regex" for token in line.body):
                name = self.make_name("IGNORED", line.token)
                self.plain_grammar.terminals[name] = TerminalSource(line.body)
                self.put(f"%ignore {name}\n", line.token)
            case "%ignore":
                self.put("%ignore ", line.token)
                self._write_body(line.body, None)
                self.put("\n", None)
            case "%import" | "%declare":
                body = self.source[line.token.end : line.body[-1].end] if line.body else ""
                self.put(line.token.text + re.sub(r"\s+", " ", body) + "\n", line.token)
            case _:
                directives = "%import, %ignore, %declare, %override, %extend, %json, %lark, %regex, %llguidance"
                raise self.error(
                    f"there is no directive {line.token.text}", line.token, f"the directives are {directives}"
                )

    def _read_options(self, token: Token) -> None:
        options: Any = json.loads(token.value)
        if not isinstance(options, dict):
            raise self.error(f"{token.text} takes an object", token, 'write, for example, {"allow_initial_skip": true}')
        for name, value in options.items():
            if name not in _OPTIONS:
                raise self.error(f"there is no option {name!r}", token, f"the options are {', '.join(_OPTIONS)}")
            if not any(value is each or (value == each and isinstance(each, str)) for each in _OPTIONS[name]):
                raise self.error(f"the option {name} cannot be {json.dumps(value)}", token)
        self.options |= options
        self.plain_grammar.initial_skip = self.options.get("allow_initial_skip", False)
        self.plain_grammar.final_skip = self.options.get("allow_final_skip", True)
        skip_once = self.options.get("skip_repetition") == "once" or self.options.get("ignore_once", False)
        self.plain_grammar.skip_once, self.plain_grammar.uses_fullmatch = skip_once, True

    def _write_definition(self, line: Definition, name: str, parameter: int | None) -> None:
        modifiers = "".join(token.text + " " * token.text.startswith("%") for token in line.modifiers)
        self.put(modifiers + name, line.name)
        self.put("".join(token.text for token in line.suffix) + ": ", line.name)
        self.plain_grammar.lines.setdefault(name, self._find_line(line.name))
        if line.attributes:
            self._write_with_attributes(line, name, parameter)
        elif line.is_parametric:
            bodies = [
                body
                for body, condition in split_alternatives(self.source, line.body)
                if self._holds(condition, parameter)
            ]
            for number, body in enumerate(bodies):
                self.put(" | " if number else "", None)
                self._write_body(body, parameter)
            if not bodies:
                self.put(self.name_part("nothing", line.name), line.name)
        else:
            self._write_body(line.body, None)
        self.put("\n", None)

    def _holds(self, condition: Sequence[Token], parameter: int | None) -> bool:
        return evaluate_condition(self.source, condition, parameter or 0)

    def _write_with_attributes(self, line: Definition, name: str, parameter: int | None) -> None:
        attributes = line.attributes
        region = RegionSource(line.name, attributes)
        if region.attributes.keys() & {"capture", "stop_capture", "temperature"}:
            self.plain_grammar.regions[name] = region
        if not attributes.keys() & {"lazy", "suffix", "stop", "max_chars", "max_tokens"}:
            self._write_body(line.body, parameter)
            return
        body = list(line.body)
        special_tokens: list[Token] = []  # at the end of the body
        while body and body[-1].kind == "special":
            special_tokens.insert(0, body.pop())
        stop, max_chars, max_tokens = (attributes.get(each) for each in ("stop", "max_chars", "max_tokens"))
        terminal = self.make_name("TERMINAL", line.name)
        region.terminal = terminal
        self.plain_grammar.terminals[terminal] = TerminalSource(
            tuple(body),
            "lazy" in attributes and not special_tokens,
            attributes.get("suffix"),
            None if stop is None or stop.text == '""' else stop,
            None if max_chars is None else int(max_chars.text),
            None if max_tokens is None else int(max_tokens.text),
        )
        self.plain_grammar.is_regular = False
        self.put(f"{terminal} ", line.name)
        self._write_body(special_tokens, parameter)

    # --- bodies of rules

    def _write_body(self, body: Sequence[Token], parameter: int | None) -> None:
        atom_starts: list[int] = []  # for each open parenthesis, the index of the piece at which its atom begins
        last_atom = len(self.pieces)
        index = 0
        while index < len(body):
            token = body[index]
            begin = len(self.pieces)
            if (counts := read_counts(self.source, body, index)) is not None:
                low, high, index = counts
                self._write_repetition(last_atom, low, high, token)
                continue
            index += 1
            match token.kind:
                case "(" | "[" | "{":
                    atom_starts.append(last_atom if token.kind == "{" else begin)
                    self.put(token.text, token)
                    continue
                case ")" | "]" | "}":
                    begin = atom_starts.pop() if atom_starts else begin
                    self.put(token.text + " ", token)
                case ".." if index < len(body):
                    read_range_ends(self.source, body[index - 2], body[index])  # raises an error if they are invalid
                    self.put(f"..{format_string(self.source, body[index])} ", token)
                    index += 1
                    continue
                case "name":
                    index = self._write_name(token, body, index, parameter)
                case "string":
                    is_range = index < len(body) and body[index].kind == ".."
                    self.put(format_string(self.source, token) + " " * (not is_range), token)
                case "regex" if self.groups_patterns:
                    self.put(group_pattern(keep_escapes(token.text)) + " ", token)
                case "directive" | "special" | "reference":
                    self.put(self.name_part(token.text, token) + " ", token)
                case "&" | "~":
                    hint = "define a terminal: NAME: /.../ & ~/.../"
                    raise self.error(f"{token.text} is only for terminals, whose names are in upper case", token, hint)
                case _:
                    self.put(token.text + " ", token)
            last_atom = begin

    def _write_name(self, token: Token, body: Sequence[Token], index: int, parameter: int | None) -> int:
        """Write a name, whose parameter may begin at `index`. Returns the index of the token after it."""
        rule = self.rules.get(token.text)
        has_argument = index < len(body) and body[index].kind == "::"
        if rule is not None and rule.is_parametric and not has_argument:
            raise self.error(f"{token.text} needs a parameter", token, f"write {token.text}::_ or {token.text}::0x0")
        if has_argument:
            if rule is None or not rule.is_parametric:
                raise self.error(f"{token.text} has no parameter", token, f"define {token.text}::_ : ...")
            value, index = evaluate_value(self.source, body, index + 1, parameter)
            self.put(self.instantiate(token.text, value) + " ", token)
        else:
            is_template = index < len(body) and body[index].kind == "{"
            self.put(self.to_lark_name(token) + ("" if is_template else " "), token)
        return index

    def _write_repetition(self, begin: int, low: int, high: int | None, token: Token) -> None:
        item = self.pieces[begin:]
        if high is not None:
            self.put(f"~{low}..{high} ", token)
        elif low <= 1:
            self.put("+ " if low else "* ", token)
        else:
            self.pieces[begin:] = [("(", token), *item, (f"~{low} ", token), *item, ("*) ", token)]

    # --- names

    def put(self, string: str, token: Token | None) -> None:
        self.pieces.append((string, token))

    def to_lark_name(self, token: Token) -> str:
        """The name without hyphens, which Lark does not accept."""
        if "-" not in token.text:
            return token.text
        if token.text not in self.lark_names:
            self.lark_names[token.text] = self._make_unused_name(token.text.replace("-", "_"))
        return self.lark_names[token.text]

    def instantiate(self, name: str, value: int) -> str:
        if (name, value) not in self.instances:
            self.instances[name, value] = self._make_unused_name(f"{name.replace('-', '_')}_{value}")
            self.pending_instances.append((name, value))
        return self.instances[name, value]

    def name_part(self, text: str, token: Token) -> str:
        """The name of the terminal that represents a token. Equal texts share a terminal."""
        if token.kind == "directive" and token.text not in (*_PARTS, "%regex"):
            raise self.error(f"{token.text} is unexpected here", token)
        key = f"{text} {token.value}"
        if key not in self.part_names:
            self.part_names[key] = self.make_name("REGEX" if token.text == "%regex" else "PART", token)
            if token.text == "%regex":
                self.plain_grammar.terminals[self.part_names[key]] = TerminalSource((token,))
            else:
                self.plain_grammar.parts[self.part_names[key]] = token
                self.plain_grammar.is_regular = False
        return self.part_names[key]

    def make_name(self, name: str, token: Token) -> str:
        unused_name = self._make_unused_name(
            f"{name}_{len(self.plain_grammar.parts) + len(self.plain_grammar.terminals)}"
        )
        self.plain_grammar.lines[unused_name] = self._find_line(token)
        return unused_name

    def _make_unused_name(self, name: str) -> str:
        while name in self.used_names:
            name += "_X" if name.isupper() else "_x"
        self.used_names.add(name)
        return name

    def _find_line(self, token: Token) -> int:
        return self.line_table.line(token.start)

    def error(self, message: str, token: Token, hint: str = "") -> SpecError:
        return SpecError(message, text=self.source, span=token.span, hint=hint)
