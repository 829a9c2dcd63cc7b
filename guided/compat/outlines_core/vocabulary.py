"""`Vocabulary` as in outlines-core: a mutable table from tokens to ids, and an end token."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import guided.vocabulary as vocabularies
from guided.errors import VocabularyError
from guided.keywords import check_path

__all__ = ["Vocabulary"]


class Vocabulary:
    """Tokens and their ids.

    Args:
        eos_token_id: the end token, which is not in the table.
        map: a dict from tokens (str or bytes) to lists of ids.

    Raises:
        TypeError: `map` is not such a dict. ValueError: it contains the end token.
    """

    __hash__ = None  # type: ignore[assignment]  # it is mutable

    def __init__(self, eos_token_id: int, map: Mapping[Any, Sequence[int]]) -> None:
        self._eos_token_id, self._ids = eos_token_id, dict[bytes, list[int]]()
        expected = "Expected a dict with keys of type str or bytes and values of type list[int]"
        if not isinstance(map, dict):
            raise TypeError(f"{expected}, got {type(map).__name__}")
        for token, ids in map.items():
            if not isinstance(token, str | bytes) or not isinstance(ids, list | tuple) or not _are_ids(ids):
                raise TypeError(f"Dict keys or/and values of the wrong types. {expected}")
            for token_id in ids:
                self.insert(token, token_id)

    @staticmethod
    def from_pretrained(model: str, revision: str | None = None, token: str | None = None) -> Vocabulary:
        """The vocabulary of a model on the Hugging Face Hub, or in a folder.

        Raises:
            ValueError: the name is invalid, there is no such model, or its tokens do not have fixed bytes.
        """
        check_path("model", model, "the name of a model on the hub, or the path of a folder")
        folder = model if Path(model).is_dir() else _download(model, revision, token)
        try:
            vocabulary = vocabularies.Vocabulary.from_huggingface(folder)
        except VocabularyError as error:
            raise ValueError(str(error)) from error
        return Vocabulary.from_guided(vocabulary)

    @staticmethod
    def from_guided(vocabulary: vocabularies.Vocabulary) -> Vocabulary:
        """The tokens of a `guided.Vocabulary` that have text, and the end token with the lowest id."""
        out = Vocabulary(min(vocabulary.eos_token_ids), {})
        for token_id, data in enumerate(vocabulary.tokens):
            if data:
                out._ids.setdefault(data, []).append(token_id)
        return out

    def insert(self, token: str | bytes, token_id: int) -> None:
        """Add an id for a token. ValueError: the id is the end token."""
        if token_id == self._eos_token_id:
            raise ValueError("EOS token should not be inserted into Vocabulary")
        self._ids.setdefault(_token_bytes(token), []).append(token_id)

    def remove(self, token: str | bytes) -> None:
        """Remove a token, if it exists."""
        self._ids.pop(_token_bytes(token), None)

    def get(self, token: str | bytes) -> list[int] | None:
        """The ids of a token; None if the token is not in the table."""
        ids = self._ids.get(_token_bytes(token))
        return None if ids is None else list(ids)

    def get_eos_token_id(self) -> int:
        """The end token."""
        return self._eos_token_id

    def to_guided(self) -> vocabularies.Vocabulary:
        """The equivalent `guided.Vocabulary`. ValueError: an id has two texts."""
        size = max([self._eos_token_id, *(token_id for ids in self._ids.values() for token_id in ids)]) + 1
        tokens: list[bytes | None] = [None] * size
        for data, ids in self._ids.items():
            for token_id in ids:
                if tokens[token_id] is not None and data and tokens[token_id] != data:
                    raise ValueError(f"the id {token_id} has two texts, {tokens[token_id]!r} and {data!r}")
                tokens[token_id] = data or None
        return vocabularies.Vocabulary(tokens, eos_token_ids=[self._eos_token_id])

    def __len__(self) -> int:
        """The number of ids, including the end token."""
        return sum(map(len, self._ids.values())) + 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and (self._eos_token_id, self._ids) == (other._eos_token_id, other._ids)

    def __deepcopy__(self, memo: dict[int, Any]) -> Vocabulary:
        out = Vocabulary(self._eos_token_id, {})
        out._ids = {data: list(ids) for data, ids in self._ids.items()}
        return out

    def __repr__(self) -> str:
        return f"Vocabulary(eos_token_id={self._eos_token_id}, {len(self)} ids)"

    def __reduce__(self) -> tuple[Any, ...]:
        ids = {data.hex(): numbers for data, numbers in self._ids.items()}
        return Vocabulary.from_binary, (json.dumps({"eos_token_id": self._eos_token_id, "tokens": ids}).encode(),)

    @staticmethod
    def from_binary(binary_data: bytes | list[int]) -> Vocabulary:
        """A vocabulary from JSON, as `pickle` stores it. ValueError: the data is not a vocabulary."""
        try:
            document = json.loads(bytes(binary_data))
            return Vocabulary(
                document["eos_token_id"], {bytes.fromhex(data): ids for data, ids in document["tokens"].items()}
            )
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise ValueError(f"Deserialization of Vocabulary failed: {error}") from None


def _download(model: str, revision: str | None, token: str | None) -> str:
    """The folder with the tokenizer of a model on the Hub."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ImportError(
            "reading a model from the hub needs huggingface_hub: pip install 'guided-decoding[hub]'"
        ) from None
    files = ["tokenizer.json", "tokenizer_config.json", "generation_config.json"]
    try:
        return str(snapshot_download(model, revision=revision, token=token, allow_patterns=files))
    except Exception as error:  # the Hub, its client and the network raise different classes
        raise ValueError(f"{model} cannot be downloaded: {str(error)[:300]}") from error


def _are_ids(ids: Sequence[object]) -> bool:
    return all(isinstance(id, int) and not isinstance(id, bool) and id >= 0 for id in ids)


def _token_bytes(token: object) -> bytes:
    if not isinstance(token, str | bytes):
        raise TypeError(f"Expected a token of type str or bytes, got {type(token).__name__!r}")
    return token.encode() if isinstance(token, str) else token
