"""Converts Lark's errors to guided's. In: an error of Lark's loader, and the grammar it was reading. Out: a `SpecError`
with the location of the mistake, names as written in the grammar, and a hint.
"""

from __future__ import annotations

import re
from typing import Any, Final

from guided.close_names import find_closest_name
from guided.errors import SpecError

from .bounds import make_depth_error
from .scan import is_terminal, scan_leniently
from .sources import Source, Sources, Span

__all__ = ["convert_error", "get_error_classes", "import_lark"]

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


def import_lark() -> Any:
    """Import the package lark.

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


def get_error_classes() -> tuple[type[Exception], ...]:
    """The classes of errors that Lark's loader raises for malformed grammars."""
    return (
        import_lark().exceptions.LarkError, TypeError, re.error, RuntimeError, ValueError, AssertionError, KeyError,
    )  # fmt: skip


def convert_error(error: Exception, sources: Sources, source: Source | None = None, span: Span = (0, 0)) -> SpecError:
    """See the module docstring.

    Args:
        source: the grammar or imported file that was being read; None: the caller's grammar.
        span: the location of the statement that was being read.
    """
    lark = import_lark()
    source = sources.texts[0] if source is None else source
    if isinstance(error, TypeError):  # Lark failed while it looked for a similar known mistake: use the original error
        error = _find_first_cause(error, lark.exceptions.UnexpectedToken)
    if isinstance(error, lark.exceptions.VisitError):
        error = error.orig_exc
    if isinstance(error, RecursionError):
        return make_depth_error(source)
    message = str(error).strip()
    if not isinstance(error, lark.exceptions.LarkError):
        for each in sources.texts:
            if (
                broken_pattern := each.find_broken_pattern(scan_leniently(each.text))
            ) is not None:  # Lark's error would show the pattern after Lark has rewritten it
                return each.error(*broken_pattern)
        return source.error(
            SpecError(f"Lark cannot read the grammar: {type(error).__name__} {message[:200]}".strip()), span
        )
    if duplicate := _DUPLICATE_RULE.match(message):
        hint = "Lark expands [x] and x? to alternatives with x and without it: write only alternatives that differ"
        return _make_name_error(
            f"two alternatives of the rule '{duplicate[1]}' are the same", sources, source, span, hint
        )
    first_line = _SYMBOL.sub(r"\1", message.splitlines()[0] if message else type(error).__name__)
    if token := _TOKEN.match(first_line):
        first_line = "the line ends too early" if token[1] == "_NL" else f"unexpected {token[2]}"
    if parser_span := _find_parser_location(error, message, source.text):
        if first_line.startswith("Unexpected input"):
            hint = _HINTS_BY_CHARACTER.get(source.text[slice(*parser_span)], "")
            return source.error(SpecError("unexpected input"), parser_span, hint)
        return source.error(SpecError(_LOCATION.sub("", first_line)[:300]), parser_span)
    if escape := _ESCAPE.match(first_line):
        string = escape[1].replace("\\\\", "\\")
        begin = source.text.find(string, span[0])
        message = f"{string} contains an escape that Python's strings do not have"
        return source.error(SpecError(message), span if begin < 0 else (begin, begin + len(string)))
    hint = ""
    if first_line.startswith("Inlined rules"):
        hint = "leave out the ?: a rule whose name begins with _ is always inlined"
    return _make_name_error(first_line, sources, source, span, hint)


def _make_name_error(message: str, sources: Sources, source: Source, span: Span, hint: str = "") -> SpecError:
    """An error about a name, located where the name is used or defined."""
    within_match = _WITHIN.search(message)
    outer_name = within_match[1] if within_match else ""
    if undefined := _UNDEFINED.search(message):
        mangled_name = next(filter(None, undefined.groups()))
        name = sources.original_name(mangled_name)
        source, span = sources.find_usage(mangled_name, outer_name)
        defined_names = [each.name for each in sources.definitions.values() if each.source is source]
        close = find_closest_name(name, defined_names)
        hint = f"did you mean {close}?" if close else f"define it: {name}: ..."
        if mangled_name in sources.import_files:
            hint = f"it is imported from {sources.import_files[mangled_name]}, which does not define it"
        if is_terminal(name):
            message = message.replace("Rule '", "Terminal '", 1)
    elif span == (0, 0):
        for name in _ANY_NAME.findall(message):
            if within_match and name != outer_name:
                source, span = sources.find_usage(name, outer_name)
            elif name in sources.definitions:
                source, span = sources.definitions[name].source, sources.definitions[name].span
            if span != (0, 0):
                break
    return source.error(SpecError(sources.unmangle(message)[:300]), span, hint)


def _find_parser_location(error: Any, message: str, text: str) -> Span | None:
    """The location of an error that Lark reported while it parsed a grammar. None if the error has no location."""
    line, column = getattr(error, "line", None), getattr(error, "column", None)
    match = _LOCATION.search(message)
    if not (isinstance(line, int) and isinstance(column, int)) and match:
        line, column = int(match[1]), int(match[2])
    if not (isinstance(line, int) and isinstance(column, int) and line > 0):
        return None
    offset = sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + max(column - 1, 0)
    return min(offset, len(text)), min(offset + 1, len(text))


def _find_first_cause(error: BaseException, kind: type[BaseException]) -> Any:
    """The earliest error of the class `kind` in the context chain of `error`. Without one, `error` itself."""
    cause, context = error, error.__context__
    while context is not None:
        cause = context if isinstance(context, kind) else cause
        context = context.__context__
    return cause
