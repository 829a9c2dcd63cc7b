"""Tracks the tokens and text of an output, how much of it may be streamed, and where a stop string cuts it.

Text is streamed in complete characters, and only once it can no longer belong to a stop string. A token is streamed
with the first part of its text. So the streamed events add up to exactly the result, whichever stop string ends it.

Stop strings and stop patterns end only free text. While the specification determines the text, as inside a tool call,
there is no search. Afterwards a new search begins with the next token.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from itertools import accumulate, islice

from guided.engine.result import BudgetBound, StreamEvent
from guided.engine.stopping import StopMatch, Stops, StopSearch
from guided.sampling.logprobs import TokenLogprobs
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Transcript"]


class Transcript:
    """The tokens and the text of one output. `skip`: the number of bytes at the beginning that are not part of the
    text.

    Attributes:
        tokens: ids, in order.
        token_masks: for each token, 1 if it was sampled, 0 if it was forced.
        logprobs: for each token, its log probabilities; None if they were not requested.
        text: the decoded text, with complete characters only.
        stop_match: the match at which the text was cut, if any.
        is_reasoning: whether the output is still reasoning and the answer has not begun.
        reasoning: the text of the reasoning, once the answer has begun.
        reasoning_tokens: the number of tokens of the reasoning, including its end marker.
        starts: for each token, the number of characters of the text before it.
        prompt_logprobs: the log probabilities of the prompt, for the next event.
    """

    def __init__(self, vocabulary: Vocabulary, stops: Stops, *, is_reasoning: bool = False, skip: int = 0) -> None:
        self.tokens: list[int] = []
        self.token_masks: list[int] = []
        self.logprobs: list[TokenLogprobs | None] = []
        self.text = ""
        self.stop_match: StopMatch | None = None
        self.is_reasoning, self.reasoning = is_reasoning, ""
        self._bytes_to_skip = skip
        self._vocabulary, self._stops = vocabulary, stops
        self._stop_search: StopSearch | None = None
        self._search_start = 0  # the index of the first character that the search has read
        self._is_free_text = False
        self._begin_stop_search(is_free_text=not is_reasoning)
        self.starts: list[int] = []
        self.reasoning_tokens = 0
        self.prompt_logprobs: Sequence[TokenLogprobs | None] = ()
        self._streamed_token_count = self._streamed_length = 0
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def has_text_stops(self) -> bool:
        """Whether stop strings or stop patterns can end the output."""
        return bool(self._stops.texts or self._stops.patterns)

    def append(
        self,
        tokens: Sequence[int],
        *,
        sampled: bool,
        may_stop: bool = True,
        is_free_text: bool = True,
        logprobs: TokenLogprobs | None = None,
    ) -> None:
        """Append tokens. If they complete a match and `may_stop` is true, cut the text there.

        `is_free_text`: whether the text is free after these tokens. It is ignored if they end inside a character.
        """
        self.tokens += tokens
        self.token_masks += [int(sampled)] * len(tokens)
        self.logprobs += [logprobs] * len(tokens)
        self.starts += [len(self.text)] * len(tokens)
        data = self._bytes_of(tokens)
        piece = self._utf8.decode(data[self._bytes_to_skip :])
        self._bytes_to_skip = max(0, self._bytes_to_skip - len(data))
        self.text += piece
        if not self.has_text_stops:
            return
        is_free_text = self._is_free_text if self._utf8.getstate()[0] else is_free_text and not self.is_reasoning
        if self._stop_search is None or not is_free_text:
            self._begin_stop_search(is_free_text=is_free_text)
        elif (match := self._stop_search.read(piece, may_stop=may_stop)) is not None:
            self.stop_match = match
            self._truncate(self._search_start + (match.end if self._stops.includes_stop else match.begin))

    def append_run(self, tokens: Sequence[int]) -> None:
        """Append sampled tokens, like `append` with each of them, to a text without stops."""
        assert not self.has_text_stops
        pieces = [self._vocabulary.token_bytes(token) or b"" for token in tokens]
        data = b"".join(pieces)
        if data.isascii() and not self._bytes_to_skip and not self._utf8.getstate()[0]:  # usual, and much faster
            self.starts += islice(accumulate(map(len, pieces), initial=len(self.text)), len(pieces))
            self.text += data.decode()
        else:
            for piece in pieces:
                self.starts.append(len(self.text))
                self.text += self._utf8.decode(piece[self._bytes_to_skip :])
                self._bytes_to_skip = max(0, self._bytes_to_skip - len(piece))
        self.tokens += tokens
        self.token_masks += [1] * len(tokens)
        self.logprobs += [None] * len(tokens)

    def _bytes_of(self, tokens: Sequence[int]) -> bytes:
        if len(tokens) == 1:  # usual, and `decode` takes four times as long
            return self._vocabulary.token_bytes(tokens[0]) or b""
        return self._vocabulary.decode(tokens)

    def close(self) -> None:
        """End the output: an incomplete character becomes U+FFFD."""
        if self.stop_match is None:
            self.text += self._utf8.decode(b"", final=True)
        self._stop_search = None

    def begin_answer(self, end: str) -> None:
        """Begin the answer: the text so far is reasoning that ended with `end`. All of it must have been streamed."""
        self.reasoning, self.text, self.is_reasoning = self.text.removesuffix(end), "", False
        self.reasoning_tokens = len(self.tokens)
        self.starts = [0] * self.reasoning_tokens
        self._streamed_length = 0
        self._begin_stop_search(is_free_text=True)

    def event(self, budget_bound: BudgetBound) -> StreamEvent:
        """The event with everything that can now be streamed and has not been streamed yet."""
        decided_length, tokens = len(self.text), len(self.tokens)
        if self._stop_search is not None and self.stop_match is None:
            decided_length = self._search_start + self._stop_search.decided_length
            while tokens > self._streamed_token_count and self.starts[tokens - 1] >= decided_length:
                tokens -= 1
        text = self.text[self._streamed_length : decided_length]
        new_tokens = self.tokens[self._streamed_token_count : tokens]
        scores = tuple(self.logprobs[self._streamed_token_count : tokens])
        forced = bool(new_tokens) and not self.token_masks[self._streamed_token_count]
        self._streamed_token_count, self._streamed_length = tokens, decided_length
        prompt, self.prompt_logprobs = tuple(self.prompt_logprobs), ()
        return StreamEvent(
            tuple(new_tokens),
            text,
            forced,
            logprobs=scores,
            reasoning=self.is_reasoning,
            budget_bound=budget_bound,
            prompt_logprobs=prompt,
        )

    def _begin_stop_search(self, *, is_free_text: bool) -> None:
        """If the text is free, begin a search for stop strings and patterns here."""
        self._is_free_text = is_free_text
        self._stop_search = StopSearch(self._stops) if is_free_text and self.has_text_stops else None
        self._search_start = len(self.text)

    def _truncate(self, end: int) -> None:
        """Keep only the characters before `end`, and the tokens that begin before it."""
        self.text = self.text[:end]
        count = max(self.reasoning_tokens, sum(start < end for start in self.starts))
        del self.tokens[count:], self.token_masks[count:], self.logprobs[count:], self.starts[count:]
