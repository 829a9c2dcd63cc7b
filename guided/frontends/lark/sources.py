"""Finds the definitions of a grammar for error messages. In: its text, and the texts of the files that it imports. Out:
locations in these texts.

Lark gives imported names a prefix: if a grammar imports a rule from `words.lark`, the rule `letter` in that file
becomes `words__letter`. An error shows the text that contains the name, and the name as written there.

Cost: a dictionary entry for each definition. A text is tokenized only when an error needs it.
"""

from __future__ import annotations

import re
import re._parser as parser  # type: ignore[import-not-found]
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
    """The text of a grammar or of an imported file. `file`: its file, or "" for the caller's grammar. `mangle`: maps a
    name in the text to Lark's name.
    """

    text: str
    file: str = ""
    mangle: Callable[[str], str] | None = None

    def error(self, error: _Error, span: Span, hint: str = "") -> _Error:
        """Add a location in this text to an error."""
        error.with_location(self.text, span, self.file, hint=hint)
        return error

    def find_broken_pattern(self, tokens: Iterable[Token]) -> tuple[SpecError, Span] | None:
        """(the error of the first malformed regular expression among some tokens, its location)."""
        for token in tokens:
            if token.kind == "regex":
                try:
                    parser.parse(token.text[1 : token.text.rindex("/")])
                except re.error as error:
                    pos = token.start + 1 + (error.pos or 0)
                    return SpecError(f"the regular expression {short(token.text)}: {error.msg}"), (pos, pos + 1)
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
    """The texts of a grammar and its imports, and what they define.

    Attributes:
        texts: all texts; the caller's is the first.
        definitions: Lark's name for a rule or terminal -> its definition.
        import_files: Lark's name for an imported rule or terminal -> its file, for the error if the file does not
            define it.
    """

    texts: list[Source]
    definitions: dict[str, DefinedName] = field(default_factory=dict)
    import_files: dict[str, str] = field(default_factory=dict)

    def original_name(self, name: str) -> str:
        """The name as written in the text that defines or uses it."""
        if "__" not in name:
            return name
        if name in self.definitions:
            return self.definitions[name].name
        return next((token.text for source in self.texts[1:] for token in _find_mangled(source, name)), name)

    def unmangle(self, message: str) -> str:
        """Lark's message with all names as they are written in the texts."""
        return _NAME.sub(lambda match: self.original_name(match[0]), message)

    def error(self, error: _Error, name: str) -> _Error:
        """Add the location of a rule's or terminal's definition, if it is known, to an error."""
        definition = self.definitions.get(name.split("{")[0])  # the use of a template has the form name{arguments}
        return error if definition is None else definition.source.error(error, definition.span)

    def find_usage(self, name: str, user: str) -> tuple[Source, Span]:
        """The location of the first `name` in or after the definition of `user`. If there is none, the location of this
        definition."""
        definition = self.definitions.get(user)
        source, start = (self.texts[0], 0) if definition is None else (definition.source, definition.span[1])
        tokens = [token for token in _find_mangled(source, name) if token.start >= start]
        return source, tokens[0].span if tokens else (0, 0) if definition is None else definition.span

    def find_literal(self, text: str) -> tuple[Source, Span] | None:
        """The first location of a string or regular expression."""
        for source in self.texts:
            for token in scan_leniently(source.text):
                if token.kind in ("string", "regex") and token.text == text:
                    return source, token.span
        for source in self.texts:
            if (pos := source.text.find(text)) >= 0:  # it spans several lines
                return source, (pos, pos + len(text))
        return None

    def find_pattern_tokens(self, name: str) -> list[Token]:
        """The strings and regular expressions in the definition of a name."""
        definition = self.definitions[name]
        source, span = definition.source, definition.span
        starts = (other.span[0] for other in self.definitions.values() if other.source is source)
        end = min((start for start in starts if start > span[0]), default=len(source.text))
        tokens = (token for token in scan_leniently(source.text) if span[1] <= token.start < end)
        out = []
        for token in tokens:
            if token.kind == "directive":
                break
            if token.kind in ("string", "regex"):
                out.append(token)
        return out

    def restore_original(self, text: str, original_span: Callable[[Span], Span]) -> Sources:
        """These sources with the caller's original `text` instead of the text that was rewritten for Lark.
        `original_span` maps locations back."""
        original_source = Source(text)

        def to_original(definition: DefinedName) -> DefinedName:
            if definition.source is not self.texts[0]:
                return definition
            span = original_span(definition.span)
            return replace(definition, name=text[slice(*span)], source=original_source, span=span)

        return Sources(
            [original_source, *self.texts[1:]],
            {name: to_original(definition) for name, definition in self.definitions.items()},
            self.import_files,
        )


def _find_mangled(source: Source, name: str) -> Iterator[Token]:
    """The name tokens in `source` for which Lark's name is `name`."""
    for token in scan_leniently(source.text):
        if token.kind == "name" and (source.mangle(token.text) if source.mangle else token.text) == name:
            yield token
