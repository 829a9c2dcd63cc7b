"""Finds the definitions of a grammar for error messages. In: its text, and the texts of the files that it imports. Out:
locations in these texts.

Lark gives imported names a prefix: if a grammar imports a rule of `words.lark`, the rule `letter` in that file becomes
`words__letter`. An error shows the text that contains the name, and the name as it is written there.

Cost: a dictionary entry for each definition. A text is tokenized only when an error needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, TypeVar

from guided.errors import GuidedError, SpecError, short

from .scan import Token, scan_leniently

__all__ = ["DefinedName", "Source", "Sources", "Span"]

Span: TypeAlias = tuple[int, int]
_Error = TypeVar("_Error", bound=GuidedError)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Source:
    """A text. `file`: its file, or "" for the caller's text. `mangle`: maps a name in the text to Lark's name."""

    text: str
    file: str = ""
    mangle: Callable[[str], str] | None = None

    def error(self, error: _Error, span: Span, hint: str = "") -> _Error:
        """An error, with a location in this text."""
        error.with_location(self.text, span, self.file, hint=hint)
        return error

    def broken_pattern(self, tokens: Iterable[Token]) -> tuple[SpecError, Span] | None:
        """The error of the first malformed regular expression among some tokens, and its location."""
        for token in tokens:
            if token.kind == "regex":
                try:
                    re.compile(token.text[1 : token.text.rindex("/")])
                except re.error as error:
                    at = token.start + 1 + (error.pos or 0)
                    return SpecError(f"the regular expression {short(token.text)}: {error.msg}"), (at, at + 1)
                except (OverflowError, RecursionError):
                    continue
        return None


@dataclass(frozen=True, slots=True)
class DefinedName:
    """A definition: the name as written in the text, and its location."""

    name: str
    source: Source
    span: Span


@dataclass(frozen=True, slots=True)
class Sources:
    """The texts of a grammar, and what they define.

    Attributes:
        texts: all texts, the caller's first.
        definitions: name in Lark's grammar -> its definition.
        import_files: imported name in Lark's grammar -> its file, for errors if this file does not define it.
    """

    texts: list[Source]
    definitions: dict[str, DefinedName] = field(default_factory=dict)
    import_files: dict[str, str] = field(default_factory=dict)

    def original_name(self, name: str) -> str:
        """A name as written in its text."""
        if "__" not in name:
            return name
        if name in self.definitions:
            return self.definitions[name].name
        return next((token.text for source in self.texts[1:] for token in _mangled(source, name)), name)

    def unmangle(self, message: str) -> str:
        """A message of Lark, with names as they are written in the texts."""
        return _NAME.sub(lambda match: self.original_name(match[0]), message)

    def error(self, error: _Error, name: str) -> _Error:
        """An error about a rule or terminal, at its definition."""
        at = self.definitions.get(name.split("{")[0])  # the use of a template has the form name{arguments}
        return error if at is None else at.source.error(error, at.span)

    def find_usage(self, name: str, within: str) -> tuple[Source, Span]:
        """The location at which the definition `within` uses a name."""
        at = self.definitions.get(within)
        source, start = (self.texts[0], 0) if at is None else (at.source, at.span[1])
        tokens = [token for token in _mangled(source, name) if token.start >= start]
        return source, tokens[0].span if tokens else (0, 0) if at is None else at.span

    def find_literal(self, text: str) -> tuple[Source, Span] | None:
        """The first location of a string or regular expression."""
        for source in self.texts:
            for token in scan_leniently(source.text):
                if token.kind in ("string", "regex") and token.text == text:
                    return source, token.span
        for source in self.texts:
            if (at := source.text.find(text)) >= 0:  # it spans several lines
                return source, (at, at + len(text))
        return None

    def pattern_tokens(self, name: str) -> list[Token]:
        """The strings and regular expressions in the definition of a name."""
        at = self.definitions[name]
        begins = (other.span[0] for other in self.definitions.values() if other.source is at.source)
        end = min((begin for begin in begins if begin > at.span[0]), default=len(at.source.text))
        tokens = (token for token in scan_leniently(at.source.text) if at.span[1] <= token.start < end)
        out = []
        for token in tokens:
            if token.kind == "directive":
                break
            if token.kind in ("string", "regex"):
                out.append(token)
        return out

    def with_original(self, text: str, original_span: Callable[[Span], Span]) -> Sources:
        """These sources with the caller's original `text`, which was rewritten for Lark. `original_span` maps
        locations back."""
        first = Source(text)

        def to_original(at: DefinedName) -> DefinedName:
            if at.source is not self.texts[0]:
                return at
            span = original_span(at.span)
            return replace(at, name=text[slice(*span)], source=first, span=span)

        return Sources(
            [first, *self.texts[1:]],
            {name: to_original(at) for name, at in self.definitions.items()},
            self.import_files,
        )


def _mangled(source: Source, name: str) -> Iterator[Token]:
    """The tokens of a text that Lark calls `name`."""
    for token in scan_leniently(source.text):
        if token.kind == "name" and (source.mangle(token.text) if source.mangle else token.text) == name:
            yield token
