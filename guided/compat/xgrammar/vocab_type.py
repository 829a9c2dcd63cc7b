"""Detects how a tokenizer spells its tokens. In: a vocabulary, the text of a tokenizer.json, or a transformers
tokenizer. Out: the kind of spelling, whether texts get a leading space, and the bytes of a token.

The rules are xgrammar's: the decoders in the tokenizer's file determine the kind, unless the tokens themselves indicate
another kind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from guided.errors import brief
from guided.vocabulary.spelling import SPACE, byte_alphabet, byte_piece, from_byte_alphabet

__all__ = ["STOP_TOKENS", "VocabType", "decode_token", "detect_from_vocab", "detect_metadata", "encodes_with_prefix"]

STOP_TOKENS: Final = frozenset(
    "</s> <|end_of_text|> <|eot_id|> <|endoftext|> <eos> <|eos|> <end_of_turn> <｜end▁of▁sentence｜>".encode().split()
)
"""The tokens that end an output if no stop tokens are given."""


class VocabType(Enum):
    """How tokens are spelled."""

    RAW = 0
    """Raw bytes (tiktoken)."""

    BYTE_FALLBACK = 1
    """A space as U+2581, and single bytes as `<0x1B>` (SentencePiece)."""

    BYTE_LEVEL = 2
    """Each byte as a character of GPT-2's alphabet."""


def decode_token(token: str | bytes, kind: VocabType) -> bytes:
    """The bytes of a token.

    Raises:
        TypeError: the token is neither a str nor bytes.
    """
    if not isinstance(token, str | bytes):
        raise TypeError(f"a token must be a str or bytes, not {brief(token)}")
    if kind is VocabType.RAW:
        return token if isinstance(token, bytes) else token.encode()
    try:
        text = token if isinstance(token, str) else token.decode()
    except UnicodeDecodeError:  # bytes that are not valid UTF-8 stand for themselves
        return bytes(token)  # type: ignore[arg-type]
    if kind is VocabType.BYTE_LEVEL:
        data = from_byte_alphabet(text)
        return text.encode() if data is None else data
    byte = byte_piece(text)
    return text.replace(SPACE, " ").encode() if byte is None else bytes((byte,))


def detect_from_vocab(vocab: Mapping[str, int]) -> VocabType | None:
    """The kind of spelling that the tokens indicate, or None if it is unclear."""
    if sum(f"<0x{byte:02X}>" in vocab for byte in range(256)) >= 128:
        return VocabType.BYTE_FALLBACK
    alphabet = frozenset(byte_alphabet())
    if sum(char in vocab for char in alphabet) < 128:
        return None
    spelled_count = sum(alphabet.issuperset(token) for token in vocab)  # added tokens may have other characters
    return VocabType.BYTE_LEVEL if spelled_count >= 0.99 * len(vocab) else None


def detect_metadata(backend: str) -> dict[str, Any]:
    """Read the metadata of a tokenizer.json: {"vocab_type": VocabType, "add_prefix_space": bool}.

    Raises:
        RuntimeError: the text is not a JSON object.
    """
    try:
        data = json.loads(backend)
    except (ValueError, RecursionError) as error:
        raise RuntimeError(f"Failed to parse JSON object: {error}") from None
    if not isinstance(data, dict):
        raise RuntimeError("Failed to parse JSON object: this is not an object")
    kinds = [step.get("type") for step in _list_steps(data.get("decoder"), "decoders")]
    byte_kinds = (kind for kind in kinds if kind in ("ByteLevel", "ByteFallback"))
    kind = {"ByteLevel": VocabType.BYTE_LEVEL, "ByteFallback": VocabType.BYTE_FALLBACK}.get(next(byte_kinds, ""))
    prepends_space = any(
        step.get("type") == "Prepend" and step.get("prepend") == SPACE
        for step in _list_steps(data.get("normalizer"), "normalizers")
    )
    pre_tokenizer = data.get("pre_tokenizer")
    pre_tokenizer = pre_tokenizer if isinstance(pre_tokenizer, dict) else {}
    adds_space = pre_tokenizer.get("type") == "Metaspace" and pre_tokenizer.get("prepend_scheme") in ("always", "first")
    return {"vocab_type": kind or VocabType.RAW, "add_prefix_space": prepends_space or adds_space}


def _list_steps(component: Any, list_name: str) -> Sequence[dict[str, Any]]:
    if not isinstance(component, dict):
        return []
    steps = component.get(list_name, []) if component.get("type") == "Sequence" else [component]
    return [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []


def encodes_with_prefix(tokenizer: Any, kind: VocabType) -> bool:
    """Whether the tokenizer puts a space before a text, judged by its encoding of one character."""
    try:
        tokens = tokenizer.convert_ids_to_tokens(tokenizer.encode("a", add_special_tokens=False))
    except (AttributeError, TypeError, ValueError):
        return False
    prefix = SPACE if kind is VocabType.BYTE_FALLBACK else byte_alphabet()[ord(" ")]
    return bool(tokens and tokens[0]) and str(tokens[0]).startswith(prefix)
