"""Reads Hugging Face tokenizers: fast tokenizers of transformers, `tokenizers.Tokenizer`, and tokenizer.json files.

In: an object with `backend_tokenizer` or `to_str`, a path, or the name of a model on the hub. Out: a `Source`. Only the
JSON is read; the package tokenizers is imported when text is first encoded. The decoder determines the bytes of a
token: "ByteLevel" (GPT-2's alphabet), or U+2581 for a space with byte pieces such as <0x0A> ("Metaspace", or "Replace"
and "ByteFallback"). WordPiece, WordLevel and decoders whose output for one token depends on its neighbours are refused,
because masks are exact only if each token has fixed bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from os.path import exists, isdir
from pathlib import Path
from typing import Any, Final

from guided.errors import VocabularyError
from guided.files.huggingface import fetch_tokenizer, is_hub_name
from guided.files.json_file import read_json, read_json_object
from guided.vocabulary.byte_pairs import BytePairsFactory, build_pairs_from_huggingface
from guided.vocabulary.encoders import make_huggingface_encoder, parse_merges
from guided.vocabulary.source import MAX_SIZE, Encoder, EncoderFactory, Source, check_ids, find_ends_by_name
from guided.vocabulary.spelling import SPACE, byte_piece, from_byte_alphabet

__all__ = ["read_huggingface"]

_MAX_NESTING: Final = 8


def read_huggingface(tokenizer: Any) -> Source:
    """The vocabulary of a tokenizer.

    Raises:
        VocabularyError: the tokenizer is not a fast tokenizer, its file is corrupt, or its tokens have no fixed bytes.
    """
    end_ids: set[int] = set()
    if isinstance(tokenizer, (str, PathLike)):
        path = Path(tokenizer)
        if isinstance(tokenizer, str) and not exists(path) and is_hub_name(tokenizer):
            path = fetch_tokenizer(tokenizer)
        path = path / "tokenizer.json" if isdir(path) else path
        if not exists(path):  # False, without an error, if the name is too long
            raise VocabularyError(
                f"{path} does not exist: a tokenizer is an object of transformers or tokenizers, the path of a "
                'tokenizer.json or of a folder with one, or "org/model" on the Hugging Face hub'
            )
        data = read_json(path)
        origin = str(path)
    else:
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not hasattr(backend, "to_str"):
            raise VocabularyError(
                f"from_huggingface takes a fast tokenizer, a tokenizers.Tokenizer or a path, not "
                f"{type(tokenizer).__name__}; for a SentencePiece .model file use from_sentencepiece"
            )
        data, path, origin = json.loads(backend.to_str()), None, type(tokenizer).__name__
        if isinstance(end := getattr(tokenizer, "eos_token_id", None), int):
            end_ids.add(end)
    try:
        source = _read_source(data)
        end_ids |= _read_declared_ends(path, source.special_tokens) if path is not None else set()
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise VocabularyError(f"{origin}: not a tokenizer.json: {type(error).__name__} {str(error)[:100]}") from None
    except (ValueError, VocabularyError) as error:
        raise VocabularyError(f"{origin}: {str(error)[:400]}") from None
    end_ids = end_ids or set(find_ends_by_name(source.special_tokens))
    return replace(source, eos_token_ids=end_ids)


def _read_declared_ends(path: Path, special: Mapping[int, str]) -> set[int]:
    """The end tokens in the files next to `path`: tokenizer_config.json, and generation_config.json or, as in
    transformers, config.json if there is no generation_config.json."""
    end_ids: set[int] = set()
    settings, generation = path.with_name("tokenizer_config.json"), path.with_name("generation_config.json")
    if settings.is_file():
        name = read_json_object(settings).get("eos_token")
        name = name.get("content") if isinstance(name, dict) else name
        end_ids |= {number for number, text in special.items() if text == name}
    config = generation if generation.is_file() else path.with_name("config.json")
    if config.is_file():
        value = read_json_object(config).get("eos_token_id")
        ids = value if isinstance(value, list) else [] if value is None else [value]
        end_ids.update(check_ids(ids, f"eos_token_id of {config}"))
    return end_ids


def _read_source(data: dict[str, Any]) -> Source:
    model = data["model"]
    vocab = _read_vocab(model)
    added_tokens = data.get("added_tokens") or []
    ids = list(vocab.values()) + [entry["id"] for entry in added_tokens]
    largest_id = max(ids, default=-1)
    if any(type(number) is not int or number < 0 for number in ids) or not ids:
        raise ValueError("an id is not a number, or there are no ids")
    if largest_id >= min(MAX_SIZE, 2 * len(ids) + 65_536):
        raise ValueError(f"a token has the id {largest_id}, but there are {len(ids)} tokens")
    byte_level, byte_fallback = _detect_spelling(data, model)
    tokens: list[bytes | None] = [None] * (largest_id + 1)
    for piece, number in vocab.items():
        tokens[number] = _decode_piece(piece, byte_level, byte_fallback)
    special: dict[int, str] = {}
    unknown_id = vocab.get(model["unk_token"]) if model.get("unk_token") else model.get("unk_id")
    if unknown_id is not None:
        special[unknown_id] = next(piece for piece, number in vocab.items() if number == unknown_id)
    for entry in added_tokens:
        content = entry["content"]
        if entry.get("special"):
            special[entry["id"]] = content
        else:
            special.pop(entry["id"], None)
            tokens[entry["id"]] = (content if byte_level else content.replace(SPACE, " ")).encode("utf-8")
    markers = [entry["content"] for entry in added_tokens if not entry.get("special")]
    encoder, special_encoder = _make_encoder_factory(data, False), _make_encoder_factory(data, True)
    return Source(
        tokens,
        (),
        special,
        encoder,
        special_encoder=special_encoder,
        byte_pairs=_make_pairs_factory(data),
        markers=markers,
    )


def _make_encoder_factory(data: dict[str, Any], special: bool) -> EncoderFactory:
    def build() -> Encoder:
        try:
            return make_huggingface_encoder(data, special=special)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise VocabularyError(f"the tokenizer's steps cannot be read: {type(error).__name__} {error}") from None

    return build


def _make_pairs_factory(data: dict[str, Any]) -> BytePairsFactory:
    return lambda: build_pairs_from_huggingface(
        data, lambda: parse_merges(data["model"]["vocab"], data["model"]["merges"])
    )


def _read_vocab(model: dict[str, Any]) -> dict[str, int]:
    """Piece -> id."""
    kind = model.get("type") or ("BPE" if "merges" in model else "")
    if kind == "BPE":
        for name in ("continuing_subword_prefix", "end_of_word_suffix"):
            if model.get(name):
                raise VocabularyError(f"{name} is {model[name]!r}, so the bytes of a token depend on its neighbours")
        return dict(model["vocab"])
    if kind == "Unigram":
        vocab: dict[str, int] = {}
        for number, (piece, _) in enumerate(model["vocab"]):
            vocab.setdefault(piece, number)
        return vocab
    raise VocabularyError(
        f"models of type {kind or 'unknown'} are not supported, because the bytes of a token depend on its neighbours; "
        "supported are byte-level BPE, BPE with byte fallback and Unigram"
    )


def _detect_spelling(data: dict[str, Any], model: dict[str, Any]) -> tuple[bool, bool]:
    """How tokens represent bytes: (whether in GPT-2's byte alphabet, whether with byte pieces)."""
    decoders = _flatten_decoder(data.get("decoder"))
    kinds = [decoder["type"] for decoder in decoders]
    if "ByteLevel" in kinds:
        return True, False
    has_spaces = "Metaspace" in kinds and all(decoder.get("replacement", SPACE) == SPACE for decoder in decoders)
    for decoder in decoders:
        if decoder["type"] == "Replace":
            if decoder["pattern"] != {"String": SPACE} or decoder["content"] != " ":
                raise VocabularyError(f"its decoder replaces {str(decoder['pattern'])[:60]}, which is not supported")
            has_spaces = True
    unsupported_kinds = set(kinds) - {"Metaspace", "Replace", "ByteFallback", "Fuse", "Strip"}
    if unsupported_kinds or not has_spaces:
        names = ", ".join(sorted(unsupported_kinds)) or "none of them shows how spaces are represented"
        raise VocabularyError(f"the bytes of a token cannot be determined from its decoders ({names})")
    return False, "ByteFallback" in kinds or bool(model.get("byte_fallback"))


def _flatten_decoder(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The steps of a decoder in order, with each "Sequence" replaced by its steps."""
    steps, levels = [decoder] if decoder else [], 0
    while any(step["type"] == "Sequence" for step in steps):
        levels += 1
        if levels > _MAX_NESTING:
            raise VocabularyError(f"decoders nest deeper than {_MAX_NESTING}")
        steps = [
            inner_step for step in steps for inner_step in (step["decoders"] if step["type"] == "Sequence" else [step])
        ]
    return steps


def _decode_piece(piece: str, byte_level: bool, byte_fallback: bool) -> bytes:
    if byte_level:
        data = from_byte_alphabet(piece)
        return piece.encode("utf-8") if data is None else data
    byte = byte_piece(piece) if byte_fallback else None
    return piece.replace(SPACE, " ").encode("utf-8") if byte is None else bytes((byte,))
