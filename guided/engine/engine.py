"""`Engine`: a model, its vocabulary, and `generate` and `stream` under a constraint.

In: a prompt (text, messages, or token ids), a constraint (or none), numbers of sampling. Out: `Result`, `StreamEvent`.
One sequence at a time; calls from several threads do not share anything that changes. It does not batch.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, cast, overload

import torch

from guided.engine.chat import ChatMl, Message
from guided.engine.constraint import Constraint, compile_constraint, value_parser
from guided.engine.decoder import Decoder
from guided.engine.hub import find_model
from guided.engine.result import Result, StreamEvent
from guided.engine.runner import ModelRunner
from guided.errors import BudgetError, GuidedError
from guided.matching.compiler import CompiledGrammar, GrammarCompiler
from guided.matching.matcher import GrammarMatcher
from guided.models.gguf_loader import load_llama
from guided.models.llama import Llama
from guided.sampling.params import SamplingParams
from guided.vocabulary.gguf import GgufFile
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Engine", "Options", "Prompt"]

Prompt: TypeAlias = str | Sequence[Message] | Sequence[int]


class Options(TypedDict, total=False):
    """Numbers of a request.

    Attributes:
        max_tokens: of the output, forced tokens and the end token included (256); less where the context ends before.
        temperature, top_k, top_p: see `SamplingParams` (0: greedy).
        seed: None (the default) takes a fresh one; the result tells it. Output i of n has the seed + i.
        score_forced: count the model's probability of forced tokens too, see `Result.removed_log_mass`; costs one more
            forward pass for an output.
    """

    max_tokens: int
    temperature: float
    top_k: int | None
    top_p: float | None
    seed: int | None
    score_forced: bool


class Engine:
    """A model that answers under constraints.

    Attributes:
        model: the weights.
        vocabulary: its tokens.
        chat: the chat template, None where the model has none that is known.
        bos: ids put before a text prompt (most models: none).
    """

    def __init__(
        self, model: Llama, vocabulary: Vocabulary, *, chat: ChatMl | None = None, bos: Sequence[int] = ()
    ) -> None:
        if vocabulary.size > model.config.vocab_size:
            raise GuidedError(f"{vocabulary.size} tokens, but only {model.config.vocab_size} logits: not this model's")
        self.model, self.vocabulary, self.chat, self.bos = model, vocabulary, chat, list(bos)

    @classmethod
    def from_pretrained(
        cls, name: str | os.PathLike[str], *, device: str | torch.device = "auto", dtype: str | torch.dtype = "auto"
    ) -> Engine:
        """A model by name ("smollm2-135m-instruct": fetched once, then offline) or by the path of a GGUF file.

        Args:
            name: the name or the path.
            device: "auto" is CUDA where there is one, else the CPU.
            dtype: "float32", "bfloat16" or "auto": bfloat16 where the device computes in it, else float32.

        Raises:
            GuidedError: the model cannot be found or fetched.
            VocabularyError, UnsupportedError: its file cannot be used.
        """
        chosen = _device(device)
        with GgufFile(find_model(name)) as file:
            model = load_llama(file, dtype=_dtype(dtype, chosen), device=chosen)
            vocabulary = Vocabulary.from_gguf(file.path)
            chat = ChatMl.from_template(vocabulary, file.metadata.get("tokenizer.chat_template"))
            is_sentencepiece = file.metadata.get("tokenizer.ggml.model") == "llama"
            add_bos = file.metadata.get("tokenizer.ggml.add_bos_token", is_sentencepiece)
            bos = file.metadata.get("tokenizer.ggml.bos_token_id")
        return cls(model, vocabulary, chat=chat, bos=[bos] if add_bos and bos is not None else [])

    @cached_property
    def compiler(self) -> GrammarCompiler:
        """Compiles specifications for this vocabulary; remembers them."""
        return GrammarCompiler(self.vocabulary)

    @overload
    def generate(
        self, prompt: Prompt, constraint: Constraint = None, *, n: Literal[1] = 1, **options: Unpack[Options]
    ) -> Result: ...
    @overload
    def generate(
        self, prompt: Prompt, constraint: Constraint = None, *, n: int, **options: Unpack[Options]
    ) -> Result | list[Result]: ...
    def generate(
        self, prompt: Prompt, constraint: Constraint = None, *, n: int = 1, **options: Unpack[Options]
    ) -> Result | list[Result]:
        """Generate: one `Result`, or a list of them where n > 1 (the prompt passes the model once).

        Args:
            prompt: a text to go on from; messages for the chat template; or token ids. Text is text: names of control
                tokens in it are not control tokens (`vocabulary.encode_with_special` makes ids of them).
            constraint: None: free, until an end token. A compiled grammar. A mapping or a bool: a JSON Schema. A
                string: a regular expression that the whole output matches. A list of strings: one of them. A function:
                its arguments, as a JSON object. Else a type.
            n: how many outputs.
            **options: see `Options`.

        Raises:
            SpecError, UnsupportedError: the constraint. BudgetError: no output of it fits the budget. GuidedError: the
            prompt. ValueError: a number of the options.
        """
        if n < 1:
            raise ValueError(f"n is {n!r}, at least one output is needed")
        request = self._request(prompt, constraint, **options)
        results = [_last(request.events(i)) for i in range(n)]
        return results[0] if n == 1 else results

    def stream(
        self, prompt: Prompt, constraint: Constraint = None, **options: Unpack[Options]
    ) -> Iterator[StreamEvent]:
        """As `generate` with n=1, in pieces as they come; the last event holds the result. Closing it stops."""
        return self._request(prompt, constraint, **options).events(0)

    def encode_prompt(self, prompt: Prompt) -> list[int]:
        """The ids that the model sees for a prompt."""
        if isinstance(prompt, str):
            ids = [*self.bos, *self.vocabulary.encode(prompt)]
        elif prompt and all(isinstance(item, int) for item in prompt):
            ids = list(cast("Sequence[int]", prompt))
        elif self.chat is None:
            raise GuidedError("this model has no chat template that is known: give the prompt as text or token ids")
        else:
            ids = self.chat.render(cast("Sequence[Message]", prompt))
        if not ids:
            raise GuidedError("the prompt is empty: the model needs at least one token to go on from")
        if wrong := [id for id in ids if not 0 <= id < self.model.config.vocab_size]:
            raise GuidedError(f"the prompt holds the id {wrong[0]}, which is no token of this model")
        if len(ids) >= (context := self.model.config.context):
            raise GuidedError(
                f"the prompt has {len(ids)} tokens, the model reads {context} with the output: shorten it"
            )
        return ids

    def _request(
        self,
        prompt: Prompt,
        constraint: Constraint,
        *,
        max_tokens: int = 256,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        score_forced: bool = False,
    ) -> _Request:
        """Everything that can be refused is refused here, before the first event."""
        if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens!r}, at least one token is needed")
        params = SamplingParams(temperature, top_k, top_p, secrets.randbits(64) if seed is None else seed)
        grammar = compile_constraint(self.compiler, constraint) if constraint is not None else None
        ids = self.encode_prompt(prompt)
        budget = min(max_tokens, self.model.config.context - len(ids))
        if grammar is not None and (needed := GrammarMatcher(grammar).min_tokens_to_finish()) > budget:
            raise BudgetError(needed, budget)
        runner = ModelRunner(self.model, len(ids) + budget)
        decoder = Decoder(runner, self.vocabulary, ids, max_tokens=budget, score_forced=score_forced)
        return _Request(decoder, grammar, params, value_parser(grammar))


@dataclass(frozen=True, slots=True)
class _Request:
    """A checked request; each of its outputs has a matcher and a seed of its own."""

    decoder: Decoder
    grammar: CompiledGrammar | None
    params: SamplingParams
    parse: Callable[[str], Any] | None

    def events(self, index: int) -> Iterator[StreamEvent]:
        matcher = None if self.grammar is None else GrammarMatcher(self.grammar)
        return self.decoder.run(matcher, self.params.sample(index), self.parse)


def _last(events: Iterator[StreamEvent]) -> Result:
    """Run to the end."""
    result = None
    for event in events:
        result = event.result
    assert result is not None
    return result


def _device(device: str | torch.device) -> torch.device:
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)


def _dtype(dtype: str | torch.dtype, device: torch.device) -> torch.dtype:
    """bfloat16 where the hardware multiplies it (elsewhere it is slower than float32, and less exact)."""
    if isinstance(dtype, str):
        if dtype == "auto":
            dtype = "bfloat16" if _has_bfloat16(device) else "float32"
        if dtype not in ("float32", "bfloat16"):
            raise ValueError(f"dtype is {dtype!r}; known are 'auto', 'float32' and 'bfloat16'")
        dtype = torch.float32 if dtype == "float32" else torch.bfloat16
    return dtype


def _has_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    probe = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return device.type == "cpu" and probe is not None and bool(probe())
