"""The parts of SGLang 0.5.23 that guided uses, with the same names and signatures, if SGLang is not installed.

If SGLang is installed, `test_integration_sglang.py` compares the signatures with those of SGLang.
"""

from __future__ import annotations

import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

__all__ = ["PLACES", "install"]

GRAMMAR_BACKEND_REGISTRY: dict[str, Any] = {}
GRAMMAR_BACKEND_CHOICES = ["xgrammar", "outlines", "llguidance", "none"]
add_grammar_backend_choices = GRAMMAR_BACKEND_CHOICES.extend
__version__ = "0.5.23"


@dataclass
class GrammarStats:
    compilation_time: float | None = None
    schema_count: int | None = None
    ebnf_size: int | None = None
    is_cache_hit: bool = False
    is_grammar_aborted: bool = False
    tree_traversal_time: list[float] = field(default_factory=list)
    dispatch_type: str | None = None
    num_timeout: int = 0


class GrammarRow(NamedTuple):
    row: int
    grammar: Any


class BaseGrammarObject:
    def __init__(self):
        self._finished = False
        self.grammar_stats = None
        self.current_token = None

    def maybe_init_reasoning(self, reasoning):
        pass

    def accept_token(self, token):
        raise NotImplementedError()

    def rollback(self, k):
        raise NotImplementedError()

    def is_terminated(self):
        return False

    def allocate_vocab_mask(self, vocab_size, batch_size, device):
        raise NotImplementedError()

    def fill_vocab_mask(self, vocab_mask, idx):
        raise NotImplementedError()

    @staticmethod
    def fill_vocab_mask_batched(entries, vocab_mask):
        for entry in entries:
            entry.grammar.fill_vocab_mask(vocab_mask, entry.row)

    @staticmethod
    def reset_vocab_mask(vocab_mask):
        raise NotImplementedError()

    @staticmethod
    def move_vocab_mask(vocab_mask, device):
        raise NotImplementedError()

    @staticmethod
    def apply_vocab_mask(logits, vocab_mask):
        raise NotImplementedError()

    def copy(self):
        return self

    @property
    def finished(self):
        return self._finished

    @finished.setter
    def finished(self, finished):
        self._finished = finished


class InvalidGrammarObject(BaseGrammarObject):
    def __init__(self, error_message="Unknown grammar error"):
        super().__init__()
        self.error_message = error_message


class BaseGrammarBackend:
    _enable_strict_thinking = False

    def __init__(self):
        self.executor = ThreadPoolExecutor()
        self.cache = {}

    @property
    def enable_strict_thinking(self):
        return self._enable_strict_thinking

    @property
    def is_support_token_filter(self):
        return False

    def set_token_filter(self, vocab_mask, token_ids, batch_idx, is_allowed=True, reset_vocab_mask=True):
        pass

    def dispatch_json(self, key_string):
        return InvalidGrammarObject()

    def dispatch_regex(self, key_string):
        return InvalidGrammarObject()

    def dispatch_ebnf(self, key_string):
        return InvalidGrammarObject()

    def dispatch_structural_tag(self, key_string):
        return InvalidGrammarObject()

    def _init_value_dispatch(self, key, require_reasoning):
        kind = {"full_assistant_ebnf": "ebnf"}.get(key[0], key[0])
        return getattr(self, f"dispatch_{kind}")(key[1])

    def get_cached_or_future_value(self, key, require_reasoning) -> tuple[Any | Future, bool]:
        if value := self.cache.get(key):
            copied = value.copy()
            copied.maybe_init_reasoning(require_reasoning)
            return copied, True
        return self.executor.submit(self._init_value_dispatch, key, require_reasoning), False

    def set_cache(self, key, value):
        self.cache[key] = value

    def reset(self):
        self.cache.clear()


class ReasonerGrammarObject(BaseGrammarObject):
    """Before the end marker, which is a single token, everything is allowed."""

    def __init__(
        self, grammar, think_end_ids, think_excluded_token_ids=None, max_think_tokens=-1, enable_token_filter=False,
        token_filter_fn=None, allocate_vocab_mask_fn=None, move_vocab_mask_fn=None, apply_vocab_mask_fn=None,
        think_starts=(), decode=None,
    ):  # fmt: skip
        super().__init__()
        self.grammar, self.think_end_id = grammar, think_end_ids[0]
        self.written: list[int] = []
        self.reasons = False

    def maybe_init_reasoning(self, reasoning):
        self.reasons = reasoning

    def _after(self):
        if not self.reasons:
            return len(self.written)
        return len(self.written) - self.written.index(self.think_end_id) - 1 if self._open() else 0

    def _open(self):
        return not self.reasons or self.think_end_id in self.written

    def accept_token(self, token):
        self.current_token = token
        if self._open():
            self.grammar.accept_token(token)
        self.written.append(token)

    def rollback(self, k):
        if taken := min(k, self._after()):
            self.grammar.rollback(taken)
        del self.written[len(self.written) - k :]

    def is_terminated(self):
        return self._open() and self.grammar.is_terminated()

    def fill_vocab_mask(self, vocab_mask, idx):
        if self._open():
            self.grammar.fill_vocab_mask(vocab_mask, idx)

    def allocate_vocab_mask(self, vocab_size, batch_size, device):
        return self.grammar.allocate_vocab_mask(vocab_size, batch_size, device)

    def copy(self):
        again = ReasonerGrammarObject(self.grammar.copy(), [self.think_end_id])
        again.written, again.reasons = list(self.written), self.reasons
        return again


class ReasonerGrammarBackend(BaseGrammarBackend):
    def __init__(self, grammar_backend, reasoning_parser, tokenizer, enable_strict_thinking=False):
        super().__init__()
        self.grammar_backend = grammar_backend
        self.think_end_ids = reasoning_parser.detector.get_think_end_token_ids(tokenizer)
        self._enable_strict_thinking = enable_strict_thinking

    def _init_value_dispatch(self, key, reasoning):
        grammar = self.grammar_backend._init_value_dispatch(key, reasoning)
        if isinstance(grammar, InvalidGrammarObject):
            return grammar
        gated = ReasonerGrammarObject(grammar, self.think_end_ids)
        gated.maybe_init_reasoning(reasoning)
        return gated


class ReasoningParser:
    def __init__(
        self, model_type=None, stream_reasoning=True, force_reasoning=None, request=None, tokenizer=None,
        tool_call_parser_active=False, prefix=None,
    ):  # fmt: skip
        frame = object() if model_type == "inkling" else None
        self.detector = SimpleNamespace(
            get_think_end_token_ids=lambda tokenizer: tokenizer.encode("</think>", add_special_tokens=False),
            get_answer_frame=lambda: frame,
        )


def register_grammar_backend(name, init_func):
    GRAMMAR_BACKEND_REGISTRY[name] = init_func


def get_serving():
    raise ValueError("config namespace 'serving' not published")


PLACES = {
    "sglang": ("__version__",),
    "sglang.srt": (),
    "sglang.srt.constrained": (),
    "sglang.srt.constrained.base_grammar_backend": (
        *("GRAMMAR_BACKEND_REGISTRY", "GrammarStats", "GrammarRow", "BaseGrammarObject", "InvalidGrammarObject"),
        *("BaseGrammarBackend", "register_grammar_backend"),
    ),
    "sglang.srt.constrained.reasoner_grammar_backend": ("ReasonerGrammarBackend", "ReasonerGrammarObject"),
    "sglang.srt.parser": (),
    "sglang.srt.parser.reasoning_parser": ("ReasoningParser",),
    "sglang.srt.runtime_context": ("get_serving",),
    "sglang.srt.arg_groups": (),
    "sglang.srt.arg_groups.choices": ("GRAMMAR_BACKEND_CHOICES", "add_grammar_backend_choices"),
}
"""Module -> its names."""


def install() -> None:
    """Make the modules importable."""
    own = sys.modules[__name__]
    for place, names in PLACES.items():
        module = ModuleType(place)
        module.__spec__ = ModuleSpec(place, None)
        module.__dict__.update({name: getattr(own, name) for name in names}, __path__=[])
        sys.modules[place] = module
    for place in PLACES:
        parent, _, name = place.rpartition(".")
        if parent:
            setattr(sys.modules[parent], name, sys.modules[place])
