"""Sets of member names. In: patterns, schemas for names, and sets of names. Out: languages as IR, and membership.

A *source* stands for a set of names: an IR node (of a pattern), a schema (of `propertyNames`: the strings that satisfy
it), or a `KeySet` of these. Names of additional members fall into *classes*, one for each combination of sources that
contain them (`name_classes.py`). A class may turn out to have no names: the core drops it, since it generates nothing.

Cost: one match of each source with each name, by derivatives; linear in the classes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from guided.errors import UnsupportedError
from guided.frontends.json_schema.algebra.name_classes import MAX_CLASSES, divide_names
from guided.frontends.json_schema.algebra.strings import any_string
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.regex.derivatives import Terms, TooLarge
from guided.frontends.regex.overlap import Overlap
from guided.frontends.regex.small_language import list_small_language
from guided.ir.nodes import EMPTY, Alt, And, Node, Not, Text
from guided.ir.serial import Numbered, serial
from guided.meter import spend

__all__ = ["KeySet", "Keys", "Source"]


@dataclass(frozen=True, slots=True, eq=False)
class KeySet(Numbered):
    """The names that are in all `sources`, in none of `excluded_sources`, and not in `excluded_names`."""

    sources: tuple[Source, ...] = ()
    excluded_sources: tuple[Source, ...] = ()
    excluded_names: frozenset[str] = frozenset()


Source: TypeAlias = "Node | Schema | KeySet"


class Keys:
    """The sets of names of one compilation.

    `strings` returns the language of the strings that satisfy a schema. `restrict_to_output` returns the part of a
    pattern's language that the output may contain (see `Reader.restrict_to_output`).
    """

    def __init__(
        self,
        strings: Callable[[Schema, Callable[[Node], Node]], Node],
        restrict_to_output: Callable[[Node], Node],
        overlap: Overlap,
    ) -> None:
        self._strings, self._restrict_to_output, self._overlap = strings, restrict_to_output, overlap
        self._languages: dict[tuple[int, bool], Node] = {}
        self._memberships: dict[tuple[int, str], bool] = {}
        self._terms: Terms | None = None

    def language(self, source: Source) -> Node:
        """The language of a source, over decoded names."""
        return self._language(source, restrict=False)

    def writable_language(self, source: Source) -> Node:
        """The part of a source's language that the output may contain."""
        return self._language(source, restrict=True)

    def _language(self, source: Source, *, restrict: bool) -> Node:
        if isinstance(source, Schema):
            key = serial(source), restrict
            if key not in self._languages:
                self._languages[key] = self._strings(source, self._restrict_to_output if restrict else _identity)
            return self._languages[key]
        if isinstance(source, KeySet):
            inside = [self._language(inner_source, restrict=restrict) for inner_source in source.sources]
            outside: list[Node] = [Not(self.language(inner_source)) for inner_source in source.excluded_sources]
            if source.excluded_names:
                outside.append(Not(Alt(tuple(Text(name) for name in sorted(source.excluded_names)))))
            languages = (*inside, *outside)
            return And(languages) if languages else any_string()
        return self._restrict_to_output(source) if restrict else source

    def contains(self, source: Source, name: str) -> bool:
        """Whether the name is in the source."""
        if isinstance(source, KeySet):
            return (
                name not in source.excluded_names
                and all(self.contains(inner_source, name) for inner_source in source.sources)
                and not any(self.contains(inner_source, name) for inner_source in source.excluded_sources)
            )
        key = (serial(source), name)
        if key not in self._memberships:
            self._memberships[key] = self._matches(self.language(source), name)
        return self._memberships[key]

    def classes(
        self,
        required_sources: Sequence[Source],
        all_sources: Iterable[Source],
        declared_names: Collection[str],
        location: str,
    ) -> Iterator[tuple[tuple[Node, ...], frozenset[int]]]:
        """The classes of the names in all of `required_sources`.

        Yields, for each class, the languages that its names are in, and the serial numbers of the sources that contain
        them. Declared names are excluded from a class that might otherwise consist of declared names only.
        """
        sources = list({serial(source): source for source in all_sources}.values())
        if not sources and not required_sources:
            yield (), frozenset()
            return
        languages = [self.language(source) for source in sources]
        classes = divide_names(
            [self._language_ignoring_declared(source, declared_names) for source in sources], self._overlap
        )
        if classes is None:
            raise UnsupportedError(
                f"the name patterns of one object overlap in more than {MAX_CLASSES} ways",
                pointer=location,
                hint="join patterns whose members have the same schema",
            )
        required_languages = [self.writable_language(source) for source in required_sources]
        candidates = [
            name for name in declared_names if all(self.contains(source, name) for source in required_sources)
        ]
        for inside, outside in classes:
            spend()
            ids = frozenset(serial(sources[index]) for index in inside)
            names = required_languages + [self.writable_language(sources[index]) for index in inside]
            if outside:
                excluded_languages = tuple(languages[index] for index in outside)
                names.append(Not(excluded_languages[0] if len(excluded_languages) == 1 else Alt(excluded_languages)))
            if required_sources or ids:
                sides = [(source, serial(source) in ids) for source in sources]
                excluded_names = [
                    name
                    for name in candidates
                    if all(self.contains(source, name) is is_inside for source, is_inside in sides)
                ]
                names += [Not(Alt(tuple(map(Text, excluded_names))))] if excluded_names else []
            yield tuple(names), ids

    def _language_ignoring_declared(self, source: Source, declared_names: Collection[str]) -> Node:
        """The language of a source, possibly wrong about declared names."""
        if (
            isinstance(source, KeySet)
            and source.excluded_names
            and all(name in declared_names for name in source.excluded_names)
        ):
            source = KeySet(source.sources, source.excluded_sources)
        return self.language(source)

    def names_if_few(self, languages: tuple[Node, ...], max_names: int) -> tuple[str, ...] | None:
        """The names in all of the languages. None if there may be more than `max_names`."""
        self._terms = self._terms or Terms()
        return list_small_language(self._terms, And(languages), max_names)

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
                f"it takes too many steps to decide whether the name {name[:40]!r} matches a pattern",
                hint="simplify the pattern",
            ) from None


def _identity(pattern: Node) -> Node:
    return pattern
