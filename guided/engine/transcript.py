"""What an output has written: its tokens and their text, what of it may be handed out, and where it is cut.

Text is handed out once no stop can reach back into it, and whole characters only; a token once some of its text is.
So the events of an output, put together, are its result, whatever stops it.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from guided.engine.result import StreamEvent
from guided.engine.stopping import Found, Stops, Watch
from guided.sampling.logprobs import TokenLogprobs
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Transcript"]


class Transcript:
    """The tokens and the text of one output.

    Attributes:
        tokens: ids, in order.
        token_masks: 1 where the token was sampled, 0 where it was forced.
        logprobs: of each token what was noted when it was written.
        text: whole characters, decoded.
        found: the stop that the text was cut at.
        thinking: what comes is reasoning, not yet the answer.
        reasoning: the text of it, once the answer has begun.
    """

    def __init__(self, vocabulary: Vocabulary, stops: Stops, *, thinking: bool = False) -> None:
        self.tokens: list[int] = []
        self.token_masks: list[int] = []
        self.logprobs: list[TokenLogprobs | None] = []
        self.text = ""
        self.found: Found | None = None
        self.thinking, self.reasoning = thinking, ""
        self._vocabulary, self._included = vocabulary, stops.included
        self._watch = Watch(stops) if stops.texts or stops.patterns else None
        self._starts: list[int] = []  # characters before each token
        self._handed_tokens = self._handed_text = 0
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def write(
        self, tokens: Sequence[int], *, sampled: bool, stoppable: bool = True, logprobs: TokenLogprobs | None = None
    ) -> None:
        """Append tokens; where they complete a stop, cut the text there (if `stoppable`)."""
        self.tokens += tokens
        self.token_masks += [int(sampled)] * len(tokens)
        self.logprobs += [logprobs] * len(tokens)
        self._starts += [len(self.text)] * len(tokens)
        piece = self._utf8.decode(self._vocabulary.decode(tokens))
        self.text += piece
        if self._watch is not None and (found := self._watch.read(piece, counts=stoppable)) is not None:
            self.found = found
            self._cut(found.end if self._included else found.begin)

    def close(self) -> None:
        """Nothing more comes: characters that are not whole become U+FFFD."""
        if self.found is None:
            self.text += self._utf8.decode(b"", final=True)
        self._watch = None

    def begin_answer(self, end: str) -> None:
        """What was written up to here, and handed out, is reasoning; `end` is the text that ended it."""
        self.reasoning, self.text, self.thinking = self.text.removesuffix(end), "", False
        self._starts = [0] * len(self.tokens)
        self._handed_text = 0

    def event(self) -> StreamEvent:
        """What can be handed out and has not been."""
        decided, tokens = len(self.text), len(self.tokens)
        if self._watch is not None and self.found is None:
            decided = self._watch.decided
            while tokens > self._handed_tokens and self._starts[tokens - 1] >= decided:
                tokens -= 1
        new, text = self.tokens[self._handed_tokens : tokens], self.text[self._handed_text : decided]
        scores = tuple(self.logprobs[self._handed_tokens : tokens])
        forced = bool(new) and not self.token_masks[self._handed_tokens]
        self._handed_tokens, self._handed_text = tokens, decided
        return StreamEvent(tuple(new), text, forced, logprobs=scores, reasoning=self.thinking)

    def _cut(self, end: int) -> None:
        """Only what begins before the character `end` remains."""
        self.text = self.text[:end]
        kept = sum(start < end for start in self._starts)
        del self.tokens[kept:], self.token_masks[kept:], self.logprobs[kept:], self._starts[kept:]
