"""Small byte-level BPE tokenizers: as a vocabulary, and as the package that defines its encoding."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from guided.vocabulary import Vocabulary
from guided.vocabulary.spelling import byte_alphabet

__all__ = ["encodings", "huggingface", "prefixes", "tiktoken_like", "trained"]

END = "<|end|>"


def huggingface(
    merges: Sequence[tuple[bytes, bytes]],
    steps: Sequence[dict[str, Any]] = (),
    *,
    ignore_merges: bool = False,
    more: Sequence[bytes] = (),
    added: Sequence[str] = (),
    normalizer: str | None = None,
) -> Vocabulary:
    """256 bytes, the results of the merges, `more` tokens that no merge produces, added tokens, and an end token."""
    alphabet = byte_alphabet()

    def spelled(data: bytes) -> str:
        return "".join(alphabet[byte] for byte in data)

    texts = dict.fromkeys([*(bytes((b,)) for b in range(256)), *(a + b for a, b in merges), *more])
    vocab = {spelled(data): id for id, data in enumerate(texts)}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    entries = [{"content": text, "special": False} for text in added] + [{"content": END, "special": True}]
    entries = [entry | flags | {"id": len(vocab) + at} for at, entry in enumerate(entries)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    data = {
        "version": "1.0", "added_tokens": entries, "decoder": byte_level,
        "normalizer": normalizer and {"type": normalizer},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*steps, byte_level]},
        "model": {"type": "BPE", "vocab": vocab, "ignore_merges": ignore_merges,
                  "merges": [[spelled(a), spelled(b)] for a, b in merges]},
    }  # fmt: skip

    class Json:
        def to_str(self) -> str:
            return json.dumps(data)

    return Vocabulary.from_huggingface(Json(), eos_token_ids=[entries[-1]["id"]])


def tiktoken_like(tokens: Iterable[bytes], pattern: str) -> Vocabulary:
    """256 bytes, then the tokens by rank, and an end."""
    import tiktoken

    texts = dict.fromkeys([*(bytes((b,)) for b in range(256)), *tokens])
    ranks = {data: rank for rank, data in enumerate(texts)}
    encoding = tiktoken.Encoding("tiny", pat_str=pattern, mergeable_ranks=ranks, special_tokens={END: len(ranks)})
    return Vocabulary.from_tiktoken(encoding, eos_token_ids=[len(ranks)])


def trained() -> Vocabulary:
    """A tokenizer with GPT-2's word splitting, trained on a text of this repository."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=1500, initial_alphabet=alphabet, special_tokens=["</s>"], show_progress=False
    )
    text = (Path(__file__).parent.parent / "docs" / "architecture.md").read_text()
    json_like = ['{"name": "Ann", "age": 31, "tags": ["a", "b"]}', '"],', '"}', '", "', '": "'] * 40
    tokenizer.train_from_iterator([text, *json_like], trainer)
    return Vocabulary.from_huggingface(tokenizer, eos_token_ids=[tokenizer.token_to_id("</s>")])


def encodings(vocabulary: Vocabulary, alphabet: str, longest: int) -> dict[str, tuple[int, ...]]:
    """Every text of a given length -> its encoding."""
    texts = ("".join(chars) for n in range(longest + 1) for chars in itertools.product(alphabet, repeat=n))
    return {text: tuple(vocabulary.encode(text, continued=True)) for text in texts}


def prefixes(sequences: Iterable[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """All beginnings of some sequences."""
    return {ids[:n] for ids in sequences for n in range(len(ids) + 1)}
