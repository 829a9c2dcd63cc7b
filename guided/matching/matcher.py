"""`GrammarMatcher`: the state of one sequence under a compiled grammar.

The core's matcher does the work (see guided/automaton/native/matcher.hpp); this adds what needs text: strings, forced
tokens in the tokenizer's own spelling, explanations. One matcher belongs to one thread at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from guided.automaton import _core
from guided.errors import VocabularyError
from guided.matching.compiler import CompiledGrammar, native_vocabulary

__all__ = ["Explanation", "GrammarMatcher"]

_FORCED_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a token (or text) dies, and what could have stood there.

    Attributes:
        accepted: the whole of it is allowed.
        read: how many of its bytes were read before it died.
        data: the bytes that were asked about.
        expected: the bytes that could follow the ones read.
        expected_tokens: names or ids of control tokens that could follow.
        places: the parts of the specification that were open there (JSON Pointers, rule names).
        completion: the shortest way to finish from the matcher's own state.
        reason: one sentence.
    """

    accepted: bool
    read: int
    data: bytes
    expected: bytes
    expected_tokens: tuple[str, ...]
    places: tuple[str, ...]
    completion: bytes
    reason: str

    def __str__(self) -> str:
        return self.reason


class GrammarMatcher(_core.Matcher):
    """Follows one output, token by token.

    `fill_next_token_bitmask(bitmask, row=0, *, max_tokens=None)` writes the allowed tokens into a row and returns
    whether anything is masked; with `max_tokens=n` it keeps only tokens after which the output can be completed in
    n - 1 more (the end token counted) and raises BudgetError where not even the shortest completion fits.
    `budget_bound`: the last mask may lack tokens for that reason; False: it was the one without a budget.
    `accept_token(id)` steps and says whether the token was allowed; the state is unchanged where not.
    `validate_tokens(ids)`, `rollback(n)`, `reset()`, `is_accepting()`, `is_terminated()`, `min_tokens_to_finish()`:
    as their names say; `rollback` counts the calls of `accept_token` and `accept_string` that were accepted.
    After an end token the mask allows the end tokens and nothing else; one more of them is a step that changes nothing.
    """

    def __init__(self, grammar: CompiledGrammar | GrammarMatcher) -> None:
        if isinstance(grammar, GrammarMatcher):
            super().__init__(grammar)
            self.grammar: CompiledGrammar = grammar.grammar
        elif isinstance(grammar, CompiledGrammar):
            super().__init__(grammar.native)
            self.grammar = grammar
        else:
            raise TypeError(f"a matcher is made from a CompiledGrammar, not from a {type(grammar).__name__}")

    def __repr__(self) -> str:
        return f"GrammarMatcher({self.grammar!r}, steps={self.steps})"

    def fork(self) -> GrammarMatcher:
        """A matcher in the same state, with the same past. O(1)."""
        return GrammarMatcher(self)

    def accept_string(self, text: str | bytes) -> bool:
        """Step over text as one step, whatever tokens it may have been. False: refused, state unchanged."""
        return self._accept_bytes(_bytes_of(text))

    def forced_tokens(self) -> list[int]:
        """The tokens that must come next, as the tokenizer itself would write them.

        The longest text that every continuation shares is encoded; tokens at its end that a longer token could still
        swallow are left out, and so are end tokens. Empty where nothing is forced.
        """
        symbols = self._forced(_FORCED_BYTES)
        out: list[int] = []
        at = 0
        while at < len(symbols):
            if symbols[at] >= 256:
                out.append(symbols[at] - 256)
                at += 1
                continue
            end = at
            while end < len(symbols) and symbols[end] < 256:
                end += 1
            ids, complete = self._encode_forced(bytes(symbols[at:end]), closed=end < len(symbols))
            out += ids
            if not complete:
                break
            at = end
        return out if self.validate_tokens(out) == len(out) else []

    def _encode_forced(self, data: bytes, *, closed: bool) -> tuple[list[int], bool]:
        """The stable tokens of forced bytes. `closed`: a control token follows, nothing can be swallowed."""
        vocabulary = self.grammar.vocabulary
        native = native_vocabulary(vocabulary)
        whole = len(data)
        while whole and _cut_inside_character(data, whole):
            whole -= 1
        text = data[:whole].decode()
        if not text:
            return [], False
        try:
            ids = vocabulary.encode(text, continued=True)
        except (
            VocabularyError
        ):  # a tokenizer whose encoding is not known: nothing is forced, the masks hold all the same
            return [], False
        if closed:
            return ids, True
        # A token is stable if no longer token starts where it, or one before it, starts and runs past the forced end.
        at, kept = 0, 0
        for number in ids:
            if native.extends(data[at:]):
                break
            at += len(vocabulary.token_bytes(number) or b"")
            kept += 1
        return ids[:kept], False

    def explain(self, token: int | str | bytes | None = None) -> Explanation:
        """Why a token (an id) or text is or is not allowed here; with None, only what is expected."""
        vocabulary = self.grammar.vocabulary
        special: int | None = None
        if token is None:
            data = b""
        elif isinstance(token, int):
            spelled = vocabulary.token_bytes(token)
            special = token if spelled is None else None
            data = spelled or b""
        else:
            data = _bytes_of(token)
        read, expected = self._probe(data)
        if isinstance(token, int):
            accepted = self.validate_tokens([token]) == 1
        else:
            accepted = read == len(data) and not (self.is_terminated() and data)
        origins = self.grammar.origins
        places = tuple(origins.get(name, name) for name in self._places(data))
        named = tuple(vocabulary.special_tokens.get(i, str(i)) for i in self._next_tokens())
        completion = b"".join(
            bytes([s]) if s < 256 else vocabulary.special_tokens.get(s - 256, "").encode() for s in self._shortest(4096)
        )
        reason = _reason(data, read, expected, accepted, special, self, places)
        return Explanation(accepted, read, data, expected, named, places, completion, reason)


def _reason(
    data: bytes,
    read: int,
    expected: bytes,
    accepted: bool,
    special: int | None,
    matcher: GrammarMatcher,
    places: tuple[str, ...],
) -> str:
    where = f" in {', '.join(place or '(root)' for place in places)}" if places else ""
    end = " or the end" if matcher.is_accepting() and read == 0 else ""
    wanted = (_show(expected) or "nothing") + end
    if matcher.is_terminated():
        return "the output has ended: nothing may follow"
    if special is not None:
        name = matcher.grammar.vocabulary.special_tokens.get(special, f"id {special}")
        if accepted:
            return f"the control token {name} is allowed"
        if special in matcher.grammar.vocabulary.eos_token_ids:
            return f"the output is not complete: expected {wanted}{where}"
        return f"the control token {name} is not named by the grammar here: expected {wanted}{where}"
    if accepted:
        return f"allowed; then {wanted} may follow{where}" if data else f"expected {wanted}{where}"
    if read == len(data):
        return f"after {data!r} no whole token of the vocabulary leads on: expected {wanted}{where}"
    return f"{data!r} dies at byte {read} ({data[read : read + 1]!r}): expected {wanted}{where}"


def _bytes_of(text: str | bytes) -> bytes:
    """Text as UTF-8. Lone surrogates become bytes that no grammar accepts."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    if isinstance(text, bytes | bytearray | memoryview):
        return bytes(text)
    raise TypeError(f"text is a str or bytes, not a {type(text).__name__}")


def _show(expected: bytes) -> str:
    """Byte ranges, readable: 'a'-'z', '"', 0xc3-0xf4."""
    parts: list[str] = []
    at = 0
    while at < len(expected):
        end = at
        while end + 1 < len(expected) and expected[end + 1] == expected[end] + 1:
            end += 1
        low, high = expected[at], expected[end]
        names = [repr(chr(b)) if 32 <= b < 127 else f"0x{b:02x}" for b in (low, high)]
        parts.append(names[0] if low == high else "-".join(names))
        at = end + 1
    return ", ".join(parts)


def _cut_inside_character(data: bytes, end: int) -> bool:
    """Whether data[:end] ends inside a UTF-8 character."""
    back = 1
    while back <= min(4, end):
        byte = data[end - back]
        if byte < 0x80:
            return False
        if byte >= 0xC0:
            return back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4)
        back += 1
    return True
