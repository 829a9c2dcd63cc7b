"""The schema locations that apply at the end of a text. In: a grammar and the accepted output. Out: JSON Pointers.

A text is the JSON of one schema, or contains such JSON, as with structural tags. The beginning of the JSON is found
like captures: the grammar is compiled again with marks around the rules of schemas, see `annotated_grammar.py`.
`frontends/json_schema/instance_locations.py` computes the locations from the schema and the JSON so far, and
`frontends/json_schema/refusing.py` the keywords that refuse a text.

Cost: a second compilation of the grammar on first use, unless it is the JSON of one schema alone.
Not done: parts of a grammar with a lexer, and arguments written as text, have no locations except those of their rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import RLock
from typing import Final

from guided.errors import LimitExceeded, SpecError
from guided.frontends.json_schema.continuation import Continuation
from guided.frontends.json_schema.instance_locations import InstanceLocations, Judge
from guided.frontends.json_schema.refusing import Groups, refusing
from guided.ir.embedded import Embedded
from guided.ir.nodes import Grammar, Region
from guided.limits import Limits
from guided.matching.compiled import CompiledGrammar, text_ids
from guided.matching.regions.annotated_grammar import AnnotatedGrammar, Automaton, automaton_of_rules
from guided.matching.regions.parse_paths import Past, entered
from guided.meter import is_exhausted, seconds_left, spend

__all__ = ["SchemaPlaces", "SchemasHere"]

_PATIENCE: Final = 60.0  # seconds, while another thread explains a text of the same grammar


@dataclass(frozen=True, slots=True)
class SchemasHere:
    """The schemas at the end of a text.

    Attributes:
        pointers: the schemas that apply there.
        refusing: their keywords that refuse the next text; the keywords of a group refuse it together.
        prefixes: the pointers of the whole schemas.
        is_all: whether the text has no reading outside these schemas.
        is_partial: whether the result is incomplete because a bound was reached.
    """

    pointers: tuple[str, ...] = ()
    refusing: Groups = ()
    prefixes: tuple[str, ...] = ()
    is_all: bool = False
    is_partial: bool = False


class SchemaPlaces:
    """Explains texts of one grammar, whose rules are `rules`.

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
        self._is_one = rules.start in rules.schemas

    def at(self, symbols: Sequence[int], refused: Continuation | None) -> SchemasHere:
        """The schemas after a text. `symbols`: bytes, and 256 + id for control tokens. `refused`: the refused text.

        Raises:
            GuidedError: limits are exceeded.
        """
        if self._is_one:
            begun: set[tuple[int, int]] = {(0, 0)}
            is_all = True
        elif self._annotated_grammar is not None:
            begun, is_all = self._open_schemas(self._annotated_grammar, symbols)
        else:
            return SchemasHere()
        pointers: dict[str, None] = {}
        groups: dict[tuple[str, ...], None] = {}
        is_partial = False
        for number, start in sorted(begun):
            if any(symbol > 255 for symbol in symbols[start:]):  # the output has ended
                continue
            text = bytes(symbols[start:])
            if not self._lock.acquire(timeout=seconds_left(_PATIENCE)):
                is_partial = True
                break
            try:
                applying = self._applying(number)
                applying.begin()
                pointers |= dict.fromkeys(applying.pointers(text))
                groups |= dict.fromkeys(refusing(applying, text, refused) if refused is not None else ())
                is_partial |= applying.is_partial
            except LimitExceeded:
                if not is_exhausted():
                    raise
                is_partial = True
            finally:
                self._lock.release()
        prefixes = tuple(dict.fromkeys(self._schemas[number][1].prefix for number, _ in begun))
        return SchemasHere(tuple(pointers), tuple(groups), prefixes, is_all and bool(begun), is_partial)

    def _applying(self, number: int) -> InstanceLocations:
        if number not in self._locations:
            source: Embedded = self._schemas[number][1]
            self._locations[number] = InstanceLocations(
                source, self._limits, lambda grammar: _judge(grammar, self._limits)
            )
        return self._locations[number]

    @staticmethod
    def _open_schemas(marked: AnnotatedGrammar, symbols: Sequence[int]) -> tuple[set[tuple[int, int]], bool]:
        """The open schemas after a text, with the offsets of their JSON; and whether there is no other reading."""
        with marked.lock:
            automaton = marked.automaton
            threads = entered(marked, [(automaton.start, None)], 0)
            for at, symbol in enumerate(symbols, 1):
                spend(len(threads))
                steps = [
                    (automaton.byte(state, symbol) if symbol < 256 else automaton.token(state, symbol - 256), past)
                    for state, past in threads
                ]
                threads = entered(marked, [(state, past) for state, past in steps if state is not None], at)
            found = {_innermost(marked, past) for _, past in threads}
        return {each for each in found if each is not None}, None not in found


def _innermost(marked: AnnotatedGrammar, past: Past) -> tuple[int, int] | None:
    """The number and the beginning of the innermost open region."""
    ended = 0
    while past is not None:
        position, mark, past = past
        number, is_end = divmod(mark - marked.first, 2)
        if is_end:
            ended += 1
        elif ended:
            ended -= 1
        else:
            return number, position
    return None


def _judge(grammar: Grammar, limits: Limits) -> Judge:
    try:
        automaton: Automaton = automaton_of_rules(grammar, limits)
    except SpecError:  # it generates nothing
        return lambda text, is_whole: False

    def judge(text: bytes, is_whole: bool) -> bool:
        is_complete = automaton.reads(text)
        return is_complete is not None and (is_complete or not is_whole)

    return judge
