"""Finds the schemas that apply at the end of a text. In: a grammar and the accepted output. Out: JSON Pointers.

A text is the JSON of one schema, or contains such JSON, as with structural tags. The beginning of the JSON is found
like captures: the grammar is compiled again with marks around the rules of schemas (`annotated_grammar.py`).
`frontends/json_schema/instance_locations.py` computes the locations from the schema and the JSON so far, and
`frontends/json_schema/refusing.py` the keywords that refuse a text.

Cost: a second compilation of the grammar on first use, unless the grammar is one JSON Schema.
Limits: in parts of a grammar with a lexer, and in arguments that are written as text, only the rule's location is
known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import RLock
from typing import Final

from guided.errors import LimitExceeded, SpecError
from guided.frontends.json_schema.continuation import Continuation
from guided.frontends.json_schema.instance_locations import InstanceLocations, Judge
from guided.frontends.json_schema.refusing import Groups, find_refusing_keywords
from guided.ir.embedded import EmbeddedSchema
from guided.ir.nodes import Grammar, Region
from guided.limits import Limits
from guided.matching.compiled import CompiledGrammar, text_ids
from guided.matching.regions.annotated_grammar import AnnotatedGrammar, Automaton, automaton_of_rules
from guided.matching.regions.parse_paths import MarkHistory, enter_marks
from guided.meter import is_exhausted, seconds_left, spend

__all__ = ["SchemaLocator", "SchemasAtEnd"]

_MAX_WAIT: Final = 60.0  # seconds to wait while another thread explains a text of the same grammar


@dataclass(frozen=True, slots=True)
class SchemasAtEnd:
    """The schemas at the end of a text.

    Attributes:
        pointers: the schemas that apply there.
        refusing: the keywords that refuse the next text, in groups: the keywords of a group refuse it together.
        prefixes: the locations of the embedded schemas in the whole specification, as pointers.
        covers_all_readings: whether the text has no reading outside these schemas.
        is_partial: whether the result is incomplete because a bound was reached.
    """

    pointers: tuple[str, ...] = ()
    refusing: Groups = ()
    prefixes: tuple[str, ...] = ()
    covers_all_readings: bool = False
    is_partial: bool = False


class SchemaLocator:
    """Finds the schemas that apply at the end of texts of one grammar. `rules`: its IR.

    Raises:
        LimitExceeded: the grammar is too large.
    """

    def __init__(self, grammar: CompiledGrammar, rules: Grammar) -> None:
        self._limits = grammar.limits
        self._schemas = list(rules.schemas.items())
        self._locations: dict[int, InstanceLocations] = {}
        self._annotated_grammar: AnnotatedGrammar | None = None
        self._lock = RLock()
        if self._schemas and rules.start not in rules.schemas and rules.lexer is None and not rules.composed:
            regions = {name: Region(capture=name) for name, _ in self._schemas}
            self._annotated_grammar = AnnotatedGrammar(
                replace(rules, regions=regions), grammar.vocabulary, lambda: text_ids(grammar.vocabulary), False,
                self._limits,
            )  # fmt: skip
        self._is_one_schema = rules.start in rules.schemas

    def find_schemas(self, symbols: Sequence[int], continuation: Continuation | None) -> SchemasAtEnd:
        """Find the schemas that apply after a text. `symbols`: bytes, and 256 + id for control tokens. `continuation`:
        the refused text.

        Raises:
            GuidedError: limits are exceeded.
        """
        if self._is_one_schema:
            open_schemas: set[tuple[int, int]] = {(0, 0)}
            covers_all_readings = True
        elif self._annotated_grammar is not None:
            open_schemas, covers_all_readings = self._find_open_schemas(self._annotated_grammar, symbols)
        else:
            return SchemasAtEnd()
        pointers: dict[str, None] = {}
        groups: dict[tuple[str, ...], None] = {}
        is_partial = False
        for number, start in sorted(open_schemas):
            if any(symbol > 255 for symbol in symbols[start:]):  # the output has ended
                continue
            text = bytes(symbols[start:])
            if not self._lock.acquire(timeout=seconds_left(_MAX_WAIT)):
                is_partial = True
                break
            try:
                locations = self._locations_of(number)
                locations.begin()
                pointers |= dict.fromkeys(locations.pointers(text))
                groups |= dict.fromkeys(
                    find_refusing_keywords(locations, text, continuation) if continuation is not None else ()
                )
                is_partial |= locations.is_partial
            except LimitExceeded:
                if not is_exhausted():
                    raise
                is_partial = True
            finally:
                self._lock.release()
        prefixes = tuple(dict.fromkeys(self._schemas[number][1].prefix for number, _ in open_schemas))
        return SchemasAtEnd(
            tuple(pointers), tuple(groups), prefixes, covers_all_readings and bool(open_schemas), is_partial
        )

    def _locations_of(self, number: int) -> InstanceLocations:
        if number not in self._locations:
            source: EmbeddedSchema = self._schemas[number][1]
            self._locations[number] = InstanceLocations(
                source, self._limits, lambda grammar: _make_judge(grammar, self._limits)
            )
        return self._locations[number]

    @staticmethod
    def _find_open_schemas(
        annotated_grammar: AnnotatedGrammar, symbols: Sequence[int]
    ) -> tuple[set[tuple[int, int]], bool]:
        """Find the open schemas after a text, as (number, offset of the JSON), and whether every reading is in one."""
        with annotated_grammar.lock:
            automaton = annotated_grammar.automaton
            threads = enter_marks(annotated_grammar, [(automaton.start, None)], 0)
            for offset, symbol in enumerate(symbols, 1):
                spend(len(threads))
                steps = [
                    (
                        automaton.read_byte(state, symbol)
                        if symbol < 256
                        else automaton.read_token(state, symbol - 256),
                        history,
                    )
                    for state, history in threads
                ]
                threads = enter_marks(
                    annotated_grammar, [(state, history) for state, history in steps if state is not None], offset
                )
            open_schemas = {_innermost_region(annotated_grammar, history) for _, history in threads}
        return {each for each in open_schemas if each is not None}, None not in open_schemas


def _innermost_region(annotated_grammar: AnnotatedGrammar, history: MarkHistory) -> tuple[int, int] | None:
    """The number and the offset of the innermost open region."""
    depth = 0
    while history is not None:
        offset, mark, history = history
        number, is_end = divmod(mark - annotated_grammar.first_mark, 2)
        if is_end:
            depth += 1
        elif depth:
            depth -= 1
        else:
            return number, offset
    return None


def _make_judge(grammar: Grammar, limits: Limits) -> Judge:
    """Make a predicate: whether a grammar generates a text. With `is_whole=False`: whether it generates an extension of
    the text."""
    try:
        automaton: Automaton = automaton_of_rules(grammar, limits)
    except SpecError:  # the grammar generates nothing
        return lambda text, is_whole: False

    def judge(text: bytes, is_whole: bool) -> bool:
        is_complete = automaton.accepts(text)
        return is_complete is not None and (is_complete or not is_whole)

    return judge
