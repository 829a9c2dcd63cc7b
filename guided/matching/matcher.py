"""`GrammarMatcher`: the state of one sequence under a compiled grammar.

The core's matcher does the work (guided/automaton/native/matching/matcher.hpp). This module adds operations that need
text: strings, forced tokens as the tokenizer produces them, explanations. A matcher belongs to one thread at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Final

from guided.automaton import _core
from guided.errors import VocabularyError
from guided.matching.compiled import CompiledGrammar, native_vocabulary
from guided.matching.explain.explanation import Explanation, bytes_of, ends_mid_character, explain, is_text
from guided.matching.regions.parse_paths import Capture, ParsePaths, Snapshot

__all__ = ["Explanation", "GrammarMatcher"]

_MAX_FORCED_BYTES: Final = 4096


class GrammarMatcher(_core.Matcher):
    """Follows one output, token by token.

    `fill_next_token_bitmask(bitmask, row=0, *, max_tokens=None)` writes the allowed tokens into a row and returns
    whether anything is masked; with `max_tokens=n` it keeps only tokens after which the output can be completed in
    n - 1 more (including the end token), and raises BudgetError if not even the shortest completion fits.
    `budget_bound`: whether the budget may have removed tokens from the last mask.
    `accept_token(id)` returns whether the token was allowed; if not, the state does not change. It raises ValueError
    if the vocabulary has no such id.
    `validate_tokens(ids)` returns how many of the leading ids would be accepted; the state does not change.
    `rollback(n)` undoes the last n accepted calls of `accept_token` and `accept_string`.
    `reset()` returns to the start, and forgets all earlier steps.
    `is_accepting()` returns whether the output is complete: it may end here, but may also continue.
    `is_terminated()` returns whether an end token was accepted. From then on the mask allows only the end tokens;
    accepting one more is a step that changes nothing.
    `min_tokens_to_finish()` returns how many tokens suffice to complete the output, including the end token.
    """

    captures_include_names = False
    """Whether captured texts include the names of control tokens."""

    def __init__(self, grammar: CompiledGrammar | GrammarMatcher) -> None:
        if isinstance(grammar, GrammarMatcher):
            super().__init__(grammar)
            self.grammar: CompiledGrammar = grammar.grammar
        elif isinstance(grammar, CompiledGrammar):
            super().__init__(grammar.native)
            self.grammar = grammar
        else:
            raise TypeError(f"a matcher is made from a CompiledGrammar, not from a {type(grammar).__name__}")
        if self.grammar.regions:
            self.__class__ = _CapturingMatcher
            _CapturingMatcher._init_recording(self, grammar)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"GrammarMatcher({self.grammar!r}, steps={self.steps})"

    def fork(self) -> GrammarMatcher:
        """An independent copy in the same state, with the same past. O(1)."""
        return GrammarMatcher(self)

    def accept_string(self, text: str | bytes) -> bool:
        """Accept text as one step, whatever its tokens. False, with the state unchanged, if it is not allowed.

        Where a grammar counts tokens (`any_tokens` with `max_tokens`, `!<[5]>{3}`), text is refused, since its number
        of tokens is undefined; use `accept_token`.
        """
        return self._accept_bytes(bytes_of(text))

    def forced_tokens(self) -> list[int]:
        """The tokens that must come next, as the tokenizer itself would produce them.

        The longest common prefix of all continuations is encoded. Tokens at its end that may become part of a longer
        token are left out, and so are end tokens. Empty if nothing is forced.
        """
        symbols = self._forced(_MAX_FORCED_BYTES)
        out: list[int] = []
        start = 0
        while start < len(symbols):
            if symbols[start] >= 256:
                out.append(symbols[start] - 256)
                start += 1
                continue
            end = start
            while end < len(symbols) and symbols[end] < 256:
                end += 1
            ids, is_complete = self._encode_forced(bytes(symbols[start:end]), is_closed=end < len(symbols))
            out += ids
            if not is_complete:
                break
            start = end
        return out if out and self.validate_tokens(out) == len(out) else []

    def _encode_forced(self, data: bytes, *, is_closed: bool) -> tuple[list[int], bool]:
        """The stable tokens of forced bytes. `is_closed`: a control token follows, so all tokens are stable."""
        vocabulary = self.grammar.vocabulary
        native = native_vocabulary(vocabulary)
        if not is_text(data[:1]) and not ends_mid_character(data[:1]):  # continuation bytes: no text begins with them
            return [], False
        stable_length = len(data)
        while ends_mid_character(data[:stable_length]):
            stable_length -= 1
        text = data[:stable_length].decode()
        if not text:
            return [], False
        try:
            ids = vocabulary.encode(text, continued=True)
        except VocabularyError:  # no known encoding: nothing is forced, but the masks still apply
            return [], False
        if is_closed:
            return ids, True
        # A token is stable if no token that starts at its beginning, or earlier, extends beyond the forced bytes.
        offset, stable_count = 0, 0
        for token in ids:
            if native.extends(data[offset:]):
                break
            offset += len(vocabulary.token_bytes(token) or b"")
            stable_count += 1
        return ids[:stable_count], False

    def captures(self, *, partial: bool = False) -> dict[str, list[bytes]]:
        """The captures so far: name -> its texts, in the order in which they begin. Control tokens have no text.

        If the output may end here, these are the captures of the complete output. Otherwise they are the captures
        of the currently preferred parse (`parse_paths.py`), which later text may change.

        Args:
            partial: also include unfinished captures, up to the end of the output so far.

        Raises:
            LimitExceeded: the grammar allows too many parses.
        """
        return {}

    def captures_by_end(self) -> list[tuple[str, bytes]]:
        """The complete captures as (name, text), in the order in which they end, inner ones first. Raises the
        errors of `captures`."""
        return []

    def captures_with_offsets(self) -> tuple[Sequence[Capture], bytes]:
        """The complete captures in the order in which they begin, and the text that their offsets refer to. Raises the
        errors of `captures`."""
        return (), b""

    def captures_with_places(self) -> tuple[Sequence[Capture], bytes]:
        """Deprecated: use `captures_with_offsets`."""
        message = "GrammarMatcher.captures_with_places is GrammarMatcher.captures_with_offsets"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.captures_with_offsets()

    def temperature(self) -> float | None:
        """The temperature that the grammar sets for the next token, or None."""
        return None

    def explain(self, token: int | str | bytes | None = None) -> Explanation:
        """Explain why a token (an id) or text is or is not allowed here; with None, only what is expected."""
        return explain(self, token)


class _CapturingMatcher(GrammarMatcher):
    """A matcher that records the output, and parses it for captures when they are requested."""

    def _init_recording(self, source: object) -> None:
        self._text = bytearray()
        self._steps: list[tuple[int, int]] = []  # for each step: its token (-1 for a string), the end of its text
        self._parses: ParsePaths | None = None
        self._snapshots: list[Snapshot] = []  # before the first step and after each, computed on demand
        if isinstance(source, _CapturingMatcher):
            self._text[:], self._steps[:] = source._text, source._steps
            self.captures_include_names = source.captures_include_names
            self._parses, self._snapshots[:] = source._parses, source._snapshots

    def accept_token(self, token: int, /) -> bool:
        was_terminated = self.is_terminated()
        accepted = super().accept_token(token)
        if accepted:
            is_end_token = was_terminated or self.is_terminated()
            self._text += b"" if is_end_token else self._text_of(token)
            self._steps.append((-1 if is_end_token else token, len(self._text)))
        return accepted

    def _text_of(self, token: int) -> bytes:
        vocabulary = self.grammar.vocabulary
        data = vocabulary.token_bytes(token)
        if data is None and self.captures_include_names:
            data = vocabulary.special_tokens.get(token, "").encode()
        return data or b""

    def accept_string(self, text: str | bytes) -> bool:
        accepted = super().accept_string(text)
        if accepted:
            self._text += bytes_of(text)
            self._steps.append((-1, len(self._text)))
        return accepted

    def rollback(self, n: int, /) -> None:
        super().rollback(n)
        remaining = len(self._steps) - n
        del self._steps[remaining:], self._snapshots[remaining + 1 :]
        del self._text[self._steps[-1][1] if self._steps else 0 :]

    def reset(self) -> None:
        super().reset()
        self._text.clear()
        self._steps.clear()
        self._snapshots.clear()

    def captures(self, *, partial: bool = False) -> dict[str, list[bytes]]:
        texts_by_name = {name: list[bytes]() for region in self.grammar.annotated.regions for name in region.captures}
        for capture in self._current_captures():
            if partial or capture.complete:
                texts_by_name[capture.name].append(bytes(self._text[capture.start : capture.end]))
        return texts_by_name

    def captures_by_end(self) -> list[tuple[str, bytes]]:
        captures = [capture for capture in reversed(self._current_captures()) if capture.complete]
        captures.sort(key=lambda capture: (capture.end, -capture.start))
        return [(capture.name, bytes(self._text[capture.start : capture.end])) for capture in captures]

    def captures_with_offsets(self) -> tuple[Sequence[Capture], bytes]:
        return [capture for capture in self._current_captures() if capture.complete], bytes(self._text)

    def _current_captures(self) -> Sequence[Capture]:
        annotated = self.grammar.annotated
        with annotated.lock:
            parses, snapshot = self._parse_steps()
            return (
                parses.complete_captures(snapshot, self._text)
                if self.is_accepting()
                else parses.partial_captures(snapshot, self._text)
            )

    def temperature(self) -> float | None:
        annotated = self.grammar.annotated
        with annotated.lock:
            parses, snapshot = self._parse_steps()
            return parses.temperature(snapshot, len(self._text))

    def _parse_steps(self) -> tuple[ParsePaths, Snapshot]:
        if self._parses is None:
            self._parses = ParsePaths(self.grammar.annotated)
        parses, snapshots = self._parses, self._snapshots
        if not snapshots:
            snapshots.append(parses.initial_snapshot)
        for index in range(len(snapshots) - 1, len(self._steps)):
            token, end = self._steps[index]
            start = self._steps[index - 1][1] if index else 0
            if token < 0:
                snapshot = parses.read_bytes(snapshots[-1], self._text, start, end)
            else:
                is_control = self.grammar.vocabulary.token_bytes(token) is None
                snapshot = parses.read_token(snapshots[-1], token, self._text, start, end, is_control=is_control)
            snapshots.append(snapshot)
        return parses, snapshots[-1]
