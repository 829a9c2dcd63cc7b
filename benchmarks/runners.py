"""A model in three engines, each in its own process: guided, transformers with xgrammar's processor, llama.cpp.

All use the same GGUF file, the same token ids and the same number of threads, and decode greedily. A process waits
while the others work.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

__all__ = ["RUNNERS", "Process"]

_MAX_TOKENS = 200  # tokens of an answer


class Guided:
    """guided. `dtype`: as in `Engine.from_pretrained`."""

    def __init__(self, model: Path, threads: int, dtype: str = "auto") -> None:
        from guided import Engine  # before torch, as in the server: it sets how OpenMP's threads wait

        # isort: split
        import torch

        torch.set_num_threads(threads)
        self.engine = Engine.from_pretrained(model, dtype=dtype)
        self.about = f"guided, {str(self.engine.model.dtype).removeprefix('torch.')}"

    def decode(self, prompts: Sequence[list[int]], tokens: int) -> float:
        """Seconds to write this many tokens after each prompt."""
        begin = time.perf_counter()
        self.engine.generate_batch(prompts, max_tokens=tokens, ignore_eos=True)
        return time.perf_counter() - begin

    def naive(self, prompt: list[int], tokens: int) -> float:
        """Seconds, if everything is computed again for each token."""
        begin, ids = time.perf_counter(), list(prompt)
        for _ in range(tokens):
            self._forget()
            ids.append(int(self.engine.logits(ids)[-1].argmax()))
        return time.perf_counter() - begin

    def extract(self, prompts: Sequence[list[int]], schemas: Sequence[Any], variant: str) -> dict[str, Any]:
        """Seconds, tokens and texts of the answers, one after the other. A variant disables a feature."""
        from guided.matching.constraint import compile_constraint
        from guided.matching.matcher import GrammarMatcher

        self._forget()
        grammars = [compile_constraint(self.engine.compiler, schema) for schema in schemas]
        forced = GrammarMatcher.forced_tokens
        if variant == "no forced tokens, no prefix cache":
            GrammarMatcher.forced_tokens = lambda self: []  # type: ignore[method-assign]
        results = []
        begin = time.perf_counter()
        try:
            for prompt, grammar in zip(prompts, grammars, strict=True):
                if "no prefix cache" in variant:
                    self._forget()
                drafts = 3 if "drafts" in variant else 0
                results.append(self.engine.generate(prompt, grammar, max_tokens=_MAX_TOKENS, drafts=drafts))
        finally:
            GrammarMatcher.forced_tokens = forced  # type: ignore[method-assign]
        seconds = time.perf_counter() - begin
        timings = [result.timings for result in results]
        return {
            "seconds": seconds,
            "tokens": sum(len(result.tokens) for result in results),
            "passes": sum(len(t.forward) for t in timings),
            "mask": sum(sum(t.mask) for t in timings),
            "texts": [result.text for result in results],
        }

    def _forget(self) -> None:
        """Empty the cache."""
        from guided import Engine

        old = self.engine
        self.engine = Engine(old.model, old.vocabulary, chat=old.chat_template, bos=old.bos)
        self.engine.__dict__["compiler"] = old.compiler


class Transformers:
    """transformers' `generate`, with xgrammar's logits processor for schemas."""

    def __init__(self, model: Path, threads: int, dtype: str = "bfloat16") -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(threads)
        kind = getattr(torch, dtype)
        self.model = AutoModelForCausalLM.from_pretrained(model.parent, gguf_file=model.name, dtype=kind).eval()
        self.path, self.info, self.about = model, None, f"transformers, {dtype}"

    def decode(self, prompts: Sequence[list[int]], tokens: int) -> float:
        """Seconds to write this many tokens after each prompt."""
        begin = time.perf_counter()
        self._generate(prompts, max_new_tokens=tokens, min_new_tokens=tokens)
        return time.perf_counter() - begin

    def extract(self, prompts: Sequence[list[int]], schemas: Sequence[Any], variant: str) -> dict[str, Any]:
        """The same as `Guided.extract`, without variants."""
        import xgrammar
        from xgrammar.contrib.hf import LogitsProcessor

        compiler = xgrammar.GrammarCompiler(self._info(), max_threads=1)
        grammars = [
            compiler.compile_json_schema(json.dumps(s), any_whitespace=False, separators=(", ", ": ")) for s in schemas
        ]
        answers = []
        begin = time.perf_counter()
        for prompt, grammar in zip(prompts, grammars, strict=True):
            ids = self._generate([prompt], max_new_tokens=_MAX_TOKENS, logits_processor=[LogitsProcessor(grammar)])
            answers.append(ids[0, len(prompt) :].tolist())
        seconds = time.perf_counter() - begin
        texts = [self.vocabulary.decode(answer[:-1]).decode("utf-8", "replace") for answer in answers]
        tokens = sum(map(len, answers))
        return {"seconds": seconds, "tokens": tokens, "passes": tokens, "texts": texts}

    def _generate(self, prompts: Sequence[list[int]], **options: Any) -> Any:
        import torch

        ids = torch.tensor(prompts)
        with torch.inference_mode():
            return self.model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **options)

    def _info(self) -> Any:
        import xgrammar

        from guided import Vocabulary

        if self.info is None:
            self.vocabulary = v = Vocabulary.from_gguf(self.path)
            spelled = [v.token_bytes(id) or b"" for id in range(v.size)]
            ends = sorted(v.eos_token_ids)
            self.info = xgrammar.TokenizerInfo(spelled, xgrammar.VocabType.RAW, vocab_size=v.size, stop_token_ids=ends)
            self.model.generation_config.eos_token_id = ends
        return self.info


class LlamaCpp:
    """llama-cpp-python, with its own grammars for schemas. It caches the last prompt for its prefix."""

    def __init__(self, model: Path, threads: int, dtype: str = "") -> None:
        from llama_cpp import Llama

        self.model = Llama(str(model), n_ctx=2048, n_threads=threads, n_threads_batch=threads, verbose=False)
        self.about = "llama.cpp"

    def decode(self, prompts: Sequence[list[int]], tokens: int) -> float:
        """Seconds to write this many tokens after each prompt, one prompt after the other."""
        begin = time.perf_counter()
        for prompt in prompts:
            self.model.reset()
            for _, _ in zip(range(tokens), self.model.generate(prompt, temp=0.0, reset=True), strict=False):
                pass
        return time.perf_counter() - begin

    def extract(self, prompts: Sequence[list[int]], schemas: Sequence[Any], variant: str) -> dict[str, Any]:
        """The same as `Guided.extract`, without variants."""
        from llama_cpp import LlamaGrammar

        grammars = [LlamaGrammar.from_json_schema(json.dumps(s), verbose=False) for s in schemas]
        self.model.reset()
        answers = []
        begin = time.perf_counter()
        for prompt, grammar in zip(prompts, grammars, strict=True):
            answers.append(
                self.model.create_completion(prompt, max_tokens=_MAX_TOKENS, temperature=0.0, grammar=grammar)
            )
        seconds = time.perf_counter() - begin
        tokens = sum(answer["usage"]["completion_tokens"] for answer in answers)
        texts = [answer["choices"][0]["text"] for answer in answers]
        return {"seconds": seconds, "tokens": tokens, "passes": tokens, "texts": texts}


RUNNERS = {"guided": Guided, "transformers": Transformers, "llama.cpp": LlamaCpp}


class Process:
    """One of `RUNNERS` in another process; `call` waits for its answer.

    Raises:
        ImportError: its packages are not installed.
    """

    def __init__(self, name: str, *arguments: Any) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, name, arguments), daemon=True)
        self._process.start()
        self.about = self._receive()

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method, and return its result."""
        self._pipe.send((method, arguments))
        return self._receive()

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join()

    def _receive(self) -> Any:
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


def _serve(pipe: Any, name: str, arguments: tuple[Any, ...]) -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        runner = RUNNERS[name](*arguments)
        pipe.send(runner.about)
        while True:
            method, call_arguments = pipe.recv()
            pipe.send(getattr(runner, method)(*call_arguments))
    except EOFError:
        return
    except Exception as error:
        pipe.send(RuntimeError(f"{name}: {error!r}"))
