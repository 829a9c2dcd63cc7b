"""Turns errors of Lark into errors of guided. In: an error of Lark's loader, and the text it was reading. Out: a
`SpecError` with the location of the mistake, the names in that text, and a hint.
"""

from __future__ import annotations

import re
from typing import Any, Final

from guided.close_names import close_name
from guided.errors import SpecError

from .bounds import too_deep
from .scan import is_terminal, scan_leniently
from .sources import Source, Sources, Span

__all__ = ["lark_error", "lark_errors", "lark_package"]

_TOKEN: Final = re.compile(r"Unexpected token Token\('(\w+)', (.+?)\)(?= |\.|,|$)")
_LOCATION: Final = re.compile(r",? ?\bat line (\d+),? (?:col|column) (\d+).*")
_ESCAPE: Final = re.compile(r"\('(.*?)', SyntaxError\(")
_DUPLICATE_RULE: Final = re.compile(r"Rules defined twice:\s*\* <(\S+) :")
_SYMBOL: Final = re.compile(r"(?:Non)?Terminal\('(\w+)'\)")
_HINTS_BY_CHARACTER: Final = {
    '"': 'a string must end with `"` on its line',
    "/": "a regular expression must end with `/` on its line",
    "=": "write a rule as `name: ...`",
    "\ufeff": "this is a byte order mark: open the file with encoding='utf-8-sig'",
    **dict.fromkeys("\u201c\u201d", 'use straight quotes for strings: "text"'),
}
_UNDEFINED: Final = re.compile(
    r"(?:Rule|Terminal|Template) '?(\w+)'? used but not defined|Terminal used but not defined: (\w+)|"
    r"Terminals \{'(\w+)'.*were not defined"
)
_WITHIN: Final = re.compile(r"\(in (?:rule|terminal|template) (\w+)\)")
_ANY_NAME: Final = re.compile(r"(?:'|\bfor |\bin |\bterminal |\brule |\()([A-Za-z_]\w*)")


def lark_package() -> Any:
    """The package lark.

    Raises:
        SpecError: it is not installed.
    """
    try:
        import lark
        import lark.load_grammar
    except ImportError:
        raise SpecError(
            "grammars in Lark's notation need the package lark", hint="pip install 'guided-decoding[grammars]'"
        ) from None
    return lark


def lark_errors() -> tuple[type[Exception], ...]:
    """The classes of errors that Lark's loader raises for malformed texts."""
    return (
        lark_package().exceptions.LarkError, TypeError, re.error, RuntimeError, ValueError, AssertionError, KeyError,
    )  # fmt: skip


def lark_error(error: Exception, sources: Sources, source: Source | None = None, at: Span = (0, 0)) -> SpecError:
    """See the module docstring.

    Args:
        source: the text that was being read; by default, the caller's text.
        at: the location of the statement that was being read.
    """
    lark = lark_package()
    source = sources.texts[0] if source is None else source
    if isinstance(error, TypeError):  # Lark's search for a similar error failed: report the original error
        error = _first_cause(error, lark.exceptions.UnexpectedToken)
    if isinstance(error, lark.exceptions.VisitError):
        error = error.orig_exc
    if isinstance(error, RecursionError):
        return too_deep(source)
    message = str(error).strip()
    if not isinstance(error, lark.exceptions.LarkError):
        for each in sources.texts:
            if (
                broken := each.broken_pattern(scan_leniently(each.text))
            ) is not None:  # Lark reports its own rewritten pattern
                return each.error(*broken)
        return source.error(
            SpecError(f"Lark cannot read the grammar: {type(error).__name__} {message[:200]}".strip()), at
        )
    if duplicate := _DUPLICATE_RULE.match(message):
        hint = "Lark expands [x] and x? to alternatives with x and without it: write only alternatives that differ"
        return _name_error(f"two alternatives of the rule '{duplicate[1]}' are the same", sources, source, at, hint)
    first_line = _SYMBOL.sub(r"\1", message.splitlines()[0] if message else type(error).__name__)
    if token := _TOKEN.match(first_line):
        first_line = "the line ends too early" if token[1] == "_NL" else f"unexpected {token[2]}"
    if span := _parser_location(error, message, source.text):
        if first_line.startswith("Unexpected input"):
            hint = _HINTS_BY_CHARACTER.get(source.text[slice(*span)], "")
            return source.error(SpecError("unexpected input"), span, hint)
        return source.error(SpecError(_LOCATION.sub("", first_line)[:300]), span)
    if escape := _ESCAPE.match(first_line):
        string = escape[1].replace("\\\\", "\\")
        begin = source.text.find(string, at[0])
        message = f"{string} contains an escape that Python's strings do not have"
        return source.error(SpecError(message), at if begin < 0 else (begin, begin + len(string)))
    hint = ""
    if first_line.startswith("Inlined rules"):
        hint = "leave out the ?: a rule whose name begins with _ is always inlined"
    return _name_error(first_line, sources, source, at, hint)


def _name_error(message: str, sources: Sources, source: Source, at: Span, hint: str = "") -> SpecError:
    """An error about a name, located where the name is used or defined."""
    within = _WITHIN.search(message)
    outer = within[1] if within else ""
    if undefined := _UNDEFINED.search(message):
        mangled = next(filter(None, undefined.groups()))
        name = sources.original_name(mangled)
        source, at = sources.find_usage(mangled, outer)
        defined_names = [each.name for each in sources.definitions.values() if each.source is source]
        close = close_name(name, defined_names)
        hint = f"did you mean {close}?" if close else f"define it: {name}: ..."
        if mangled in sources.import_files:
            hint = f"it is imported from {sources.import_files[mangled]}, which does not define it"
        if is_terminal(name):
            message = message.replace("Rule '", "Terminal '", 1)
    elif at == (0, 0):
        for name in _ANY_NAME.findall(message):
            if within and name != outer:
                source, at = sources.find_usage(name, outer)
            elif name in sources.definitions:
                source, at = sources.definitions[name].source, sources.definitions[name].span
            if at != (0, 0):
                break
    return source.error(SpecError(sources.unmangle(message)[:300]), at, hint)


def _parser_location(error: Any, message: str, text: str) -> Span | None:
    """The location of an error that Lark reported while parsing a text."""
    line, column = getattr(error, "line", None), getattr(error, "column", None)
    match = _LOCATION.search(message)
    if not (isinstance(line, int) and isinstance(column, int)) and match:
        line, column = int(match[1]), int(match[2])
    if not (isinstance(line, int) and isinstance(column, int) and line > 0):
        return None
    at = sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + max(column - 1, 0)
    return min(at, len(text)), min(at + 1, len(text))


def _first_cause(error: BaseException, kind: type[BaseException]) -> Any:
    """The first error of this class in the context chain of an error, or that error itself."""
    cause, at = error, error.__context__
    while at is not None:
        cause = at if isinstance(at, kind) else cause
        at = at.__context__
    return cause
