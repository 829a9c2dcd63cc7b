"""Finds the tokens of an answer's text.

In: tokens with their characters, and the positions of the characters that became text. Out: the tokens of the text.

Problem. The model writes an answer with calls as one sequence of tokens: text, markers, names, arguments. The client
gets text and calls separately, so the log probabilities and ids of the text must not include the markers. Sometimes
later tokens decide whether a character is text: `<tool` may turn out to be text.

    tokens      "It"   " is"   "\\n"   "<tool"   "_call>"   ...      written
    characters  0..2   2..5    5..6   6..11     11..17              each becomes text or not
    text        0..5                                                so only the first two tokens are shown
                                                                    (whitespace before a call is dropped)

If several tokens encode one character, they form a group. A token that contains both text and a marker counts as text.
Cost: each token and each character is processed once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from guided.engine.result import StreamEvent
from guided.sampling.logprobs import TokenLogprobs

__all__ = ["Attribution", "ShownToken"]


class ShownToken(NamedTuple):
    """A token that a client may see.

    Attributes:
        id: the token's id.
        is_forced: whether the specification or a tool forced it.
        logprobs: None if not requested.
        is_text: whether it belongs to the text, not to the reasoning.
        is_prompt: whether it belongs to a prompt that the text repeats (`echo`).
    """

    id: int
    is_forced: bool
    logprobs: TokenLogprobs | None
    is_text: bool = True
    is_prompt: bool = False

    @classmethod
    def from_event(cls, event: StreamEvent, *, is_text: bool) -> list[ShownToken]:
        """The tokens of an event."""
        logprobs: Sequence[TokenLogprobs | None] = event.logprobs or (None,) * len(event.tokens)
        return [
            cls(id, event.forced, token_logprobs, is_text)
            for id, token_logprobs in zip(event.tokens, logprobs, strict=True)
        ]


@dataclass(slots=True)
class _Group:
    """Tokens that encode the same characters.

    Attributes:
        begin, end: the range of these characters.
        is_text: whether they belong to the text, not to the reasoning; None: neither, or still undecided.
    """

    begin: int
    end: int
    is_text: bool | None = None
    tokens: list[ShownToken] = field(default_factory=list)


class Attribution:
    """See the module docstring.

    Attributes:
        size: the number of characters written.
    """

    def __init__(self) -> None:
        self.size = 0
        self._groups = deque[_Group]()
        self._incomplete_tokens = list[ShownToken]()  # tokens of an incomplete character

    def write(self, token: ShownToken | None, texts: Sequence[str], *, is_hidden: bool) -> None:
        """Record a token and the text that it completes. If `token` is None, the answer ends.

        If the token interrupts an incomplete character, there are two texts, and the first is the replacement of this
        character (U+FFFD). `is_hidden`: the token itself has no text.
        """
        if token is None or is_hidden or len(texts) > 1:
            self._complete("".join(texts[:1]))
            self._incomplete_tokens, texts = [], texts[1:]
        if token is not None and not is_hidden:
            self._incomplete_tokens.append(token)
            self._complete("".join(texts))

    def _complete(self, text: str) -> None:
        if text:
            self._groups.append(_Group(self.size, self.size + len(text), None, self._incomplete_tokens))
            self.size, self._incomplete_tokens = self.size + len(text), []

    def set_is_text(self, positions: Iterable[int], *, is_text: bool) -> None:
        """Mark the characters at these positions, in ascending order, as text or reasoning."""
        groups = iter(self._groups)
        group = next(groups, None)
        for position in positions:
            while group is not None and group.end <= position:
                group = next(groups, None)
            if group is not None and group.begin <= position:
                group.is_text = group.is_text or is_text

    def take_decided(self, decided_length: int) -> list[ShownToken]:
        """Remove and return the tokens of text and reasoning before `decided_length`, where undecided text begins."""
        tokens = list[ShownToken]()
        while self._groups and (self._groups[0].end <= decided_length or self._groups[0].is_text is not None):
            group = self._groups.popleft()
            if group.is_text is not None:
                tokens += [token._replace(is_text=group.is_text) for token in group.tokens]
        return tokens
