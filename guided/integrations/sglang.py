"""Constraints in SGLang: its option `--grammar-backend guided`.

    pip install 'guided-decoding[sglang]'
    python -m sglang.launch_server --model-path ... --grammar-backend guided

In: what SGLang passes at startup (its arguments, the tokenizer, the size of the vocabulary, the end tokens). Out: a
grammar backend (sglang_backend.py), for `json_schema`, `regex`, `ebnf` and `structural_tag` of requests, and for their
equivalents in OpenAI's API. SGLang finds `register` through an entry point of this package. `register` only adds a name
to SGLang's list of backends, so servers that use another backend are not affected.

| feature | behavior |
|---|---|
| invalid or unsupported specification | the request is answered with status 400 and guided's message |
| reasoning (`--reasoning-parser`) | SGLang's own gate wraps guided's grammar: the constraint begins after reasoning |
| `--constrained-json-...` | whitespace: any, none, at most n characters in a gap, or a regular expression |
| EBNF | GBNF or xgrammar's EBNF if the text contains `::=` and no Lark rule, otherwise Lark's notation |

SGLang is not imported before it calls guided. When a server starts, guided compares SGLang's interface with the
expected interface: a difference is an error at startup, not a wrong answer later.

Models whose reasoning parser wraps whole turns (Inkling) are not supported, and are refused at startup. SGLang itself
refuses a specification that contains the character U+0000.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from importlib import import_module
from inspect import signature
from types import MappingProxyType
from typing import Any, Final

from guided.errors import GuidedError
from guided.integrations.lru_cache import LruCache
from guided.matching.compiler import GrammarCompiler
from guided.vocabulary import Vocabulary

__all__ = ["EXPECTED", "NAME", "TESTED_VERSIONS", "create_backend", "register"]

NAME: Final = "guided"
"""The name of the backend."""

TESTED_VERSIONS: Final = ("0.5.23",)
"""The versions of SGLang with which guided was tested."""

_BASE_MODULE: Final = "sglang.srt.constrained.base_grammar_backend"
_REASONER_MODULE: Final = "sglang.srt.constrained.reasoner_grammar_backend"

EXPECTED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        f"{_BASE_MODULE}:BaseGrammarBackend.__init__": ("self",),
        f"{_BASE_MODULE}:BaseGrammarBackend.dispatch_json": ("self", "key_string"),
        f"{_BASE_MODULE}:BaseGrammarBackend.dispatch_regex": ("self", "key_string"),
        f"{_BASE_MODULE}:BaseGrammarBackend.dispatch_ebnf": ("self", "key_string"),
        f"{_BASE_MODULE}:BaseGrammarBackend.dispatch_structural_tag": ("self", "key_string"),
        f"{_BASE_MODULE}:BaseGrammarBackend.get_cached_or_future_value": ("self", "key", "require_reasoning"),
        f"{_BASE_MODULE}:BaseGrammarBackend.set_cache": ("self", "key", "value"),
        f"{_BASE_MODULE}:BaseGrammarBackend.reset": ("self",),
        f"{_BASE_MODULE}:BaseGrammarBackend.set_token_filter": (
            *("self", "vocab_mask", "token_ids", "batch_idx", "is_allowed", "reset_vocab_mask"),
        ),
        f"{_BASE_MODULE}:BaseGrammarObject.__init__": ("self",),
        f"{_BASE_MODULE}:BaseGrammarObject.accept_token": ("self", "token"),
        f"{_BASE_MODULE}:BaseGrammarObject.rollback": ("self", "k"),
        f"{_BASE_MODULE}:BaseGrammarObject.is_terminated": ("self",),
        f"{_BASE_MODULE}:BaseGrammarObject.allocate_vocab_mask": ("self", "vocab_size", "batch_size", "device"),
        f"{_BASE_MODULE}:BaseGrammarObject.fill_vocab_mask": ("self", "vocab_mask", "idx"),
        f"{_BASE_MODULE}:BaseGrammarObject.fill_vocab_mask_batched": ("entries", "vocab_mask"),
        f"{_BASE_MODULE}:BaseGrammarObject.reset_vocab_mask": ("vocab_mask",),
        f"{_BASE_MODULE}:BaseGrammarObject.move_vocab_mask": ("vocab_mask", "device"),
        f"{_BASE_MODULE}:BaseGrammarObject.apply_vocab_mask": ("logits", "vocab_mask"),
        f"{_BASE_MODULE}:BaseGrammarObject.copy": ("self",),
        f"{_BASE_MODULE}:GrammarRow": ("row", "grammar"),
        f"{_BASE_MODULE}:InvalidGrammarObject": ("error_message",),
        f"{_BASE_MODULE}:register_grammar_backend": ("name", "init_func"),
        f"{_REASONER_MODULE}:ReasonerGrammarBackend": (
            *("grammar_backend", "reasoning_parser", "tokenizer", "enable_strict_thinking"),
        ),
        "sglang.srt.parser.reasoning_parser:ReasoningParser": ("model_type", "stream_reasoning", "tokenizer"),
        "sglang.srt.runtime_context:get_serving": (),
    }
)
"""The objects that guided relies on: module and name -> parameters. guided overrides most of the methods, so the
parameters of methods must be exactly these. A class or a function may have more parameters."""

_log = logging.getLogger(__name__)


def register() -> None:
    """Add the backend's name to SGLang's list. SGLang calls this through a plug-in entry point."""
    from sglang.srt.arg_groups.choices import GRAMMAR_BACKEND_CHOICES, add_grammar_backend_choices
    from sglang.srt.constrained.base_grammar_backend import register_grammar_backend

    register_grammar_backend(NAME, create_backend)
    if NAME not in GRAMMAR_BACKEND_CHOICES:
        add_grammar_backend_choices([NAME])


def create_backend(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Collection[int] | None) -> Any:
    """Create the backend of a server, a `BaseGrammarBackend`. SGLang's registry calls this.

    Args:
        server_args: ignored; SGLang's resolved configuration is used instead.
        tokenizer: a transformers tokenizer.
        vocab_size: the number of logits.
        eos_token_ids: the model's end tokens. The tokenizer's end token is added.

    Raises:
        GuidedError: this SGLang has a different interface, or its options contradict each other or are not supported.
        VocabularyError: the tokenizer cannot be read.
    """
    _check_interface()
    from sglang.srt.runtime_context import get_serving

    from guided.integrations.sglang_backend import CACHE_SIZE, GuidedBackend

    serving = get_serving()
    end_ids = set(eos_token_ids or ())
    if (tokenizer_end_id := getattr(tokenizer, "eos_token_id", None)) is not None:
        end_ids.add(tokenizer_end_id)
    vocabulary = Vocabulary.from_huggingface(tokenizer, eos_token_ids=end_ids or None, size=vocab_size)
    backend: Any = GuidedBackend(GrammarCompiler(vocabulary), _find_whitespace_option(serving))
    if serving.reasoning_parser:
        backend = _add_reasoning_gate(backend, serving, tokenizer)
    backend.cache = LruCache(CACHE_SIZE)
    return backend


def _add_reasoning_gate(backend: Any, serving: Any, tokenizer: Any) -> Any:
    """Wrap the backend in SGLang's gate for reasoning, which SGLang's registry adds only to its own backends.

    As in SGLang, there is no gate if the tokenizer cannot encode the end marker of reasoning; SGLang warns of this.
    """
    from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    parser = ReasoningParser(model_type=serving.reasoning_parser, stream_reasoning=False, tokenizer=tokenizer)
    if not parser.detector.get_think_end_token_ids(tokenizer):
        return backend
    if parser.detector.get_answer_frame() is not None:
        raise GuidedError(
            f"the reasoning parser {serving.reasoning_parser!r} wraps whole turns, which guided does not support: "
            "use --grammar-backend xgrammar with this model"
        )
    return ReasonerGrammarBackend(
        backend, parser, tokenizer, enable_strict_thinking=bool(serving.enable_strict_thinking)
    )


def _find_whitespace_option(serving: Any) -> str:
    """Derive guided's option `whitespace` from the server's options."""
    pattern = serving.constrained_json_whitespace_pattern
    is_disabled = serving.constrained_json_disable_any_whitespace
    max_whitespace = serving.constrained_json_max_whitespace_cnt
    if sum((pattern is not None, bool(is_disabled), max_whitespace is not None)) > 1:
        raise GuidedError(
            "--constrained-json-whitespace-pattern, --constrained-json-disable-any-whitespace and "
            "--constrained-json-max-whitespace-cnt exclude each other: give only one"
        )
    if pattern is not None:
        return str(pattern)
    if max_whitespace is not None:
        return f"[ \\t\\n\\r]{{0,{int(max_whitespace)}}}"
    return "compact" if is_disabled else "json"


def _check_interface() -> None:
    """Compare SGLang with `EXPECTED`.

    Raises:
        GuidedError: something that guided relies on is missing or has different parameters.
    """
    import sglang

    version = getattr(sglang, "__version__", "of an unknown version")
    if differences := [name for name, parameters in EXPECTED.items() if not _has_parameters(name, parameters)]:
        raise GuidedError(
            f"the interface of SGLang {version} differs from SGLang {', '.join(TESTED_VERSIONS)}, which guided "
            f"supports: {', '.join(differences)}. Install a supported version, or use another --grammar-backend"
        )
    if version not in TESTED_VERSIONS:
        _log.warning("guided was tested with SGLang %s, not with %s", ", ".join(TESTED_VERSIONS), version)


def _has_parameters(full_name: str, parameters: tuple[str, ...]) -> bool:
    """Whether the named object exists and has these parameters."""
    module, _, path = full_name.partition(":")
    try:
        value: Any = import_module(module)
        for name in path.split("."):
            value = getattr(value, name)
        actual_parameters = tuple(signature(value).parameters)
    except (ImportError, AttributeError, ValueError):
        return False
    return actual_parameters == parameters if "." in path else set(parameters) <= set(actual_parameters)
