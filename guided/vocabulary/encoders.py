"""Converts text to token ids with the packages that define the result: tokenizers, tiktoken and sentencepiece.

In: the contents of a tokenizer file (JSON, merge rules, ranks, a SentencePiece model) and a text. Out: token ids. A
model was trained on the ids of one of these packages, so the package itself encodes. It is imported when text is first
encoded. This module adds what constrained decoding needs:

- names of special tokens in a text stay text (chat templates need the opposite, see `make_huggingface_encoder`)
- a text that continues other text (`continued`) gets no leading space, and loses none
- the unknown token never occurs: if no tokens spell a text, an error names the first character that cannot be encoded
- a file that makes a package fail, or panic in Rust, raises a VocabularyError
- other threads continue while a long text is encoded: `tokenizers` holds the GIL in `encode`, for 17 s with 4 MB, and
  releases it in `encode_batch_fast`, which returns the same ids (tiktoken and sentencepiece always release it)

Cost: 0.1 s to build an encoder for 50,000 tokens, once for each vocabulary; about 2 microseconds per encoded token.
Not supported: batches, offsets, truncation, padding, begin and end tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from guided.errors import VocabularyError, brief
from guided.vocabulary.source import Encoder
from guided.vocabulary.spelling import hex_bytes
from guided.vocabulary.text_growth import compute_growth

__all__ = [
    "make_byte_level_encoder",
    "make_huggingface_encoder",
    "make_ranks_encoder",
    "make_sentencepiece_encoder",
    "parse_merges",
]

Encode = Callable[[str], Sequence[int]]

# If the unknown token has the name of a nonexistent token, `tokenizers` fails instead of returning an unknown token.
_NO_TOKEN = "\0 no token \0"
_UNKNOWN_ID = -1
_MAX_NESTING = 8
_MAX_NORMALIZED = 1 << 28  # characters of a text after the tokenizer's steps
_LONG_TEXT = 4096  # characters: shorter texts take only milliseconds, and a batch costs more than it saves


class _PackageEncoder:
    """An encoder based on a package's function.

    Args:
        encode: text -> ids.
        make_encode_continued: creates the function for text that continues other text; called at most once. None: use
            `encode`.
        ids: the ids of the vocabulary; any other id, including `_UNKNOWN_ID`, means that no tokens spell the text.
        unknown_id: the id of the unknown token, if the package may return it.
    """

    def __init__(
        self,
        encode: Encode,
        make_encode_continued: Callable[[], Encode] | None = None,
        *,
        ids: range,
        unknown_id: int | None = None,
    ) -> None:
        self._encode, self._make_encode_continued, self._ids, self._unknown_id = (
            encode,
            make_encode_continued,
            ids,
            unknown_id,
        )
        self._encode_continued = None if make_encode_continued else encode

    def encode(self, text: str, continued: bool = False) -> list[int]:
        """The ids of `text`."""
        encode = self._encode
        if continued:
            if self._encode_continued is None:
                assert self._make_encode_continued is not None
                self._encode_continued = self._make_encode_continued()
            encode = self._encode_continued
        ids = self._encode_or_none(encode, text)
        if ids is None:
            raise VocabularyError(f"no token of this vocabulary spells {self._describe_unspelled(encode, text)}")
        return ids

    def _encode_or_none(self, encode: Encode, text: str) -> list[int] | None:
        """The ids, or None if they include an unknown token."""
        with _convert_package_errors("this text cannot be encoded"):
            ids = list(encode(text))
        is_encodable = all(number in self._ids for number in set(ids)) and self._unknown_id not in ids
        return ids if is_encodable else None

    def _describe_unspelled(self, encode: Encode, text: str) -> str:
        """Describe the first character that cannot be encoded, and its word, for the error message."""
        words = text.split()
        word = words[self._find_first_failing(encode, words, " ")] if words else ""
        for source, suffix in ((word, f" of {word[:40]!r}"), (text, "")):
            char = source[self._find_first_failing(encode, source, "")] if source else ""
            if char and self._encode_or_none(encode, char) is None:
                return f"{char!r} ({hex_bytes(char.encode('utf-8'))}){suffix}"
        return brief(text, 80)

    def _find_first_failing(self, encode: Encode, parts: Sequence[str], separator: str) -> int:
        """The index of the first part that cannot be encoded, if some part fails by itself.

        The binary search takes about as long as encoding the text once more.
        """
        begin, end = 0, len(parts)
        while end - begin > 1:
            middle = (begin + end) // 2
            if self._encode_or_none(encode, separator.join(parts[begin:middle])) is None:
                end = middle
            else:
                begin = middle
        return begin


@contextmanager
def _convert_package_errors(description: str) -> Iterator[None]:
    """Convert a package's errors to VocabularyError, including Rust panics, which are not subclasses of `Exception`."""
    try:
        yield
    except VocabularyError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise VocabularyError(f"{description}: {type(error).__name__} {str(error)[:200]}") from None


def _import_package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise VocabularyError(
            f"encoding text with this tokenizer needs the package {name}: pip install 'guided-decoding[tokenizers]'"
        ) from None


# --- tokenizers


def make_huggingface_encoder(data: Mapping[str, Any], *, special: bool = False) -> Encoder:
    """The encoder of a tokenizer.json.

    Args:
        data: the parsed file.
        special: whether names of special tokens in the text become those tokens.

    Raises:
        VocabularyError: the package cannot read the file or gives an added token another id, or encoding is random.
    """
    if data["model"].get("dropout"):
        raise VocabularyError("text cannot be encoded exactly as this tokenizer does: its merges are dropped at random")
    ids = [*_list_model_ids(data["model"]), *(entry["id"] for entry in data.get("added_tokens") or [])]
    strict_data = _disable_unknown(data)
    encode = _make_json_encode(strict_data, special)
    steps_without_prefix = _remove_prefix(strict_data)
    make_encode_continued = (
        None
        if steps_without_prefix == _get_steps(strict_data)
        else lambda: _make_json_encode(strict_data | steps_without_prefix, special)
    )
    unknown_id = strict_data["model"].get("unk_id")
    return _PackageEncoder(encode, make_encode_continued, ids=range(max(ids, default=-1) + 1), unknown_id=unknown_id)


def _list_model_ids(model: Mapping[str, Any]) -> Sequence[int]:
    vocab = model["vocab"]
    return list(vocab.values()) if isinstance(vocab, dict) else range(len(vocab))


def _disable_unknown(data: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the file that makes a BPE model fail where it would return its unknown token or skip text."""
    model = data["model"]
    if isinstance(model["vocab"], dict):
        model = model | {"unk_token": _NO_TOKEN, "merges": parse_merges(model["vocab"], model["merges"])}
    return {**data, "model": model, "truncation": None, "padding": None, "post_processor": None}


def _make_json_encode(data: Mapping[str, Any], special: bool) -> Encode:
    tokenizers, growth = _import_package("tokenizers"), compute_growth(data)
    with _convert_package_errors("the package tokenizers cannot read this tokenizer"):
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(data))
        tokenizer.encode_special_tokens = not special
        for entry in data.get("added_tokens") or []:
            actual_id = tokenizer.token_to_id(entry["content"])
            if actual_id != entry["id"]:
                raise VocabularyError(
                    f"the added token {brief(entry['content'], 60)} has the id {entry['id']}, but tokenizers gives "
                    f"it {actual_id}"
                )
    return _make_encode(tokenizer, growth)


def _make_encode(tokenizer: Any, growth: int = 1) -> Encode:
    """A function from text to ids. Returns `[_UNKNOWN_ID]` if the tokenizer fails because it has no unknown token.

    `growth`: how many characters the tokenizer's steps may make of one.
    """

    def encode(text: str) -> Sequence[int]:
        if len(text) * growth > _MAX_NORMALIZED:
            message = (
                f"the tokenizer's steps may make this text {growth:,} times longer, to more than {_MAX_NORMALIZED:,}"
            )
            raise VocabularyError(f"{message} characters")
        try:
            if len(text) < _LONG_TEXT:
                ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
            else:
                ids = tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
        except Exception as error:  # the package raises only `Exception`
            if _NO_TOKEN in str(error) or "unk_id" in str(error):
                return [_UNKNOWN_ID]
            raise
        return ids

    return encode


def _get_steps(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"normalizer": data.get("normalizer"), "pre_tokenizer": data.get("pre_tokenizer")}


def _remove_prefix(data: Mapping[str, Any]) -> dict[str, Any]:
    """The normalizer and pre-tokenizer without the steps that add a leading space to a text."""
    return {name: _remove_step_prefix(step, 0) for name, step in _get_steps(data).items()}


def _remove_step_prefix(step: Any, depth: int) -> Any:
    if not isinstance(step, dict):
        return step
    if depth > _MAX_NESTING:
        raise VocabularyError(f"the steps of this tokenizer nest deeper than {_MAX_NESTING}")
    if step["type"] == "Sequence":
        name = "normalizers" if "normalizers" in step else "pretokenizers"
        inner_steps = [_remove_step_prefix(inner_step, depth + 1) for inner_step in step[name]]
        return step | {name: [inner_step for inner_step in inner_steps if inner_step is not None]}
    if step["type"] == "Prepend":
        return None
    changes = {"add_prefix_space": False, "prepend_scheme": "never"}
    return step | {name: value for name, value in changes.items() if name in step}


def parse_merges(vocab: Mapping[str, int], merges: Sequence[Any]) -> list[tuple[str, str]]:
    """Merge rules, "left right" or [left, right], as pairs.

    Raises:
        VocabularyError: a rule does not have two sides, or a side or the merged string is not a token.
    """
    pairs: list[tuple[str, str]] = []
    for rank, merge in enumerate(merges):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if len(pair) != 2 or not all(isinstance(side, str) and side for side in pair):
            raise VocabularyError(f"merge rule {rank} is {str(merge)[:80]!r}: two symbols are needed")
        left, right = pair
        if left not in vocab or right not in vocab or left + right not in vocab:
            missing_name = next(name for name in (left, right, left + right) if name not in vocab)
            raise VocabularyError(f"merge rule {rank} needs the token {brief(missing_name, 60)}, which does not exist")
        pairs.append((left, right))
    return pairs


def make_byte_level_encoder(
    vocab: Mapping[str, int],
    merges: Sequence[Any],
    *,
    patterns: Sequence[str],
    ignores_merges: bool,
    added_tokens: Mapping[str, int],
    prefix_space: bool,
) -> Encoder:
    """A byte-level BPE tokenizer from its parts, as in GGUF files.

    Args:
        vocab: token in GPT-2's byte alphabet -> id.
        merges: the merge rules, highest priority first.
        patterns: the pre-tokenizer's patterns; each splits the chunks of the previous one.
        ignores_merges: a chunk that is a token becomes this token, regardless of the merges ("ignore_merges").
        added_tokens: string -> id of the tokens that are matched before the text is split.
        prefix_space: whether to add a space before text that does not start with one.

    Raises:
        VocabularyError: a merge rule is malformed or names no token.
    """
    tokenizers = _import_package("tokenizers")
    splitters = tokenizers.pre_tokenizers
    pairs = parse_merges(vocab, merges)
    names = dict(vocab) | dict(added_tokens)
    with _convert_package_errors("the package tokenizers cannot read this tokenizer"):
        tokenizer = tokenizers.Tokenizer(
            tokenizers.models.BPE(names, pairs, unk_token=_NO_TOKEN, ignore_merges=ignores_merges)
        )
        splits = [splitters.Split(tokenizers.Regex(pattern), "isolated") for pattern in patterns]
        tokenizer.pre_tokenizer = splitters.Sequence(
            [*splits, splitters.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
        tokenizer.add_tokens([tokenizers.AddedToken(name, normalized=False) for name in added_tokens])

    encode = _make_encode(tokenizer)

    def encode_with_space(text: str) -> Sequence[int]:
        return encode(text if text.startswith(" ") or not text else " " + text)

    ids = range(max(names.values(), default=-1) + 1)
    return _PackageEncoder(encode_with_space if prefix_space else encode, lambda: encode, ids=ids)


# --- tiktoken


def make_ranks_encoder(ranks: Mapping[bytes, int], pattern: str | None, *, offset: int = 0) -> Encoder:
    """A byte-level BPE tokenizer whose merges follow from the ranks of its tokens.

    Args:
        ranks: token -> rank; all ranks differ.
        pattern: the pre-tokenizer's pattern; None: the text is not split before merging.
        offset: a token's id is its rank plus this offset.

    Raises:
        VocabularyError: tiktoken cannot read the pattern.
    """
    tiktoken = _import_package("tiktoken")
    with _convert_package_errors("the package tiktoken cannot read this tokenizer"):
        encoding = tiktoken.Encoding(
            "of a file", pat_str=pattern or r"[\s\S]+", mergeable_ranks=dict(ranks), special_tokens={}
        )
    single_bytes = frozenset(token[0] for token in ranks if len(token) == 1)

    def encode(text: str) -> list[int]:
        # tiktoken panics on a byte that is not a token.
        if len(single_bytes) < 256 and not single_bytes.issuperset(text.encode("utf-8")):
            return [_UNKNOWN_ID]
        return [number + offset for number in encoding.encode_ordinary(text)]

    return _PackageEncoder(encode, ids=range(offset, offset + max(ranks.values(), default=-1) + 1))


# --- sentencepiece


def make_sentencepiece_encoder(model: bytes, size: int) -> Encoder:
    """The encoder of a SentencePiece model.

    Args:
        model: the bytes of a .model file, a serialised `ModelProto`.
        size: the number of pieces to use; ids from `size` on mean unknown text.

    Raises:
        VocabularyError: the package cannot read the model.
    """
    package = _import_package("sentencepiece")

    def load(proto: bytes) -> Any:
        with _convert_package_errors("the package sentencepiece cannot read this model"):
            return package.SentencePieceProcessor(model_proto=proto)

    processor = load(model)
    # Protocol buffers merge appended fields: a normalizer_spec (field 3) without add_dummy_prefix (3) and without
    # remove_extra_whitespaces (4).
    appended_fields = b"\x1a\x04\x18\x00\x20\x00"
    return _PackageEncoder(
        processor.encode, lambda: load(model + appended_fields).encode, ids=range(size), unknown_id=processor.unk_id()
    )
