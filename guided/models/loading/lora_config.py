"""Reads adapter_config.json of PEFT's LoRA adapters: which matrices are adapted, with which rank and scale.

In: the JSON. Out: `LoraConfig`, which looks up modules by transformers' names, such as model.layers.0.self_attn.q_proj.
Names are matched by the rules of PEFT 0.21 (tuners_utils.check_target_module_exists, other.get_pattern_key). The
patterns are untrusted regular expressions, so guided's own compiler reads them, with limits and in linear time. Keys
that are not read raise an error, unless they are known to have no effect on the results (config_reader.py).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from guided.errors import GuidedError, ModelFileError, brief
from guided.files.json_file import read_json
from guided.matching.compiler import GrammarCompiler
from guided.matching.matcher import GrammarMatcher
from guided.models.loading.config_reader import ConfigReader, size
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["CONFIG", "MERGE_HINT", "LoraConfig", "read_lora_config"]

CONFIG: Final = "adapter_config.json"
MERGE_HINT: Final = "merge it into its base model (peft: merge_and_unload), and load that"

NamePredicate: TypeAlias = Callable[[str], bool]

# Keys without effect on the results. They describe the adapter's origin, initialisation or training.
_IGNORED_KEYS: Final = {
    "auto_mapping", "base_model_name_or_path", "corda_config", "eva_config", "inference_mode", "loftq_config",
    "lora_dropout", "lora_ga_config", "megatron_core", "peft_version", "qalora_group_size", "revision",
    "runtime_config", "task_type",
}  # fmt: skip
_REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "alora_invocation_tokens": "adapters that are activated by a token (aLoRA) are not supported",
        "ensure_weight_tying": "adapters that the head shares with the embedding are not supported",
        "fan_in_fan_out": "this model's matrices are not stored transposed: the adapter belongs to another model",
        "kasa_config": "singular values between the two matrices (KaSA) are not supported",
        "layer_replication": "replicated layers are not supported",
        "lora_bias": "biases of an adapter are not supported",
        "modules_to_save": "modules that were fully trained with the adapter are not supported",
        "target_parameters": "only the matrices of modules can be adapted",
        "trainable_token_indices": "embeddings that were trained with the adapter are not supported",
        "use_bdlora": "block-diagonal adapters (BD-LoRA) are not supported",
        "use_dora": "separate magnitudes and directions (DoRA) are not supported",
        "use_qalora": "pooled adapters (QA-LoRA) are not supported",
    }
)
_SUPPORTED_INITS: Final = ("gaussian", "eva", "orthogonal", "mica")  # other initialisations change the base weights


@dataclass(frozen=True, slots=True)
class LoraConfig:
    """The modules that an adapter changes.

    Attributes:
        location: the path of the file.
        targets: a function that returns whether a module is adapted.
    """

    location: str
    targets: NamePredicate
    _default_rank: int
    _default_alpha: float
    _rslora: bool
    _ranks_by_pattern: tuple[tuple[NamePredicate, int], ...]
    _alphas_by_pattern: tuple[tuple[NamePredicate, float], ...]

    def rank(self, module: str) -> int:
        """The rank: the number of rows of lora_A."""
        return next((rank for matches, rank in self._ranks_by_pattern if matches(module)), self._default_rank)

    def scale(self, module: str) -> float:
        """The factor by which the product of lora_B and lora_A is multiplied."""
        alpha = next((alpha for matches, alpha in self._alphas_by_pattern if matches(module)), self._default_alpha)
        rank = self.rank(module)
        return alpha / (math.sqrt(rank) if self._rslora else rank)


def read_lora_config(directory: str | os.PathLike[str]) -> LoraConfig:
    """Read the config in an adapter's directory.

    Raises:
        ModelFileError: the config is missing or invalid. UnsupportedError: it requires an unsupported feature.
    """
    path = Path(directory) / CONFIG
    if not path.is_file():
        raise ModelFileError(f"{directory}: there is no {CONFIG}: not a directory of a PEFT adapter")
    reader = ConfigReader(read_json(path), str(path), _IGNORED_KEYS)
    kind = reader.get("peft_type")
    if kind != "LORA":
        raise reader.unsupported(
            "peft_type", f"adapters of type {brief(kind, 100)} are not supported, only LORA", MERGE_HINT
        )
    bias = reader.get("bias", "none")
    if bias != "none":
        reason = f"biases that were trained with the adapter ({brief(bias, 100)}) are not supported"
        raise reader.unsupported("bias", reason, MERGE_HINT)
    init = reader.get("init_lora_weights", True)
    if not isinstance(init, bool) and init not in _SUPPORTED_INITS:
        reason = f"adapters initialised with {brief(init, 100)} need a modified base model"
        hint = f"save it with path_initial_model_for_weight_conversion, or {MERGE_HINT}"
        raise reader.unsupported("init_lora_weights", reason, hint)
    patterns = _Patterns(reader.location)
    config = LoraConfig(
        location=reader.location,
        targets=_make_target_predicate(reader, patterns),
        _default_rank=reader.size("r", 8),
        _default_alpha=_number(reader.get("lora_alpha", 8), "lora_alpha", reader.location),
        _rslora=reader.flag("use_rslora", False),
        _ranks_by_pattern=_read_by_pattern(reader, "rank_pattern", patterns, size),
        _alphas_by_pattern=_read_by_pattern(reader, "alpha_pattern", patterns, _number),
    )
    reader.finish(_REASONS, "the key {} of this adapter is not known", MERGE_HINT)
    return config


def _number(value: Any, key: str, location: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        raise ModelFileError(f"{location}: {key} is {brief(value, 100)}, but must be a number")
    return value


class _Patterns:
    """Regular expressions over module names, with the semantics of `re`."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._compiler = GrammarCompiler(Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256]))

    def match_whole(self, pattern: str, key: str) -> NamePredicate:
        """Make a predicate that is true for names that match as a whole."""
        try:
            matcher = GrammarMatcher(self._compiler.compile_regex(pattern))
        except GuidedError as error:
            reason = str(error).splitlines()[0]
            raise ModelFileError(f"{self._location}: a pattern of {key}, {brief(pattern, 200)}: {reason}") from None

        def matches(name: str) -> bool:
            matcher.reset()
            return matcher.accept_string(name) and matcher.is_accepting()

        return matches

    def match_end(self, pattern: str, key: str) -> NamePredicate:
        """Make a predicate that is true for names that match as a whole, or from the character after a dot on."""
        return self.match_whole(rf"(?:.*\.)?(?:{pattern})", key)


def _read_by_pattern(
    reader: ConfigReader, key: str, patterns: _Patterns, read: Callable[[Any, str, str], Any]
) -> tuple[tuple[NamePredicate, Any], ...]:
    """Read numbers for modules whose names match a pattern. The first matching pattern applies."""
    by_pattern = reader.get(key, {})
    if not isinstance(by_pattern, dict):
        raise ModelFileError(f"{reader.location}: {key} is {brief(by_pattern, 100)}, but must be an object")
    return tuple(
        (patterns.match_end(pattern, key), read(value, f"{key}[{brief(pattern, 100)}]", reader.location))
        for pattern, value in by_pattern.items()
    )


def _make_target_predicate(reader: ConfigReader, patterns: _Patterns) -> NamePredicate:
    """Make a predicate that is true for the adapted modules."""
    target_modules, exclude_modules = reader.get("target_modules"), reader.get("exclude_modules", [])
    in_layers = _make_layer_predicate(reader, is_list=not isinstance(target_modules, str))
    excludes = _make_name_predicate(reader, "exclude_modules", exclude_modules, patterns)
    if isinstance(target_modules, str) and target_modules.lower() == "all-linear":
        return lambda name: name not in ("lm_head", "model.embed_tokens") and not excludes(name)
    is_target = _make_name_predicate(reader, "target_modules", target_modules, patterns)
    full_names = frozenset(target_modules) if isinstance(target_modules, list) else frozenset()  # adapted in any layer
    return lambda name: not excludes(name) and is_target(name) and (name in full_names or in_layers(name))


def _make_name_predicate(reader: ConfigReader, key: str, names_or_pattern: Any, patterns: _Patterns) -> NamePredicate:
    """Make a predicate from a list or a pattern. It is true for names that equal a listed name or end with it after a
    dot, or for names that match the pattern as a whole."""
    if isinstance(names_or_pattern, str):
        return patterns.match_whole(names_or_pattern, key)
    if not isinstance(names_or_pattern, list) or not all(isinstance(name, str) for name in names_or_pattern):
        raise ModelFileError(
            f"{reader.location}: {key} is {brief(names_or_pattern, 200)}, but must be a list of names or a pattern"
        )
    names = frozenset(names_or_pattern)
    return lambda name: any(name[i:] in names for i in range(len(name)) if i == 0 or name[i - 1] == ".")


def _make_layer_predicate(reader: ConfigReader, *, is_list: bool) -> NamePredicate:
    """Make a predicate that is true in the layers of `layers_to_transform`, or everywhere if this key is missing.

    `is_list`: whether target_modules is a list of names, not a pattern.
    """
    layers, pattern = reader.get("layers_to_transform", []), reader.get("layers_pattern", [])
    numbers = layers if isinstance(layers, list) else [layers]
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
        raise ModelFileError(
            f"{reader.location}: layers_to_transform is {brief(layers, 100)}, but must be layer numbers"
        )
    if not numbers:
        return lambda name: True
    if not is_list:
        raise ModelFileError(f"{reader.location}: layers_to_transform cannot be used with a target_modules pattern")
    includes_layers = pattern == "layers" or (isinstance(pattern, list) and "layers" in pattern)
    if pattern and not includes_layers:
        raise reader.unsupported(
            "layers_pattern", f"layers_pattern must be 'layers', not {brief(pattern, 100)}", MERGE_HINT
        )
    layer_names = {f"model.layers.{number}" for number in numbers}
    return lambda name: ".".join(name.split(".")[:3]) in layer_names
