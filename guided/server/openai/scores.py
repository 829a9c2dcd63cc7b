"""Formats log probabilities in answers. In: the tokens of a text with their log probabilities. Out: data for JSON.

A token may contain only part of a character. In `/v1/chat/completions` and `/v1/responses`, the field `token` then
contains U+FFFD, and the field `bytes` the exact content. In `/v1/completions`, the tokens in `top_logprobs` are the
names of an object's members, so they must be unique. A token with part of a character is named by its bytes, as in
OpenAI's API (`bytes:\\xc3`). A token whose name is already taken is named by its id, as in vLLM (`token_id:7`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from guided.sampling.logprobs import TokenLogprobs
from guided.server.openai.attribution import ShownToken
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Offsets", "format_chat_logprobs", "format_text_logprobs", "token_fields"]


class Offsets:
    """The character offset at which each token begins. A token inside a character has the offset of that character."""

    def __init__(self, start: int = 0) -> None:
        """`start`: the offset of the first token. Negative offsets become 0."""
        # the number of complete characters so far, and the bytes of an incomplete one
        self._size, self._incomplete_bytes = start, b""

    def next_offset(self, data: bytes) -> int:
        """The offset of the next token, given its bytes."""
        data, token_start, offset = self._incomplete_bytes + data, len(self._incomplete_bytes), self._size
        self._incomplete_bytes = b""
        while data:
            size, characters, is_complete = _measure_first_part(data)
            if not is_complete:
                self._incomplete_bytes = data
                break
            if token_start >= size:  # the token begins after this part
                offset += characters
            elif token_start > 0:  # the token begins inside this part
                offset += len(data[:token_start].decode("utf-8", "ignore"))
            token_start, data, self._size = max(0, token_start - size), data[size:], self._size + characters
        return max(0, offset)


def _measure_first_part(data: bytes) -> tuple[int, int, bool]:
    """The size of the first part of `data`, its number of characters, and whether they are complete.

    The part consists of whole characters, or of the bytes that one U+FFFD replaces.
    """
    try:
        return len(data), len(data.decode()), True
    except UnicodeDecodeError as error:
        if error.start:
            return error.start, len(data[: error.start].decode()), True
        return error.end, 1, error.reason != "unexpected end of data"


def format_chat_logprobs(tokens: Sequence[ShownToken], vocabulary: Vocabulary) -> dict[str, Any]:
    """For each token and its most likely alternatives: text, bytes and log probability."""
    content = []
    for token in tokens:
        scores = _get_logprobs(token)
        top = [token_fields(id, vocabulary) | {"logprob": value} for id, value in scores.top]
        content.append(token_fields(token.id, vocabulary) | {"logprob": scores.logprob, "top_logprobs": top})
    return {"content": content, "refusal": None}


def format_text_logprobs(tokens: Sequence[ShownToken], offsets: Offsets, vocabulary: Vocabulary) -> dict[str, Any]:
    """The same data in the format of the older completions API.

    `top_logprobs` always includes the token itself. The first token of an echoed prompt has no log probabilities, so
    its entries are None.
    """
    scores = [token.logprobs if token.is_prompt else _get_logprobs(token) for token in tokens]
    return {
        "tokens": [_name_token(token.id, vocabulary) for token in tokens],
        "token_logprobs": [None if score is None else score.logprob for score in scores],
        "top_logprobs": [None if score is None else _map_logprobs(score, vocabulary) for score in scores],
        "text_offset": [offsets.next_offset(vocabulary.decode([token.id])) for token in tokens],
    }


def token_fields(token: int, vocabulary: Vocabulary) -> dict[str, Any]:
    """The text and the bytes of a token."""
    data = vocabulary.decode([token])
    return {"token": data.decode("utf-8", "replace"), "bytes": list(data)}


def _map_logprobs(score: TokenLogprobs, vocabulary: Vocabulary) -> dict[str, float]:
    own_score = {_name_token(score.token, vocabulary): score.logprob}
    top: dict[str, float] = {}
    for id, value in score.top:
        name = _name_token(id, vocabulary)
        is_taken = id != score.token and (name in own_score or name in top)
        top[f"token_id:{id}" if is_taken else name] = value
    return top | {name: value for name, value in own_score.items() if name not in top}


def _name_token(token: int, vocabulary: Vocabulary) -> str:
    data = vocabulary.decode([token])
    try:
        return data.decode() if data or token not in vocabulary.special_tokens else vocabulary.special_tokens[token]
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def _get_logprobs(token: ShownToken) -> TokenLogprobs:
    """The log probabilities of a token. A token of a tool result was the only choice, so its log probability is 0."""
    return token.logprobs or TokenLogprobs(token.id, 0.0)
