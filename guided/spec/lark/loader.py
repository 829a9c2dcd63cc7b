"""Reads a text by Lark's own loader. In: a text and the name of its first rule. Out: `Loaded`.

Lark resolves imports, templates, `%override`, `%extend`, `%declare`, repetitions and terminals that are made of
terminals. What is left are rules that are lists of alternatives, each a list of symbols, and terminals that are one
string or one regular expression each.

Safety: a text may be a stranger's. Its length is bounded before Lark sees it, and so is what its repetitions would
write out. It can read no file but those that come with Lark, unless the caller names folders.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.ir.nodes import Grammar, Node
from guided.ir.regions import Region
from guided.limits import Limits

from .bounds import check_bounds
from .expanded import built, compiled, lark_package

__all__ = ["Alternative", "Loaded", "LoadedTerminal", "load"]

_LARGEST_REPETITION: Final = 10_000
_REPETITION: Final = re.compile(r"~\s*(\d+)(?:\s*\.\.\s*(\d+))?")
_PLACE: Final = re.compile(r"\bat line (\d+),? (?:col|column) (\d+)")
_TWICE: Final = re.compile(r"Rules defined twice:\s*\* <(\S+) :")
_INLINED: Final = re.compile(r"(?m)^[ \t]*!?\?!?(_\w+)")
_ESCAPE: Final = re.compile(r"\('(.*?)', SyntaxError\(")
_SLIPS: Final = {
    '"': 'a string ends with `"`, on its line',
    "/": "a regular expression ends with `/`, on its line",
    "=": "a rule is written `name: ...`",
    **dict.fromkeys("\u201c\u201d", 'a string stands in straight quotes, as "text"'),
}
_UNDEFINED: Final = re.compile(
    r"(?:Rule|Terminal|Token) '?(\w+)'? used but not defined|Unknown (?:rule|terminal) '?(\w+)"
)


@dataclass(frozen=True, slots=True)
class Alternative:
    """The symbols of one alternative, in order: (name, whether it is a terminal)."""

    symbols: tuple[tuple[str, bool], ...]


@dataclass(frozen=True, slots=True)
class LoadedTerminal:
    """A terminal. `source`: its regular expression as Python's `re` reads it, flags included.

    `value`: its text, if `is_text`, or its regular expression without flags. `written`: what the grammar says where it
    stands in a rule without a name.
    """

    name: str
    source: str
    is_text: bool
    priority: int
    value: str
    flags: frozenset[str]
    written: str
    node: Node | None = None  # its texts, where Lark's notation cannot say them
    is_lazy: bool = False  # it ends where it first matches, and other terminals do not run over that place
    max_tokens: int | None = None  # in which each text is written


@dataclass(frozen=True, slots=True)
class Loaded:
    """A grammar as Lark has read it.

    `lines`: name of a rule or terminal -> the line of the text that defines it. `parts`: name of a terminal -> what
    stands for it, and is none; `written`: what the text has in its place. `initial_skip`: whether ignored terminals may
    stand first; `skip_once`: whether they may stand once only in one place. `regions`: name of a rule -> what is asked
    of its text.
    """

    text: str
    start: str
    rules: dict[str, list[Alternative]]
    terminals: dict[str, LoadedTerminal]
    ignored: tuple[str, ...]
    lines: dict[str, int]
    parts: Mapping[str, Node | Grammar] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    initial_skip: bool = True
    skip_once: bool = False
    regions: Mapping[str, Region] = field(default_factory=dict)

    def place(self, name: str) -> tuple[int, int]:
        """Where the text defines a rule or terminal, for errors."""
        name = name.split("{")[0]
        lines = self.text.splitlines(keepends=True)[: self.lines.get(name, 0)]
        if not lines:
            return 0, 0
        start = sum(map(len, lines[:-1])) + max(lines[-1].find(name), 0)
        return start, start + len(name)

    def place_of(self, terminal: LoadedTerminal) -> tuple[int, int]:
        """Where the text defines a terminal, or else has its pattern; the beginning for one that is imported."""
        written = terminal.written
        if terminal.name in self.lines or written not in self.text:
            return self.place(terminal.name)
        return self.text.find(written), self.text.find(written) + len(written)


def load(
    text: str, start: str, import_paths: tuple[str, ...], limits: Limits, produced: frozenset[str] = frozenset()
) -> Loaded:
    """See the head. `produced`: terminals that may be declared without a definition, since they have no text.

    Raises:
        SpecError: the text is malformed. UnsupportedError: a terminal has no definition (`%declare`).
        LimitExceeded: the text, a repetition or the number of rules is too large.
    """
    lark = lark_package()
    if len(text) > limits.spec_length:
        raise LimitExceeded("spec_length", len(text), limits.spec_length)
    for low, high in _REPETITION.findall(text):
        count = int((high or low)[:20])
        if count > _LARGEST_REPETITION:
            hint = f"Lark writes a repetition out; {_LARGEST_REPETITION} times is the most that is read here"
            raise LimitExceeded("nodes", count, _LARGEST_REPETITION, fixed=True, hint=hint)
    try:
        grammar = built(text, import_paths)
        if start not in {rule for rule, *_ in _definitions(grammar)}:
            _refuse_start(text, start, [str(rule) for rule, *_ in _definitions(grammar)])
        check_bounds(grammar)
        named = {str(name) for name, _ in grammar.term_defs}
        terminals, rules = compiled(grammar, start)
    except lark.exceptions.LarkError as error:
        raise _spec_error(text, error) from None
    except TypeError as error:  # Lark's search for a similar error fails on some; what it searched for is what is wrong
        raise _spec_error(text, _first_cause(error, lark.exceptions.UnexpectedToken)) from None
    except (re.error, RuntimeError, ValueError, AssertionError, KeyError) as error:
        raise SpecError(f"Lark cannot read the grammar: {type(error).__name__} {str(error)[:200]}", text=text) from None
    if (count := sum(map(len, rules.values()))) > limits.nodes:
        raise LimitExceeded("nodes", count, limits.nodes)
    used = dict.fromkeys(symbol for alternatives in rules.values() for symbols in alternatives for symbol in symbols)
    for rule in (name for name, is_term in used if not is_term):
        if rule not in rules:
            place = re.search(rf"(?<!\w){re.escape(rule)}(?![\w{{]|\s*\{{)", text)
            hint = f"give its arguments, as {rule}{{...}}"
            raise SpecError(f"{rule} is a template", text=text, span=place.span() if place else (0, 0), hint=hint)
    lines = _lines(text)
    found = {terminal.name: _terminal(terminal, named) for terminal in terminals}
    ignored = tuple(map(str, grammar.ignore))
    for name in (*(name for name, is_term in used if is_term), *ignored):
        if name not in found and name not in produced:
            reason = f"the terminal {name} is declared, but not defined"
            hint = "define it: what a lexer of your own finds is not known here"
            if re.search("INDENT|DEDENT", name):
                hint = (
                    'for indentation as in Python give postlex="python" (--postlex python), or an Indenter of your own'
                )
            place = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
            raise UnsupportedError(reason, hint=hint, text=text, span=place.span() if place else (0, 0))
    out = {name: [Alternative(symbols) for symbols in alternatives] for name, alternatives in rules.items()}
    return Loaded(text, start, out, found, ignored, lines)


def _definitions(grammar: Any) -> list[tuple[str, Any]]:
    return [(str(name), rest) for name, *rest in grammar.rule_defs]


def _terminal(terminal: Any, named: Collection[str]) -> LoadedTerminal:
    pattern, name = terminal.pattern, str(terminal.name)
    return LoadedTerminal(
        name,
        pattern.to_regexp(),
        pattern.type == "str",
        int(terminal.priority),
        str(pattern.value),
        frozenset(map(str, pattern.flags)),
        "" if name in named and not name.startswith("__IGNORE_") else str(pattern.raw or ""),
    )


def _lines(text: str) -> dict[str, int]:
    """Name -> line of its first definition, for explanations."""
    out: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r"\s*(?:%\w+\s+)?[?!]*([A-Za-z_]\w*)\s*(?:\{[^}]*\})?\s*(?:\.\s*-?\d+)?\s*:", line)
        if found:
            out.setdefault(found[1], number)
    return out


def _first_cause(error: BaseException, kind: type[BaseException]) -> BaseException:
    """The error of this class that was raised first on the way to an error, or that error itself."""
    found, at = error, error.__context__
    while at is not None:
        found = at if isinstance(at, kind) else found
        at = at.__context__
    return found


def _refuse_start(text: str, start: str, names: list[str]) -> NoReturn:
    close = difflib.get_close_matches(start, names, n=1)
    hint = f"did you mean start={close[0]!r}?" if close else f"start= names the first rule; there are {names[:8]}"
    raise SpecError(f"there is no rule {start!r} to begin with", text=text, hint=hint)


def _spec_error(text: str, error: Any) -> SpecError:
    """Lark's message, with the place that it names as a span of the text."""
    message = str(error).strip()
    line, column = getattr(error, "line", None), getattr(error, "column", None)
    found = _PLACE.search(message)
    if not (isinstance(line, int) and isinstance(column, int)) and found:
        line, column = int(found[1]), int(found[2])
    span = (0, 0)
    if isinstance(line, int) and isinstance(column, int) and line > 0:
        lines = text.splitlines(keepends=True)
        at = sum(map(len, lines[: line - 1])) + max(column - 1, 0)
        span = (min(at, len(text)), min(at + 1, len(text)))
    first = message.splitlines()[0] if message else type(error).__name__
    hint = ""
    if twice := _TWICE.match(message):
        message = first = f"two alternatives of the rule {twice[1]!r} are the same"
        hint = "Lark writes [x] and x? out, with x and without it: write the alternatives that differ"
    first = _PLACE.sub("", first).rstrip(" ,")  # which may be one in a text that was made of this one
    if undefined := _UNDEFINED.search(message):
        name = undefined[1] or undefined[2]
        close = difflib.get_close_matches(name, list(_lines(text)), n=1)
        hint = f"did you mean {close[0]}?" if close else f"define it: {name}: ..."
        if place := re.search(rf"\b{re.escape(name)}\b", text):
            span = place.span()
    elif first.startswith("Unexpected input"):
        first, hint = "unexpected input", _SLIPS.get(text[span[0] : span[1]], "")
    elif escape := _ESCAPE.match(first):
        string = escape[1].replace("\\\\", "\\")
        first = f"{string} has an escape that Python's strings do not have"
        span = (max(text.find(string), 0), max(text.find(string), 0) + len(string))
    elif first.startswith("Inlined rules") and (rule := _INLINED.search(text)):
        span, hint = rule.span(1), "leave out the ?: a rule whose name begins with _ has no node of its own"
    if span == (0, 0):
        span = _named_place(text, first)
    return SpecError(first[:300], text=text, span=span, hint=hint)


def _named_place(text: str, message: str) -> tuple[int, int]:
    """Where the first name that a message names is defined last, or else stands last."""
    for name in re.findall(r"(?:'|\bfor |\bin )([A-Za-z_]\w*)", message):
        for pattern in (rf"(?m)^[ \t]*[?!]*({name})[ \t]*[:.{{]", rf"(?<!\w)({name})(?!\w)"):
            if found := list(re.finditer(pattern, text)):
                return found[-1].span(1)
    return 0, 0
