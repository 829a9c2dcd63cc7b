"""Reads tekken.json, Mistral's tokenizer files.

In: JSON with `config` (pattern, sizes), `vocab` (rank and base64 bytes of each token) and `special_tokens`. Out: a
`Source`. The special tokens come first: a token's id is its rank plus their number. Only the tokens that fit into
`default_vocab_size` are used (131,072 of the 150,000 listed). Encoding is BPE by ranks. Source: mistral-common,
tokens/tokenizers/tekken.py. Versions up to v7 may omit the special tokens, whose names are then fixed.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from os import PathLike
from typing import Any, Final

from guided.errors import VocabularyError, brief
from guided.files.json_file import read_json
from guided.vocabulary.byte_pairs import build_pairs_from_ranks
from guided.vocabulary.encoders import make_ranks_encoder
from guided.vocabulary.source import MAX_SIZE, Source

__all__ = ["read_tekken"]

_KNOWN_NAMES: Final = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]"),
    *("[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]"),
    *("[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"),
)
_VERSIONS_WITHOUT_NAMES: Final = frozenset({"v1", "v2", "v3", "v7"})


def read_tekken(path: str | PathLike[str]) -> Source:
    """The vocabulary of a tekken.json.

    Raises:
        VocabularyError: the file is not in this format, or is inconsistent.
    """
    data = read_json(path)
    try:
        return _read_source(data)
    except (KeyError, TypeError, AttributeError) as error:
        raise VocabularyError(f"{path}: not a tekken file: {type(error).__name__} {str(error)[:100]}") from None
    except (ValueError, VocabularyError, Base64Error) as error:
        raise VocabularyError(f"{path}: not a valid tekken file: {str(error)[:300]}") from None


def _read_source(data: dict[str, Any]) -> Source:
    config, vocab = data["config"], data["vocab"]
    size, special_count, pattern = config["default_vocab_size"], config["default_num_special_tokens"], config["pattern"]
    if type(size) is not int or type(special_count) is not int or not 0 <= special_count <= size <= MAX_SIZE:
        raise ValueError(f"the sizes {size!r} and {special_count!r} are not valid")
    if size - special_count > len(vocab) or special_count > len(vocab) + 65_536:
        raise ValueError(
            f"it declares {size - special_count} tokens and {special_count} special ones, but lists {len(vocab)} tokens"
        )
    ranks: dict[bytes, int] = {}
    for entry in vocab:
        rank = entry["rank"]
        if type(rank) is not int or rank < 0:
            raise ValueError(f"invalid rank {rank!r}")
        if rank < size - special_count:
            ranks[a2b_base64(entry["token_bytes"], strict_mode=True)] = rank
    tokens: list[bytes | None] = [None] * size
    for token, rank in ranks.items():
        tokens[rank + special_count] = token
    if None in tokens[special_count:] or len(ranks) != size - special_count:
        raise ValueError("two tokens have the same rank or the same bytes, or a rank is missing")
    names = _read_names(data, config, special_count)
    if not isinstance(pattern, str):
        raise ValueError(f"invalid pattern {brief(pattern)}")
    end_ids = {number for number, name in names.items() if name == "</s>"}
    return Source(
        tokens,
        end_ids,
        names,
        lambda: make_ranks_encoder(ranks, pattern, offset=special_count),
        byte_pairs=lambda: build_pairs_from_ranks(ranks, pattern, offset=special_count),
    )


def _read_names(data: dict[str, Any], config: dict[str, Any], special_count: int) -> dict[int, str]:
    """The names of the special tokens: the listed ones, and `<SPECIAL_n>` for all others."""
    names = {number: f"<SPECIAL_{number}>" for number in range(special_count)}
    entries = data.get("special_tokens")
    if entries is None:
        if config.get("version") not in _VERSIONS_WITHOUT_NAMES:
            raise ValueError(f"version {config.get('version')!r} must list its special tokens")
        entries = [{"rank": number, "token_str": name} for number, name in enumerate(_KNOWN_NAMES)]
    for entry in entries:
        number, name = entry["rank"], entry["token_str"]
        if number not in names or not isinstance(name, str):
            raise ValueError(
                f"the special token {brief(name)} has the rank {brief(number, 20)}, which is not below {special_count}"
            )
        names[number] = name
    return names
