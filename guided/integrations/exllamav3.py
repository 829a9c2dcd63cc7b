"""Constraints in ExLlamaV3: a filter for its generator.

    from guided.integrations.exllamav3 import GuidedFilter

    generator.generate(prompt, filters=[GuidedFilter({"type": "object", ...}, tokenizer)], max_new_tokens=200,
                       stop_conditions=[tokenizer.eos_token_id])

In: a constraint as `Engine.generate` takes it, and ExLlamaV3's tokenizer. Out: a `Filter`, which reads the tokens of
one job and returns packed masks. The generator computes the masks on its own threads while the model runs. When it
rolls tokens back (banned strings), so does the matcher. A filter serves one job at a time, and is reset for the next.

The filter is complete when the model writes an end token, or when only an end token can follow. The tests use the
interface of version 1.6.5, without a device.
"""

from __future__ import annotations

from inspect import signature
from typing import Any, Final, Unpack

import numpy as np
import torch
from exllamav3.generator.filter import Filter

from guided.errors import BudgetError, GuidedError
from guided.integrations.sequence_mask import compile_required, compiler_of
from guided.keywords import check_integer
from guided.matching.bitmask import allocate_token_bitmask, row_of
from guided.matching.constraint import Constraint, ConstraintOptions
from guided.matching.matcher import GrammarMatcher
from guided.matching.protocol import accept_any_id
from guided.vocabulary import Vocabulary

__all__ = ["EXPECTED", "GuidedFilter", "vocabulary_of"]

EXPECTED: Final = {
    "__init__": ("self", "tokenizer", "trigger_token", "prefix_str", "eos_after_completed"),
    "feed": ("self", "token"),
    "rewind": ("self", "num_tokens"),
    "attach": ("self", "job"),
    "rollback_tokens": ("self", "num_tokens"),
    "reset": ("self",),
    "accept_token": ("self", "token"),
    "get_next_logit_mask": ("self",),
    "is_completed": ("self",),
    "use_background_worker": ("self",),
}
"""The methods of `Filter` that guided relies on. Older versions have neither packed masks nor `rollback_tokens`."""


def vocabulary_of(tokenizer: Any) -> Vocabulary:
    """The vocabulary of an `exllamav3.Tokenizer`.

    Raises:
        VocabularyError: the tokenizer cannot be read.
    """
    end_ids = set(getattr(tokenizer.config, "eos_token_id_list", None) or ())
    if not end_ids and tokenizer.eos_token_id is not None:
        end_ids = {tokenizer.eos_token_id}
    return Vocabulary.from_huggingface(tokenizer.tokenizer, eos_token_ids=end_ids or None)


class GuidedFilter(Filter):  # type: ignore[misc]
    """Constrains one job.

    Args:
        constraint: what `Engine.generate` takes.
        tokenizer: ExLlamaV3's tokenizer.
        trigger_token: the filter begins after this token; None: immediately.
        prefix_str: the beginning of the output, which is already written.
        eos_after_completed: whether the job ends with the constraint; otherwise it continues unconstrained.
        vocabulary: a `Vocabulary`, or a `GrammarCompiler`, which caches compiled grammars; None: the tokenizer's.
        max_tokens: the job's token limit, including the tokens before the trigger. The output is then complete within
            this limit. If the tokens before the trigger leave too few, the output is constrained, but not complete.
        **options: fields of `ConstraintOptions`, such as `whitespace="compact"`.

    Raises:
        SpecError, UnsupportedError, VocabularyError: see `Engine.generate`.
        GuidedError: this version of ExLlamaV3 has a different interface, or the constraint does not allow the prefix.
        OptionError: `max_tokens` is not a positive integer.
    """

    def __init__(
        self,
        constraint: Constraint,
        tokenizer: Any,
        trigger_token: int | None = None,
        prefix_str: str | None = None,
        eos_after_completed: bool = True,
        *,
        vocabulary: Any = None,
        max_tokens: int | None = None,
        **options: Unpack[ConstraintOptions],
    ) -> None:
        _check_interface()
        check_integer("max_tokens", max_tokens, minimum=1, optional=True)
        super().__init__(tokenizer, trigger_token, prefix_str, eos_after_completed)
        compiler = compiler_of(tokenizer if vocabulary is None else vocabulary, vocabulary_of)
        grammar = compile_required(compiler, constraint, options)
        size = compiler.vocabulary.size
        self._matcher, self._max_tokens = GrammarMatcher(grammar), max_tokens
        self._end_row = row_of(size, sorted(compiler.vocabulary.eos_token_ids))
        self._bitmask = allocate_token_bitmask(1, size)
        self._token_count = 0  # accepted by the matcher
        self._job_token_count = 0  # with the tokens before the trigger
        self.reset()

    def reset(self) -> None:
        """Return to the initial state."""
        self._matcher.reset()
        self._token_count = 0
        if self.prefix_str and not self._matcher.accept_string(self.prefix_str):
            raise GuidedError(f"the constraint does not allow the prefix: {self._matcher.explain(self.prefix_str)}")

    def attach(self, job: Any) -> None:
        """Begin a job."""
        super().attach(job)
        self._job_token_count = 0

    def feed(self, token: int) -> bool:
        """Read the job's next token. Returns whether the job ends."""
        self._job_token_count += 1
        return bool(super().feed(token))

    def rewind(self, num_tokens: int) -> None:
        """Take back the job's last tokens."""
        self._job_token_count -= num_tokens
        super().rewind(num_tokens)

    def accept_token(self, token: int) -> None:
        """Accept a token. Raises GuidedError if it is not allowed."""
        if not accept_any_id(self._matcher, token):
            raise GuidedError(f"token {token} is not allowed: {self._matcher.explain(token)}")
        self._token_count += 1

    def rollback_tokens(self, num_tokens: int) -> bool:
        """Take back the last tokens. False: there are fewer, so the generator must feed the sequence again."""
        if num_tokens > self._token_count:
            return False
        self._matcher.rollback(num_tokens)
        self._token_count -= num_tokens
        return True

    def get_next_logit_mask(self) -> torch.Tensor:
        """The mask of the next token, int32 (1, ceil(vocabulary / 32)). The next call overwrites it.

        Raises:
            BudgetError: no output of the constraint fits `max_tokens`.
        """
        tokens_left = None if self._max_tokens is None else max(1, self._max_tokens - self._job_token_count + 1)
        try:
            is_masked = self._matcher.fill_next_token_bitmask(self._bitmask, max_tokens=tokens_left)
        except BudgetError:
            if self._job_token_count == self._token_count:
                raise
            is_masked = self._matcher.fill_next_token_bitmask(self._bitmask)  # an error would end all jobs
        if not is_masked:
            self._bitmask.fill(-1)
        return torch.from_numpy(self._bitmask)

    def is_completed(self) -> bool:
        """Whether the output is complete and cannot continue."""
        if self._matcher.is_terminated():
            return True
        if not self._matcher.is_accepting():
            return False
        mask = self.get_next_logit_mask().numpy()[0]
        return not bool(np.any(mask & ~self._end_row))


def _check_interface() -> None:
    methods = {name: getattr(Filter, name, None) for name in EXPECTED}
    differences = [
        name
        for name, method in methods.items()
        if method is None or tuple(signature(method).parameters) != EXPECTED[name]
    ]
    if differences:
        raise GuidedError(f"this ExLlamaV3 has a different filter interface ({', '.join(differences)}): install 1.6.5")
