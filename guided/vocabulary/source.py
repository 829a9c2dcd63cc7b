"""The result of a tokenizer reader for `Vocabulary`, and helpers that all readers share.

`Source` has the tokens, the end ids, the names of the special tokens, and a factory of the encoder. The encoder needs
tables that masks do not need, so it is built when text is first encoded. `no_encoder(reason)` is the factory for a
tokenizer whose ids can be read but whose encoding is unknown: it raises an error with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Final, Protocol

from guided.errors import VocabularyError, brief
from guided.keywords import read_items
from guided.vocabulary.byte_pairs import BytePairsFactory, no_byte_pairs

__all__ = [
    "END_NAMES",
    "MAX_SIZE",
    "MAX_TOKEN_BYTES",
    "MAX_TOTAL_BYTES",
    "Encoder",
    "EncoderFactory",
    "Source",
    "check_ids",
    "find_ends_by_name",
    "no_encoder",
]


class Encoder(Protocol):
    """Text -> token ids, as the tokenizer computes them."""

    def encode(self, text: str, continued: bool = False) -> list[int]:
        """The ids of `text`, which contains no lone surrogate. Raises VocabularyError if no tokens spell it.

        With `continued`, the text continues other text: no space is added before it.
        """
        ...


EncoderFactory = Callable[[], Encoder]

_NO_BYTE_PAIRS: Final = no_byte_pairs("it is not a byte-level BPE tokenizer")
MAX_SIZE: Final = 1 << 24  # ids; the largest vocabularies in use have about 900,000
MAX_TOKEN_BYTES: Final = (1 << 16) - 1  # bytes; the core counts the depth of its trie in 16 bits
MAX_TOTAL_BYTES: Final = 1 << 24  # of all tokens; the core's trie takes up to 85 times as much memory

# Names of control tokens that end an answer. Files often declare only some of them, so names are checked, too.
END_NAMES: Final = frozenset(
    {
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end|>",
        "<|return|>",
        "<end_of_turn>",
        "<turn|>",
        "<end_of_utterance>",
        "</s>",
        "<eos>",
        "<EOT>",
        "[EOT]",
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
    }
)


@dataclass(frozen=True, slots=True)
class Source:
    """The contents of a tokenizer file. `Vocabulary` validates and stores it.

    Attributes:
        tokens: the bytes of each id, or None.
        eos_token_ids: the end ids.
        special_tokens: id -> name.
        encoder: creates the encoder; None: encode with the fewest tokens.
        size: the number of logits, if the source declares more logits than tokens.
        special_encoder: creates an encoder that reads names of special tokens as these tokens; None: the text is split
            at these names, and each part is encoded separately.
        byte_pairs: creates the tokenizer's rules, or raises an error with the reason why they are unknown.
        markers: text tokens that the tokenizer matches before anything else.
    """

    tokens: Sequence[bytes | None]
    eos_token_ids: Collection[int]
    special_tokens: Mapping[int, str] = field(default_factory=dict)
    encoder: EncoderFactory | None = None
    size: int | None = None
    special_encoder: EncoderFactory | None = None
    byte_pairs: BytePairsFactory = _NO_BYTE_PAIRS
    markers: Collection[str] = ()


def find_ends_by_name(special_tokens: Mapping[int, str]) -> frozenset[int]:
    """The special tokens whose names are in `END_NAMES`."""
    return frozenset(number for number, name in special_tokens.items() if name in END_NAMES)


def no_encoder(reason: str) -> EncoderFactory:
    """A factory that raises an error, for a tokenizer whose tokens are known but whose encoding is not."""

    def raise_error() -> Encoder:
        raise VocabularyError(f"text cannot be encoded exactly as this tokenizer does: {reason}")

    return raise_error


def check_ids(ids: Collection[int], description: str) -> list[int]:
    """The ids as plain ints. Raises VocabularyError if one is not in [0, `MAX_SIZE`)."""
    if isinstance(ids, (str, bytes)):
        raise VocabularyError(f"{description} are integers, not {ids!r}")
    try:
        numbers = read_items(description, ids, max_items=MAX_SIZE, error=VocabularyError)
        if not {bool}.isdisjoint(map(type, numbers)):
            raise TypeError
        out = [index(number) for number in numbers]
    except TypeError:
        raise VocabularyError(f"{description} are a collection of integers, not {brief(ids, 80)}") from None
    for number in out:
        if not 0 <= number < MAX_SIZE:
            raise VocabularyError(f"{description}: {number} is not an id (0 to {MAX_SIZE - 1})")
    return out
