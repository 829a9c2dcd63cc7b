"""The parts of `exllamav3.generator.filter.Filter` 1.6.5 that a generator uses."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType


class Filter:
    def __init__(self, tokenizer, trigger_token, prefix_str, eos_after_completed):
        self.tokenizer, self.trigger_token, self.prefix_str = tokenizer, trigger_token, prefix_str
        self.eos_after_completed = eos_after_completed
        self.job = self.generator = self.vocab_size = None
        self.is_active = trigger_token is None
        self._journal: list[tuple[str, int]] = []

    def feed(self, token):
        if not self.is_active:
            if token == self.trigger_token:
                self.is_active = True
                self.reset()
            self._journal.append(("trigger" if self.is_active else "pass", token))
            return False
        self.accept_token(token)
        self.is_active = not self.is_completed()
        self._journal.append(("accept" if self.is_active else "complete", token))
        return not self.is_active and self.eos_after_completed

    def rewind(self, num_tokens):
        if num_tokens == 0:
            return
        popped = [kind for kind, _ in self._journal[-num_tokens:]]
        del self._journal[-num_tokens:]
        if "trigger" in popped:
            self._rebuild()
            return
        self.is_active = self.is_active or "complete" in popped
        accepted = sum(kind in ("accept", "complete") for kind in popped)
        if accepted and not self.rollback_tokens(accepted):
            self._rebuild()

    def _rebuild(self):
        self.is_active = self.trigger_token is None
        self.reset()
        for kind, token in self._journal:
            if kind == "trigger":
                self.is_active = True
                self.reset()
            elif kind != "pass":
                self.accept_token(token)
                self.is_active = kind != "complete"

    def rollback_tokens(self, num_tokens):
        return False

    def reset(self):
        raise NotImplementedError()

    def accept_token(self, token):
        raise NotImplementedError()

    def get_next_logit_mask(self):
        raise NotImplementedError()

    def is_completed(self):
        raise NotImplementedError()

    def use_background_worker(self):
        return True

    def attach(self, job):
        self.job, self.generator, self.vocab_size = job, job.generator, job.generator.padded_vocab_size
        self._journal.clear()


def install() -> None:
    """Make it importable."""
    for name in ("exllamav3", "exllamav3.generator", "exllamav3.generator.filter"):
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__path__, sys.modules[name].__spec__ = [], ModuleSpec(name, None)
    sys.modules["exllamav3.generator.filter"].Filter = Filter
