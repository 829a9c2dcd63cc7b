"""Explains why a text or a token is allowed or not in a matcher's state, and what is allowed instead.

In: a matcher, and a token, a text, or nothing. Out: an `Explanation`, in characters. The automaton works on bytes, but
readers think in characters: a position inside a character becomes the position before this character, and the expected
bytes become a set of whole characters. Bytes are named only if the input is not UTF-8.

A token may contain a part of a character. After such a token the next one must complete the character.

`positions.py` finds the position in the rules of a grammar, `lexing.py` in a grammar with a lexer, and
`schema_places.py` in a schema.

Cost: reading the text, and a few hundred steps of the automaton for the set of characters. A meter (`guided/meter.py`)
limits the search for the shortest completion, the positions and the schemas to `SECONDS` and `_WORK` steps, or less if
the caller's own meter allows less. Results that are not found by then are missing, and `is_partial` is true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from guided.errors import GuidedError, LimitExceeded, brief
from guided.frontends.json_schema.continuation import Continuation
from guided.frontends.json_schema.refusing import Groups
from guided.ir.nodes import Grammar
from guided.ir.ranges import Ranges, charset, intersect
from guided.matching.compiled import CompiledGrammar
from guided.matching.explain.characters import count, join_with_or, name_of, parts_of
from guided.matching.explain.explained_matcher import ExplainedMatcher
from guided.matching.explain.lexing import LabelledLexer, Lexing, explain_lexing
from guided.matching.explain.pointers import format_open_parts, format_refusals
from guided.matching.explain.positions import LabelledLanguage, Position, describe_positions, get_positions, label_rules
from guided.matching.explain.schema_places import SchemaLocator, SchemasAtEnd
from guided.meter import is_exhausted, is_temporary, limit_work

if TYPE_CHECKING:
    from guided.vocabulary import Vocabulary

__all__ = ["ExpectedText", "Explanation", "bytes_of", "ends_mid_character", "explain", "is_text", "shortest_completion"]

SECONDS: Final = 4.0
_PREPARATION_SECONDS: Final = 2.0
_COMPLETION_SECONDS: Final = 1.0
_WORK: Final = 400_000_000
_MAX_COMPLETION_LENGTH: Final = 4096
_MAX_NAMED: Final = 3  # an incomplete character with at most this many completions is described by their names


@dataclass(frozen=True, slots=True)
class ExpectedText:
    """What may follow. `str` describes it in words, `in` tests a character.

    Attributes:
        characters: sorted ranges of code points. Inside a character, the characters that begin with `incomplete`.
        incomplete: the first bytes of an incomplete character.
        control_tokens: the control tokens that the grammar allows here, by name, as <think>, or by id, as <[5]>.
        end: whether the output may end.
    """

    characters: Ranges
    incomplete: bytes
    control_tokens: tuple[str, ...]
    end: bool

    def __contains__(self, character: str) -> bool:
        code = ord(character)
        return any(low <= code <= high for low, high in self.characters)

    def __str__(self) -> str:
        return join_with_or([*self._words(), *self.control_tokens, *(["the end"] if self.end else [])]) or "nothing"

    def __repr__(self) -> str:
        return f"Expected({str(self)!r})"

    def _words(self) -> list[str]:
        if self.incomplete == b"":
            return [part.description for part in parts_of(self.characters)]
        if (character_count := count(self.characters)) > _MAX_NAMED:
            return [f"the rest of one of {character_count:,} characters that begin like this"]
        names = [name_of(chr(code)) for low, high in self.characters for code in range(low, high + 1)]
        return [f"the rest of {join_with_or(names)}"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether a token (or text) is allowed, where it stops being allowed, and what was expected there.

    Attributes:
        accepted: whether the whole token (or text) is allowed.
        data: its bytes.
        read: how many of these bytes are allowed, without an incomplete character.
        expected: what may follow these bytes.
        places: the unfinished parts of the specification there (JSON Pointers, rule names).
        refused_by: the schema keywords that refuse the next text, as JSON Pointers.
        positions: the unfinished alternatives of rules there, and the last part read of each; empty for schemas, and
            if a bound was reached (see `guided/matching/explain/positions.py`).
        lexing: for a grammar with a lexer: how it split the text, and which terminals may follow; otherwise None.
        completion: the shortest completion from the matcher's own state.
        reason: one sentence.
        completion_tokens: the control tokens in `completion`, which contains their names.
        refusals: `refused_by` in groups: the keywords of a group refuse the text together, each group by itself.
        is_partial: whether the explanation is incomplete because a bound on time or work was reached.
    """

    accepted: bool
    data: bytes
    read: int
    expected: ExpectedText
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
        """The number of allowed characters."""
        return len(self.data[: self.read].decode(errors="replace"))

    def __str__(self) -> str:
        return self.reason

    def __repr__(self) -> str:
        return f"Explanation(accepted={self.accepted}, reason={self.reason!r})"


def explain(matcher: ExplainedMatcher, candidate: int | str | bytes | None, *, must_end: bool = False) -> Explanation:
    """See `GrammarMatcher.explain`. `must_end`: the output should end after `candidate`."""
    vocabulary = matcher.grammar.vocabulary
    control_token: int | None = None
    if candidate is None:
        data = b""
    elif isinstance(candidate, int):
        token_bytes = vocabulary.token_bytes(candidate)
        control_token = candidate if token_bytes is None else None
        data = token_bytes or b""
        must_end = candidate in vocabulary.eos_token_ids
    else:
        data = bytes_of(candidate)
    read, expected = _probe_text(matcher, data)
    if isinstance(candidate, int):
        accepted = matcher.validate_tokens([candidate]) == 1
    else:
        accepted = read == len(data) and not (matcher.is_terminated() and data)
    symbols = [*_accepted_symbols(matcher), *data[:read]]
    refused_bytes = b"" if accepted else data[read:]
    character = (_first_character(refused_bytes) or "").encode()
    is_refused = bool(character) or (must_end and not refused_bytes and not expected.end)
    with limit_work(SECONDS, work=_WORK):
        completion, controls = shortest_completion(matcher)
        positions, lexing = _find_positions(matcher.grammar, symbols, refused_bytes[:1])
        schemas = _find_schemas(
            matcher.grammar, symbols, Continuation(character, refused_bytes, must_end) if is_refused else None
        )
        is_partial = schemas.is_partial or completion is None or is_exhausted()
    places = _find_open_parts(matcher, data[:read], schemas)
    location_text = _describe_position(format_open_parts(places, positions), schemas.refusing, positions, lexing)
    if control_token is not None:
        reason = _explain_control_token(matcher, control_token, accepted, f"{expected}{location_text}")
    else:
        reason = _explain_text(matcher, data, read, accepted, f"{expected}{location_text}")
    refused_by = tuple(dict.fromkeys(pointer for group in schemas.refusing for pointer in group))
    return Explanation(
        accepted, data, read, expected, places, refused_by, positions, lexing, completion or b"",
        reason + (_PARTIAL if is_partial else ""), controls, schemas.refusing, is_partial,
    )  # fmt: skip


_PARTIAL: Final = " (incomplete: the explanation reached its bounds on time and work)"


def _describe_position(open_parts: str, refusing: Groups, positions: Sequence[Position], lexing: Lexing | None) -> str:
    """Describe the position in the specification, for the end of a message."""
    refusals = f"refused by {format_refusals(refusing)}" if refusing else ""
    text = "; ".join(filter(None, [describe_positions(positions), f"at {open_parts}" if open_parts else "", refusals]))
    text = f" ({text})" if text else ""
    return text + (f"; {lexing}" if lexing is not None and str(lexing) else "")


def shortest_completion(matcher: ExplainedMatcher) -> tuple[bytes | None, tuple[str, ...]]:
    """The shortest completion (None if the search takes too long), and the names of the control tokens in it."""
    vocabulary = matcher.grammar.vocabulary
    try:
        with limit_work(_COMPLETION_SECONDS):
            shortest = matcher._shortest(_MAX_COMPLETION_LENGTH)
    except LimitExceeded:
        return None, ()
    completion = b"".join(
        bytes([symbol]) if symbol < 256 else _name_of(vocabulary, symbol - 256).encode() for symbol in shortest
    )
    return completion, tuple(dict.fromkeys(_name_of(vocabulary, symbol - 256) for symbol in shortest if symbol >= 256))


def _probe_text(matcher: ExplainedMatcher, data: bytes) -> tuple[int, ExpectedText]:
    """Count the allowed bytes, by whole characters unless the data ends inside one, and find what may follow."""
    read, next_bytes = matcher._probe(data)
    incomplete = b""
    if _continues_character(next_bytes):
        start = _find_last_start(data[:read])
        if start is None:
            incomplete = _incomplete_bytes(matcher) + data[:read]
        elif read == len(data):
            incomplete = data[start:read]
        else:
            read = start
    fork = matcher.fork()
    fork.accept_string(data[:read])
    control_tokens = tuple(_name_of(matcher.grammar.vocabulary, token) for token in fork._next_tokens())
    may_end = fork.is_accepting() and not fork.is_terminated()
    characters = tuple(fork._characters(b"", incomplete))
    if (alphabet := _characters_of(matcher.grammar.vocabulary)) is not None:
        characters = intersect(characters, alphabet)
    return read, ExpectedText(characters, incomplete, control_tokens, may_end)


def _characters_of(vocabulary: Vocabulary) -> Ranges | None:
    """The characters in the tokens; None if a token is not whole characters, because tokens can then spell any
    character."""
    characters = set[str]()
    for data in vocabulary.tokens:
        if data is not None:
            if not is_text(data):
                return None
            characters.update(data.decode())
    return charset((ord(character), ord(character)) for character in characters)


def _find_open_parts(matcher: ExplainedMatcher, text: bytes, schemas: SchemasAtEnd) -> tuple[str, ...]:
    """Find the parts of the specification that are unfinished after `text`, by the author's names.

    Rules of schemas are replaced by the locations in the schemas.
    """
    if schemas.covers_all_readings:
        return schemas.pointers
    if matcher.grammar.kind in ("regex", "choice", "pattern"):  # the name of the only rule is internal
        return ()
    origins = matcher.grammar.origins
    rule_names = (origins.get(name, name) for name in matcher._open_rules(text))
    return tuple(
        dict.fromkeys(
            [*schemas.pointers, *(pointer for pointer in rule_names if not _is_inside(pointer, schemas.prefixes))]
        )
    )


def _is_inside(pointer: str, prefixes: Sequence[str]) -> bool:
    return any(pointer == prefix or pointer.startswith((f"{prefix}/", f"{prefix}#")) for prefix in prefixes)


@lru_cache(maxsize=1)
def _read_rules(grammar: CompiledGrammar) -> Grammar:
    """The rules of a grammar, read again from its source."""
    return grammar.grammar


@lru_cache(maxsize=2)
def _build_schema_locator(grammar: CompiledGrammar) -> SchemaLocator | None:
    try:
        with limit_work(_PREPARATION_SECONDS):
            return SchemaLocator(grammar, _read_rules(grammar))
    except (GuidedError, RecursionError) as error:  # too large
        if is_temporary(error):
            raise
        return None


def _find_schemas(grammar: CompiledGrammar, symbols: list[int], continuation: Continuation | None) -> SchemasAtEnd:
    try:
        locator = _build_schema_locator(grammar)
        return SchemasAtEnd(is_partial=True) if locator is None else locator.find_schemas(symbols, continuation)
    except (GuidedError, RecursionError):
        return SchemasAtEnd(is_partial=True)


def _accepted_symbols(matcher: ExplainedMatcher) -> list[int]:
    """The accepted output: bytes, and 256 + id for control tokens."""
    out: list[int] = []
    for step in matcher._accepted():
        data = step if isinstance(step, bytes) else matcher.grammar.vocabulary.token_bytes(step)
        out += [256 + step] if data is None and isinstance(step, int) else data or b""
    return out


def _incomplete_bytes(matcher: ExplainedMatcher) -> bytes:
    """The bytes of an incomplete character at the end of the accepted text."""
    last = _accepted_symbols(matcher)[-3:]
    return bytes(last[_find_last_start(last) or 0 :])


@lru_cache(maxsize=2)
def _labelled_grammar(grammar: CompiledGrammar) -> LabelledLexer | LabelledLanguage | None:
    """The grammar with labels for its positions; None if it has no positions to report."""
    if grammar.kind in ("json_schema", "type"):  # all rules belong to the schema
        return None
    try:
        with limit_work(_PREPARATION_SECONDS):
            rules = _read_rules(grammar)
            if rules.composed:  # the rules of a part with a lexer are not available
                return None
            return label_rules(rules, grammar.kind) if rules.lexer is None else LabelledLexer(rules)
    except (GuidedError, RecursionError) as error:  # too large
        if is_temporary(error):
            raise
        return None


def _find_positions(
    grammar: CompiledGrammar, symbols: list[int], refused_bytes: bytes
) -> tuple[tuple[Position, ...], Lexing | None]:
    try:
        language = _labelled_grammar(grammar)
    except (GuidedError, RecursionError):
        return (), None
    if isinstance(language, LabelledLexer):
        lexing = explain_lexing(language, symbols, refused_bytes)
        return lexing.positions, lexing
    return () if language is None else get_positions(language, symbols, grammar.vocabulary.special_tokens), None


def _name_of(vocabulary: Vocabulary, token: int) -> str:
    """The name of a token in the vocabulary, or its id."""
    return vocabulary.special_tokens.get(token, f"<[{token}]>")


def _explain_control_token(matcher: ExplainedMatcher, token: int, accepted: bool, expected: str) -> str:
    if matcher.is_terminated():
        return _ENDED
    vocabulary = matcher.grammar.vocabulary
    name = vocabulary.special_tokens.get(token, f"id {token}")
    if accepted:
        return f"the control token {name} is allowed"
    if token in vocabulary.eos_token_ids:
        return f"the output is not complete: expected {expected}"
    return f"the grammar has no control token {name} here: expected {expected}"


_ENDED: Final = "the output has ended: nothing may follow"


def _explain_text(matcher: ExplainedMatcher, data: bytes, read: int, accepted: bool, expected: str) -> str:
    if matcher.is_terminated():
        return _ENDED
    if not data:
        return f"expected {expected}"
    if accepted:
        return f"allowed; next is {expected}"
    if read == len(data):
        return f"{_quoted_text(data)} is allowed, but no token of the vocabulary may follow: expected {expected}"
    character = _first_character(data[read:])
    if len(data) == len(character.encode() if character else data[:1]):
        return f"{_describe_first(data)} is not allowed: expected {expected}"
    character_number = len(data[:read].decode(errors="replace")) + 1
    location = f"from character {character_number} on, {_describe_first(data[read:])}"
    return f"{_quoted_text(data)} is not allowed {location}: expected {expected}"


def _quoted_text(data: bytes) -> str:
    """A text in quotes, or bytes if it is not UTF-8."""
    return brief(data.decode() if is_text(data) else data)


def _describe_first(data: bytes) -> str:
    """A description of the first character or byte."""
    if (character := _first_character(data)) is not None:
        return name_of(character)
    return "a part of a character" if ends_mid_character(data) else f"the byte {data[0]:#04x}"


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
    """Whether bytes are valid UTF-8, without incomplete characters at the ends."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _continues_character(next_bytes: bytes) -> bool:
    """Whether the possible next bytes continue a character."""
    return bool(next_bytes) and 0x80 <= next_bytes[0] <= 0xBF


def _find_last_start(data: Sequence[int]) -> int | None:
    """The offset of the last character, or None if there are only continuation bytes."""
    return next((index for index in range(len(data) - 1, -1, -1) if not 0x80 <= data[index] <= 0xBF), None)


def ends_mid_character(data: bytes) -> bool:
    """Whether UTF-8 text ends inside a character."""
    start = _find_last_start(data[-4:])
    if start is None:
        return False
    last = data[-4:][start:]
    length = 1 if not 0xC2 <= last[0] <= 0xF4 else 2 if last[0] < 0xE0 else 3 if last[0] < 0xF0 else 4
    return len(last) < length
