"""Sets of member names. In: patterns, schemas of names, and sets of names. Out: languages as IR, and membership.

A *source* says which names are meant: an IR node (of a pattern), a schema (of `propertyNames`: the strings that satisfy
it), or a `KeySet` made of these. Names that no part of a schema declares fall into *classes*, one for each combination
of the sources that speak of them; a class that has no name is left to the core, which drops what generates nothing.
Cost: a name is matched once per source, by derivatives; classes double with each source.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from guided.errors import UnsupportedError
from guided.grammar.ir import EMPTY, Alt, And, Node, Not, Text
from guided.spec.json_schema.resolve import Schema
from guided.spec.json_schema.spelling import any_text
from guided.spec.regex.terms import Terms, TooLarge
from guided.spec.regex.words import few_words

__all__ = ["KeySet", "Keys", "Source"]


_MOST_SOURCES = 6


@dataclass(frozen=True, slots=True, eq=False)
class KeySet:
    """The names in all of `within`, in none of `without`, and not among `names`."""

    within: tuple[Source, ...] = ()
    without: tuple[Source, ...] = ()
    names: frozenset[str] = frozenset()


Source: TypeAlias = "Node | Schema | KeySet"


class Keys:
    """Answers for one compilation; `strings` gives the language of the strings that satisfy a schema, `written` what is
    written of a pattern's."""

    def __init__(
        self, strings: Callable[[Schema, Callable[[Node], Node]], Node], written: Callable[[Node], Node]
    ) -> None:
        self._strings, self._written = strings, written
        self._languages: dict[tuple[int, bool], tuple[Source, Node]] = {}
        self._known: dict[tuple[int, str], bool] = {}
        self._terms: Terms | None = None

    def language(self, source: Source) -> Node:
        """Decoded names: all that are meant."""
        return self._language(source, narrow=False)

    def written(self, source: Source) -> Node:
        """Decoded names: those of them that are written."""
        return self._language(source, narrow=True)

    def _language(self, source: Source, *, narrow: bool) -> Node:
        if isinstance(source, Schema):
            key = id(source), narrow
            if key not in self._languages:
                self._languages[key] = source, self._strings(source, self._written if narrow else _as_it_is)
            return self._languages[key][1]
        if isinstance(source, KeySet):
            inside = [self._language(part, narrow=narrow) for part in source.within]
            outside: list[Node] = [Not(self.language(part)) for part in source.without]
            if source.names:
                outside.append(Not(Alt(tuple(Text(name) for name in sorted(source.names)))))
            parts = (*inside, *outside)
            return And(parts) if parts else any_text()
        return self._written(source) if narrow else source

    def has(self, source: Source, name: str) -> bool:
        """Whether the source speaks of this name."""
        if isinstance(source, KeySet):
            return (
                name not in source.names
                and all(self.has(part, name) for part in source.within)
                and not any(self.has(part, name) for part in source.without)
            )
        key = (id(source), name)
        if key not in self._known:
            self._languages.setdefault((id(source), False), (source, self.language(source)))  # keeps the source's id
            self._known[key] = self._matches(self.language(source), name)
        return self._known[key]

    def classes(
        self, within: Sequence[Source], spoken: Iterable[Source], declared: Collection[str], where: str
    ) -> Iterator[tuple[tuple[Node, ...], frozenset[int]]]:
        """The classes of the names in all of `within`: languages that a name is in, and its sources by id.

        Declared names that a source or `within` speaks of are left out: it may be that there are no others.
        """
        sources = list({id(source): source for source in spoken}.values())
        if len(sources) > _MOST_SOURCES:
            raise UnsupportedError(
                f"more than {_MOST_SOURCES} patterns of names apply to one object",
                pointer=where,
                hint="join patterns whose members have the same schema",
            )
        allowed = [self.written(source) for source in within]
        for chosen in product((True, False), repeat=len(sources)):
            ids = frozenset(id(source) for source, is_in in zip(sources, chosen, strict=True) if is_in)
            names = list(allowed)
            names += [self.written(source) for source in sources if id(source) in ids]
            names += [Not(self.language(source)) for source in sources if id(source) not in ids]
            if within or ids:
                taken = [one for one in declared if all(self.has(source, one) for source in within)]
                for source in sources:
                    taken = [one for one in taken if self.has(source, one) == (id(source) in ids)]
                names += [Not(Alt(tuple(map(Text, taken))))] if taken else []
            yield tuple(names), ids

    def few(self, languages: tuple[Node, ...], most: int) -> tuple[str, ...] | None:
        """The names in all of the languages; None where there may be more than `most`."""
        self._terms = self._terms or Terms()
        return few_words(self._terms, And(languages), most)

    def _matches(self, language: Node, name: str) -> bool:
        if language == EMPTY:
            return False
        try:
            self._terms = terms = self._terms or Terms()
            term = terms.read(language)
            for char in name:
                term = terms.derive(term, ord(char))
            return bool(terms.nullable[term])
        except TooLarge:
            raise UnsupportedError(
                f"whether the name {name[:40]!r} matches a pattern of names takes too many steps to decide",
                hint="simplify the pattern",
            ) from None


def _as_it_is(pattern: Node) -> Node:
    return pattern
