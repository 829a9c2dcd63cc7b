"""Reads the tokenizer inside a GGUF file.

In: a path. Out: a `Source`. Supported models: "gpt2" (byte-level BPE: tokens in GPT-2's alphabet, merge rules, the name
of a pre-tokenizer) and "llama" (SentencePiece: pieces with scores). Token types: 1 normal, 2 unknown, 3 control, 4 user
defined (text, matched before splitting), 5 unused, 6 byte. Source: llama.cpp, src/llama-vocab.cpp. If the pre-tokenizer
is not in the table below, the tokens are still usable, but `encode` raises an error that names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Final

import numpy as np

from guided.errors import VocabularyError, brief
from guided.files.gguf import GgufFile
from guided.keywords import check_path
from guided.vocabulary.byte_pairs import BytePairs, BytePairsFactory, Split, build_pairs_from_merges, no_byte_pairs
from guided.vocabulary.encoders import make_byte_level_encoder, make_sentencepiece_encoder, parse_merges
from guided.vocabulary.pretokenizers import PATTERNS
from guided.vocabulary.sentencepiece import (
    BYTE,
    NORMAL,
    USER_DEFINED,
    decode_pieces,
    find_special_pieces,
    model_proto,
)
from guided.vocabulary.source import MAX_SIZE, Encoder, EncoderFactory, Source, find_ends_by_name, no_encoder
from guided.vocabulary.spelling import byte_alphabet, byte_piece, from_byte_alphabet

__all__ = ["read_bos_ids", "read_gguf"]

# llama.cpp's names -> names in PATTERNS
_PRE_TOKENIZERS: Final[dict[str, str]] = {
    name: pattern_name
    for pattern_name, names in {
        "gpt2": (
            "gpt-2 phi-2 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code mpt olmo jais trillion "
            "roberta-bpe granite-docling gigachat a.x-4.0 mellum modern-bert exaone4"
        ),
        "smollm": "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
        "llama3": "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx smaug-bpe",
        "qwen2": "qwen2 stablelm2 deepseek-r1-qwen hunyuan megrez grok-2 kormo f2llmv2",
        "qwen35": "qwen35",
        "tekken": "tekken",
        "o200k": "gpt-4o llama4 kanana2 minimax-m2 talkie",
    }.items()
    for name in names.split()
}
_IGNORES_MERGES: Final = frozenset(
    {
        "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano",
        "tekken",
    }
)  # fmt: skip
_ADDS_BOS: Final = _IGNORES_MERGES | {"chameleon"}  # unless the file says otherwise
_END_KEYS: Final = ("eos_token_id", "eot_token_id", "eom_token_id")


def read_gguf(file: str | PathLike[str] | GgufFile) -> Source:
    """The vocabulary of a GGUF file, given as a path or an open file.

    Raises:
        VocabularyError: the file is corrupt, or contains no tokenizer or an unsupported one.
    """
    if not isinstance(file, GgufFile):
        check_path("path", file, "the path of a GGUF file")
        with GgufFile(file) as open_file:
            return read_gguf(open_file)
    try:
        return _read_source(file.metadata)
    except VocabularyError as error:
        raise VocabularyError(f"{file.path}: {error}") from None


def read_bos_ids(metadata: Mapping[str, Any], size: int) -> list[int]:
    """The ids that precede a text: the BOS token, or none. `size`: the number of tokens.

    As in llama.cpp, the model and the pre-tokenizer determine whether there is a BOS token if the file does not say so.
    SentencePiece models have the BOS token 1 by default.

    Raises:
        VocabularyError: a value has the wrong type, or the token does not exist.
    """
    is_sentencepiece = metadata.get("tokenizer.ggml.model") == "llama"
    pre_tokenizer = metadata.get("tokenizer.ggml.pre")
    adds_bos = is_sentencepiece or (isinstance(pre_tokenizer, str) and pre_tokenizer in _ADDS_BOS)
    adds_bos = _read_flag(metadata, "tokenizer.ggml.add_bos_token", adds_bos)
    bos = metadata.get("tokenizer.ggml.bos_token_id", 1 if is_sentencepiece and size > 1 else None)
    if bos is not None and (type(bos) is not int or not 0 <= bos < size):
        raise VocabularyError(f"tokenizer.ggml.bos_token_id is {brief(bos, 60)}, which is not a token")
    return [bos] if adds_bos and bos is not None else []


def _read_source(metadata: Mapping[str, Any]) -> Source:
    model = metadata.get("tokenizer.ggml.model")
    if model is None:
        raise VocabularyError("the file contains no tokenizer (no tokenizer.ggml.model)")
    if not isinstance(model, str):
        raise _unknown_model_error(model)
    names = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(names) > MAX_SIZE:
        raise VocabularyError("tokenizer.ggml.tokens is not a list of strings")
    types = _read_numbers(metadata, "tokenizer.ggml.token_type", len(names), NORMAL)
    if types and not NORMAL <= min(types) <= max(types) <= BYTE:
        raise VocabularyError("tokenizer.ggml.token_type contains a type that is not 1 to 6")
    if model == "gpt2":
        tokens, encoder, pairs = _read_byte_level(metadata, names, types)
    elif model == "llama":
        scores = _read_numbers(metadata, "tokenizer.ggml.scores", len(names), 0.0)
        tokens, encoder = decode_pieces(names, types), _make_piece_encoder(metadata, names, scores, types)
        pairs = no_byte_pairs("it is a SentencePiece model")
    else:
        raise _unknown_model_error(model)
    special = find_special_pieces(names, types)
    end_ids, size = _read_ends(metadata, special, len(names)), _read_size(metadata, len(names))
    markers = [name for name, type_ in zip(names, types, strict=True) if type_ == USER_DEFINED]
    return Source(tokens, end_ids, special, encoder, size, byte_pairs=pairs, markers=markers)


def _unknown_model_error(model: object) -> VocabularyError:
    return VocabularyError(f"the tokenizer model {brief(model)} is not supported, only 'gpt2' and 'llama'")


def _read_flag(metadata: Mapping[str, Any], key: str, default: bool) -> bool:
    """A boolean in the metadata; `default` if it is missing."""
    value = metadata.get(key, default)
    if not isinstance(value, bool):
        raise VocabularyError(f"{key} is {brief(value)}, not a boolean")
    return value


def _read_numbers(metadata: Mapping[str, Any], key: str, count: int, default: float) -> list[Any]:
    numbers = metadata.get(key)
    if numbers is None:
        return [default] * count
    if not isinstance(numbers, np.ndarray) or len(numbers) != count or not np.isfinite(numbers).all():
        raise VocabularyError(f"{key} is not a list of {count} numbers, one for each token")
    return list(numbers.tolist())


def _read_ends(metadata: Mapping[str, Any], special: Mapping[int, str], count: int) -> set[int]:
    end_ids = set(find_ends_by_name(special))
    for key in _END_KEYS:
        number = metadata.get(f"tokenizer.ggml.{key}")
        if number is None:
            continue
        if type(number) is not int or not 0 <= number < count:
            raise VocabularyError(f"tokenizer.ggml.{key} is {brief(number, 40)}, which is not a token id")
        end_ids.add(number)
    return end_ids


def _read_size(metadata: Mapping[str, Any], count: int) -> int:
    """The number of logits: the declared vocabulary size, or the number of tokens if that is larger."""
    declared_size = metadata.get(f"{metadata.get('general.architecture')}.vocab_size", 0)
    if type(declared_size) is not int or declared_size > MAX_SIZE:
        raise VocabularyError(f"the declared vocabulary size is {brief(declared_size, 40)}")
    return max(declared_size, count)


def _make_piece_encoder(
    metadata: Mapping[str, Any], names: Sequence[str], scores: Sequence[float], types: Sequence[int]
) -> EncoderFactory:
    prefix = _read_flag(metadata, "tokenizer.ggml.add_space_prefix", True)
    collapse = _read_flag(metadata, "tokenizer.ggml.remove_extra_whitespaces", False)
    return lambda: make_sentencepiece_encoder(
        model_proto(names, scores, types, dummy_prefix=prefix, collapse=collapse), len(names)
    )


def _read_byte_level(
    metadata: Mapping[str, Any], names: Sequence[str], types: Sequence[int]
) -> tuple[list[bytes | None], EncoderFactory, BytePairsFactory]:
    tokens: list[bytes | None] = []
    for number, (name, type_) in enumerate(zip(names, types, strict=True)):
        token = None
        if type_ == NORMAL:
            token = from_byte_alphabet(name)
            token = name.encode("utf-8") if token is None else token
        elif type_ == USER_DEFINED:
            token = name.encode("utf-8")
        elif type_ == BYTE:
            byte = byte_piece(name)
            if byte is None:
                raise VocabularyError(f"token {number} is a byte token but is spelled {name[:40]!r}")
            token = bytes((byte,))
        tokens.append(token)
    return tokens, *_read_byte_level_rules(metadata, names, types)


def _read_byte_level_rules(
    metadata: Mapping[str, Any], names: Sequence[str], types: Sequence[int]
) -> tuple[EncoderFactory, BytePairsFactory]:
    merges = metadata.get("tokenizer.ggml.merges")
    prefix_space = _read_flag(metadata, "tokenizer.ggml.add_space_prefix", False)
    pre_tokenizer = metadata.get("tokenizer.ggml.pre", "default")
    patterns = PATTERNS.get(_PRE_TOKENIZERS.get(pre_tokenizer, "")) if isinstance(pre_tokenizer, str) else None
    if not isinstance(merges, list):
        return _make_unknown_rules("the file contains no merge rules (tokenizer.ggml.merges)")
    if patterns is None:
        known_names = ", ".join(sorted(_PRE_TOKENIZERS))
        return _make_unknown_rules(
            f"the pre-tokenizer {brief(pre_tokenizer)} is unknown; the known ones are {known_names}"
        )

    ignores_merges = pre_tokenizer in _IGNORES_MERGES

    def list_tokens() -> tuple[dict[str, int], dict[str, int]]:
        tokens: dict[str, int] = {}
        added_tokens: dict[str, int] = {}
        for number, (name, type_) in enumerate(zip(names, types, strict=True)):
            if type_ == NORMAL:
                tokens.setdefault(name, number)
            elif type_ == USER_DEFINED:
                added_tokens.setdefault(name, number)
            elif type_ == BYTE:
                tokens.setdefault(byte_alphabet()[byte_piece(name) or 0], number)
        return tokens, added_tokens

    def make_encoder() -> Encoder:
        tokens, added_tokens = list_tokens()
        return make_byte_level_encoder(
            tokens,
            merges,
            patterns=patterns,
            ignores_merges=ignores_merges,
            added_tokens=added_tokens,
            prefix_space=prefix_space,
        )

    def make_byte_pairs() -> BytePairs:
        tokens, added_tokens = list_tokens()
        splits = [Split(pattern, "oniguruma") for pattern in patterns]
        pairs = parse_merges(tokens, merges)
        return build_pairs_from_merges(
            tokens, pairs, splits=splits, ignores_merges=ignores_merges, added_tokens=added_tokens
        )

    return make_encoder, make_byte_pairs


def _make_unknown_rules(reason: str) -> tuple[EncoderFactory, BytePairsFactory]:
    return no_encoder(reason), no_byte_pairs(reason)
