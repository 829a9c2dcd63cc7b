"""Why a text or a token is, or is not, allowed after what a matcher has accepted; and what is.

In: a matcher, and a token, a text, or nothing. Out: an `Explanation`, in characters. The automaton works on bytes, but
a reader does not: a place inside of a character becomes the place before it, and what could have stood there is a set
of whole characters. Bytes are only named where the input is not UTF-8.

A token may hold a part of a character. After such a token the next one must complete the character.

Where in the rules that is, `positions.py` finds, `lexing.py` for grammars with a lexer, and `schema_places.py` in
schemas.

Cost: that of the text, and some hundred steps of the automaton for the set of characters. All else, the shortest
completion, the positions and the schemas, passes a meter (`guided/meter.py`): at most `SECONDS` and `_WORK` steps, or
less where the caller has a meter of its own. What is not found by then is left out, and `is_partial` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from guided.errors import GuidedError, LimitExceeded, brief
from guided.frontends.json_schema.asked import Asked
from guided.frontends.json_schema.refusing import Groups
from guided.ir.nodes import Grammar, Ranges, charset, intersect
from guided.matching.compiled import CompiledGrammar
from guided.matching.explain.characters import count, joined, name_of, parts_of
from guided.matching.explain.explained_matcher import ExplainedMatcher
from guided.matching.explain.lexing import LabelledLexer, Lexing, lexing
from guided.matching.explain.pointers import listed_refusals, named_places
from guided.matching.explain.positions import LabelledLanguage, Position, in_words, labelled, positions
from guided.matching.explain.schema_places import SchemaPlaces, SchemasHere
from guided.meter import is_exhausted, may_succeed_later, metered

if TYPE_CHECKING:
    from guided.vocabulary import Vocabulary

__all__ = ["Expected", "Explanation", "bytes_of", "explain", "is_cut", "is_text", "shortest_completion"]

SECONDS: Final = 4.0
_SECONDS_OF_PART: Final = 2.0
_SECONDS_OF_COMPLETION: Final = 1.0
_WORK: Final = 400_000_000
_LONGEST_COMPLETION: Final = 4096
_NAMED: Final = 3  # characters that are named where one was begun


@dataclass(frozen=True, slots=True)
class Expected:
    """What may follow at a place. `str` gives it in words, `in` asks for a character.

    Attributes:
        characters: all of them, as sorted ranges of code points; where one was begun, those that begin like this.
        begun: the bytes of the character that the place is inside of.
        control_tokens: names of the control tokens that the grammar has here, as <think>; or ids, as <[5]>.
        end: whether the output may end.
    """

    characters: Ranges
    begun: bytes
    control_tokens: tuple[str, ...]
    end: bool

    def __contains__(self, character: str) -> bool:
        code = ord(character)
        return any(low <= code <= high for low, high in self.characters)

    def __str__(self) -> str:
        return joined([*self._words(), *self.control_tokens, *(["the end"] if self.end else [])]) or "nothing"

    def __repr__(self) -> str:
        return f"Expected({str(self)!r})"

    def _words(self) -> list[str]:
        if self.begun == b"":
            return [part.words for part in parts_of(self.characters)]
        if (many := count(self.characters)) > _NAMED:
            return [f"the rest of one of {many:,} characters that begin like this"]
        names = [name_of(chr(code)) for low, high in self.characters for code in range(low, high + 1)]
        return [f"the rest of {joined(names)}"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether a token (or text) is allowed, where it stops being allowed, and what could have stood there.

    Attributes:
        accepted: the whole of it is allowed.
        data: the bytes that were asked about.
        read: how many of these bytes are allowed, up to a whole character.
        expected: what may follow these.
        places: the parts of the specification that are open there (JSON Pointers, rule names).
        refused_by: the keywords of schemas that refuse what follows, as JSON Pointers.
        positions: in which alternatives of which rules that is, and after which part of them; empty for schemas, and
            where it is not found out (`guided/matching/explain/positions.py` says when).
        lexing: of a grammar with a lexer, how it has cut the text, and which terminals may follow; else None.
        completion: the shortest way to finish from the matcher's own state.
        reason: one sentence.
        completion_tokens: the control tokens whose names stand in `completion`, which are no text.
        refusals: `refused_by` in groups: the keywords of one group refuse it together, each group by itself.
        is_partial: whether more could be said, but a bound on time or work was reached.
    """

    accepted: bool
    data: bytes
    read: int
    expected: Expected
    places: tuple[str, ...]
    refused_by: tuple[str, ...]
    positions: tuple[Position, ...]
    lexing: Lexing | None
    completion: bytes
    reason: str
    completion_tokens: tuple[str, ...] = ()
    refusals: Groups = ()
    is_partial: bool = False

    @property
    def characters_read(self) -> int:
        """How many characters of it are allowed."""
        return len(self.data[: self.read].decode(errors="replace"))

    def __str__(self) -> str:
        return self.reason

    def __repr__(self) -> str:
        return f"Explanation(accepted={self.accepted}, reason={self.reason!r})"


def explain(matcher: ExplainedMatcher, asked: int | str | bytes | None, *, ends: bool = False) -> Explanation:
    """As `GrammarMatcher.explain`. `ends`: the output should end behind what is asked."""
    vocabulary = matcher.grammar.vocabulary
    special: int | None = None
    if asked is None:
        data = b""
    elif isinstance(asked, int):
        spelled = vocabulary.token_bytes(asked)
        special = asked if spelled is None else None
        data = spelled or b""
        ends = asked in vocabulary.eos_token_ids
    else:
        data = bytes_of(asked)
    read, expected = _place(matcher, data)
    if isinstance(asked, int):
        accepted = matcher.validate_tokens([asked]) == 1
    else:
        accepted = read == len(data) and not (matcher.is_terminated() and data)
    written = [*_written(matcher), *data[:read]]
    refused = b"" if accepted else data[read:]
    character = (_first_character(refused) or "").encode()
    is_asked = bool(character) or (ends and not refused and not expected.end)
    with metered(SECONDS, work=_WORK):
        completion, controls = shortest_completion(matcher)
        found, cut = _positions(matcher.grammar, written, refused[:1])
        here = _schemas(matcher.grammar, written, Asked(character, refused, ends) if is_asked else None)
        is_partial = here.is_partial or completion is None or is_exhausted()
    places = _open_parts(matcher, data[:read], here)
    where = _where(named_places(places, found), here.refusing, found, cut)
    if special is not None:
        reason = _of_control_token(matcher, special, accepted, f"{expected}{where}")
    else:
        reason = _of_text(matcher, data, read, accepted, f"{expected}{where}")
    refused_by = tuple(dict.fromkeys(pointer for group in here.refusing for pointer in group))
    return Explanation(
        accepted, data, read, expected, places, refused_by, found, cut, completion or b"",
        reason + (_PARTIAL if is_partial else ""), controls, here.refusing, is_partial,
    )  # fmt: skip


_PARTIAL: Final = " (incomplete: the explanation reached its bounds on time and work)"


def _where(named: str, refusing: Groups, found: Sequence[Position], cut: Lexing | None) -> str:
    """Where that is in the specification, as the end of a message."""
    refused = f"refused by {listed_refusals(refusing)}" if refusing else ""
    where = "; ".join(filter(None, [in_words(found), f"at {named}" if named else "", refused]))
    where = f" ({where})" if where else ""
    return where + (f"; {cut}" if cut is not None and str(cut) else "")


def shortest_completion(matcher: ExplainedMatcher) -> tuple[bytes | None, tuple[str, ...]]:
    """The shortest way to finish, and the names of the control tokens in it; None if that takes too long."""
    vocabulary = matcher.grammar.vocabulary
    try:
        with metered(_SECONDS_OF_COMPLETION):
            shortest = matcher._shortest(_LONGEST_COMPLETION)
    except LimitExceeded:
        return None, ()
    completion = b"".join(
        bytes([symbol]) if symbol < 256 else _name(vocabulary, symbol - 256).encode() for symbol in shortest
    )
    return completion, tuple(dict.fromkeys(_name(vocabulary, symbol - 256) for symbol in shortest if symbol >= 256))


def _place(matcher: ExplainedMatcher, data: bytes) -> tuple[int, Expected]:
    """How many bytes are read, up to a whole character unless they end inside of one; and what may follow them."""
    read, possible = matcher._probe(data)
    begun = b""
    if _inside_character(possible):
        start = _last_start(data[:read])
        if start is None:
            begun = _begun(matcher) + data[:read]
        elif read == len(data):
            begun = data[start:read]
        else:
            read = start
    after = matcher.fork()
    after.accept_string(data[:read])
    tokens = tuple(_name(matcher.grammar.vocabulary, token) for token in after._next_tokens())
    may_end = after.is_accepting() and not after.is_terminated()
    characters = tuple(after._characters(b"", begun))
    if (spelled := _characters_of(matcher.grammar.vocabulary)) is not None:
        characters = intersect(characters, spelled)
    return read, Expected(characters, begun, tokens, may_end)


def _characters_of(vocabulary: Vocabulary) -> Ranges | None:
    """The characters of a vocabulary that has no part of one as a token; None for others, which can spell more."""
    found = set[str]()
    for data in vocabulary.tokens:
        if data is not None:
            if not is_text(data):
                return None
            found.update(data.decode())
    return charset((ord(character), ord(character)) for character in found)


def _open_parts(matcher: ExplainedMatcher, after: bytes, here: SchemasHere) -> tuple[str, ...]:
    """The parts of the specification that are open after some bytes, by the names that its author knows.

    Of the rules of schemas there are only the places that were found in these.
    """
    if here.is_all:
        return here.pointers
    if matcher.grammar.kind in ("regex", "choice", "pattern"):  # their one rule has a name of ours
        return ()
    origins = matcher.grammar.origins
    others = (origins.get(name, name) for name in matcher._open_rules(after))
    return tuple(dict.fromkeys([*here.pointers, *(one for one in others if not _is_inside(one, here.prefixes))]))


def _is_inside(place: str, prefixes: Sequence[str]) -> bool:
    return any(place == prefix or place.startswith((f"{prefix}/", f"{prefix}#")) for prefix in prefixes)


@lru_cache(maxsize=1)
def _rules(grammar: CompiledGrammar) -> Grammar:
    """The rules of a grammar, which are read anew."""
    return grammar.grammar


@lru_cache(maxsize=2)
def _schema_places(grammar: CompiledGrammar) -> SchemaPlaces | None:
    try:
        with metered(_SECONDS_OF_PART):
            return SchemaPlaces(grammar, _rules(grammar))
    except (GuidedError, RecursionError) as error:  # too large
        if may_succeed_later(error):
            raise
        return None


def _schemas(grammar: CompiledGrammar, symbols: list[int], asked: Asked | None) -> SchemasHere:
    try:
        places = _schema_places(grammar)
        return SchemasHere(is_partial=True) if places is None else places.at(symbols, asked)
    except (GuidedError, RecursionError):
        return SchemasHere(is_partial=True)


def _written(matcher: ExplainedMatcher) -> list[int]:
    """What the matcher has accepted: bytes, and 256 + id for control tokens."""
    out: list[int] = []
    for step in matcher._accepted():
        data = step if isinstance(step, bytes) else matcher.grammar.vocabulary.token_bytes(step)
        out += [256 + step] if data is None and isinstance(step, int) else data or b""
    return out


def _begun(matcher: ExplainedMatcher) -> bytes:
    """The first bytes of the character that the accepted text ends inside of."""
    last = _written(matcher)[-3:]
    start = next((at for at in range(len(last) - 1, -1, -1) if not 0x80 <= last[at] <= 0xBF), 0)
    return bytes(last[start:])


@lru_cache(maxsize=2)
def _labelled(grammar: CompiledGrammar) -> LabelledLexer | LabelledLanguage | None:
    """The grammar with what its rules say; None where nothing is to be said."""
    if grammar.kind in ("json_schema", "type"):  # all rules are of the schema
        return None
    try:
        with metered(_SECONDS_OF_PART):
            rules = _rules(grammar)
            if rules.composed:  # a part with a lexer has no rules beside those of the whole
                return None
            return labelled(rules, grammar.kind) if rules.lexer is None else LabelledLexer(rules)
    except (GuidedError, RecursionError) as error:  # too large
        if may_succeed_later(error):
            raise
        return None


def _positions(
    grammar: CompiledGrammar, symbols: list[int], refused: bytes
) -> tuple[tuple[Position, ...], Lexing | None]:
    try:
        language = _labelled(grammar)
    except (GuidedError, RecursionError):
        return (), None
    if isinstance(language, LabelledLexer):
        cut = lexing(language, symbols, refused)
        return cut.positions, cut
    return () if language is None else positions(language, symbols, grammar.vocabulary.special_tokens), None


def _name(vocabulary: Vocabulary, token: int) -> str:
    """A token that a grammar names, as the vocabulary calls it, or by its id."""
    return vocabulary.special_tokens.get(token, f"<[{token}]>")


def _of_control_token(matcher: ExplainedMatcher, token: int, accepted: bool, wanted: str) -> str:
    if matcher.is_terminated():
        return _ENDED
    vocabulary = matcher.grammar.vocabulary
    name = vocabulary.special_tokens.get(token, f"id {token}")
    if accepted:
        return f"the control token {name} is allowed"
    if token in vocabulary.eos_token_ids:
        return f"the output is not complete: expected {wanted}"
    return f"the grammar has no control token {name} here: expected {wanted}"


_ENDED: Final = "the output has ended: nothing may follow"


def _of_text(matcher: ExplainedMatcher, data: bytes, read: int, accepted: bool, wanted: str) -> str:
    if matcher.is_terminated():
        return _ENDED
    if not data:
        return f"expected {wanted}"
    if accepted:
        return f"allowed; next is {wanted}"
    if read == len(data):
        return f"{_shown(data)} is allowed, but no whole token of the vocabulary goes on from there: expected {wanted}"
    character = _first_character(data[read:])
    if len(data) == len(character.encode() if character else data[:1]):
        return f"{_named(data)} is not allowed: expected {wanted}"
    number = len(data[:read].decode(errors="replace")) + 1
    return f"{_shown(data)} is not allowed from its character {number} on, {_named(data[read:])}: expected {wanted}"


def _shown(data: bytes) -> str:
    """A text as a reader sees it; its bytes only where it is no text."""
    return brief(data.decode() if is_text(data) else data)


def _named(data: bytes) -> str:
    """What stands at the front of some bytes."""
    if (character := _first_character(data)) is not None:
        return name_of(character)
    return "a part of a character" if is_cut(data) else f"the byte {data[0]:#04x}"


def _first_character(data: bytes) -> str | None:
    for length in range(1, 5):
        try:
            return data[:length].decode()
        except UnicodeDecodeError:
            continue
    return None


def bytes_of(text: str | bytes) -> bytes:
    """Text as UTF-8. Lone surrogates become bytes that no grammar accepts."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    if isinstance(text, bytes | bytearray | memoryview):
        return bytes(text)
    raise TypeError(f"text is a str or bytes, not a {type(text).__name__}")


def is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8, from a whole character to a whole character."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _inside_character(possible: bytes) -> bool:
    """Whether the bytes that can follow are those that go on with a character."""
    return bool(possible) and 0x80 <= possible[0] <= 0xBF


def _last_start(data: bytes) -> int | None:
    """Where the last character begins, counted from the front; None where there is only the rest of one."""
    return next((at for at in range(len(data) - 1, -1, -1) if not 0x80 <= data[at] <= 0xBF), None)


def is_cut(data: bytes) -> bool:
    """Whether UTF-8 text ends inside of a character."""
    start = _last_start(data[-4:])
    if start is None:
        return False
    last = data[-4:][start:]
    needed = 1 if not 0xC2 <= last[0] <= 0xF4 else 2 if last[0] < 0xE0 else 3 if last[0] < 0xF0 else 4
    return len(last) < needed
