"""A structured-output backend with the methods of vLLM's `StructuredOutputBackend`, and the validation of requests.

In: requests from vLLM's engine. Out: the state of each request, which fills rows of the engine's bitmask.

| | where | input |
|---|---|---|
| `validate_and_pack` packs a valid request into one string | vLLM's API process, before queueing | all fields |
| `GuidedBackend.compile_grammar` compiles that string | the engine's process, on a thread | string, end tokens |
| `GuidedGrammar` fills rows (grammar.py) | the engine's process, at each step | accepted tokens |

Both processes compile a specification and cache it, so an invalid request is refused before it is queued. An error in
the engine's process ends only its own request. vLLM 0.33 reports the reason ("Invalid structured outputs: ..."); vLLM
0.32 only logs it.

This module does not import vLLM; `plugin.py` installs the backend in vLLM.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from guided.errors import BudgetError
from guided.integrations.vllm.compilers import Compilers, compilers_of
from guided.integrations.vllm.grammar import GuidedGrammar
from guided.integrations.vllm.settings import Settings
from guided.integrations.vllm.specification import KINDS, OPTIONS, Specification
from guided.matching.matcher import GrammarMatcher

__all__ = ["GuidedBackend", "begin_request", "validate_and_pack"]


def begin_request(
    specification: Specification, compilers: Compilers, end_token_ids: Collection[int] | None, settings: Settings
) -> GuidedGrammar:
    """Create the state of a request before its first token.

    Raises:
        SpecError, UnsupportedError, LimitExceeded, VocabularyError: the specification cannot be compiled.
        BudgetError: not even the shortest answer fits `max_tokens`.
    """
    grammar = specification.compile(compilers.compiler_for_ends(end_token_ids), settings)
    matcher, budget = GrammarMatcher(grammar), specification.max_tokens
    if budget is not None and (min_tokens := matcher.min_tokens_to_finish()) > budget:
        raise BudgetError(min_tokens, budget)
    return GuidedGrammar(matcher, budget)


def validate_and_pack(params: Any, compilers: Compilers, settings: Settings) -> str | None:
    """Check the structured output of a `SamplingParams`. Return a string with all its fields, or None if there is none.

    Args:
        compilers: the model's compilers. The request's stop tokens are added to the end tokens.

    Raises:
        GuidedError: see `begin_request`; or the fields are malformed.
    """
    outputs = params.structured_outputs
    if outputs is None:
        return None
    request_fields = {name: getattr(outputs, name) for name in (*KINDS, *OPTIONS)}
    budget = _find_budget(params)
    specification = Specification.from_fields(request_fields, max_tokens=budget).with_budget(budget)
    end_ids = {*compilers.vocabulary.eos_token_ids, *(params.stop_token_ids or ())}
    begin_request(specification, compilers, end_ids, settings)
    return specification.to_text()


def _find_budget(params: Any) -> int | None:
    """The token budget of the answer. None if another instance decodes the answer: then this request is only the
    prefill, with `max_tokens=1`."""
    transfer = (params.extra_args or {}).get("kv_transfer_params")
    return None if isinstance(transfer, Mapping) and transfer.get("do_remote_decode") else params.max_tokens


class GuidedBackend:
    """See the module docstring. vLLM creates a backend for each engine, at the first request for structured output.

    Args:
        vllm_config: not used.
        tokenizer: vLLM's tokenizer.
        vocab_size: the number of logits.

    Raises:
        VocabularyError: the tokenizer cannot be read.
    """

    def __init__(self, vllm_config: Any, tokenizer: Any, vocab_size: int) -> None:
        self.vllm_config, self.tokenizer, self.vocab_size = vllm_config, tokenizer, vocab_size
        self.settings = Settings.from_environment()
        self.compilers = compilers_of(tokenizer, vocab_size, self.settings.limits)

    def compile_grammar(
        self, request_type: Any, grammar_spec: str, stop_token_ids: set[int] | None = None
    ) -> GuidedGrammar:
        """Compile the specification of a new request, and create its state. Several threads may call it.

        Args:
            request_type: a member of vLLM's `StructuredOutputOptions`.
            grammar_spec: the specification, as a string.
            stop_token_ids: the tokens that end the request; None or empty: the tokenizer's own.

        Raises:
            GuidedError: see `begin_request`.
        """
        specification = Specification.from_key(request_type.name.lower(), grammar_spec)
        return begin_request(specification, self.compilers, stop_token_ids, self.settings)

    def allocate_token_bitmask(self, max_num_seqs: int) -> Any:
        """A bitmask that allows all tokens, int32 (max_num_seqs, words)."""
        import torch

        return torch.full((max_num_seqs, (self.vocab_size + 31) // 32), -1, dtype=torch.int32)

    def destroy(self) -> None:
        """Does nothing: there are no resources to release."""
