"""`Engine`: a model, its vocabulary, and `generate`, `generate_batch` and `stream` under constraints.

In: prompts, a constraint for each (or none), numbers of sampling (request.py). Out: `Result`, `StreamEvent`. All
requests run in one batch (scheduler.py) and share one cache, those of other threads, too: whoever waits for an output
drives the batch a step further. Outputs do not depend on what runs beside them, on how a prompt is cut, or on what of
it is known: on a CPU logits have the same bits (kernels/native/), elsewhere they differ by rounding.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, Self, Unpack, overload

import torch

from guided.chat import ChatTemplate
from guided.engine.batch import Answer, answer_each
from guided.engine.draft_model import check_same_tokens
from guided.engine.driver import Driver
from guided.engine.loading import load, make_runner
from guided.engine.polite_pool import PolitePool
from guided.engine.progress import Meter, ShowProgress
from guided.engine.prompts import PromptReader
from guided.engine.request import OTHERS_KEYWORDS, Options, Prompt, Request
from guided.engine.result import Result, StreamEvent, ValueT_co
from guided.engine.runner import Chunk, KVDtype, ModelRunner
from guided.engine.scheduler import Scheduler
from guided.engine.sequence import Sequence as Output
from guided.engine.sequence_maker import SequenceMaker
from guided.engine.stepper import begun
from guided.engine.task import Task
from guided.engine.tensor_parallel.leader import Ranks
from guided.errors import GuidedError
from guided.keywords import keywords_checked, read_items
from guided.kv.cache import KVCache
from guided.matching.compiler import GrammarCompiler
from guided.matching.constraint import Constraint
from guided.models.model import Model
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Engine", "Options", "Prompt", "Request"]

_COMPILERS = 2  # threads


class Engine:
    """A model that answers under constraints.

    Attributes:
        model: the weights.
        vocabulary: its tokens.
        chat: the chat template, None where the model has none.
        bos: ids put before a text prompt (most models: none).
        scheduler: the batch that runs.
        ranks: the processes that have the other parts of the model; None where it is in one piece.
    """

    def __init__(
        self,
        model: Model,
        vocabulary: Vocabulary,
        *,
        chat: ChatTemplate | None = None,
        bos: Sequence[int] = (),
        cache: KVCache | None = None,
        kv_dtype: KVDtype = "auto",
        ranks: Ranks | None = None,
        runner: ModelRunner | None = None,
        draft_model: Model | None = None,
        token_budget: int = 512,
    ) -> None:
        """`cache`: a paged one of twice the model's context by default, whose keys and values take half the memory with
        `kv_dtype` "int8" (kv/quantised.py). `ranks`: processes that have the other parts of the model. `runner`:
        instead of these what runs the model, with its own cache. `draft_model`: a smaller model with the same tokens,
        which drafts for this one (draft_model.py). `token_budget`: of one forward pass."""
        if vocabulary.size > model.config.vocab_size:
            raise GuidedError(f"{vocabulary.size} tokens, but only {model.config.vocab_size} logits: not this model's")
        self.model, self.vocabulary, self.chat, self.bos = model, vocabulary, chat, read_items("bos", bos)
        self.ranks = ranks
        draft = None
        if draft_model is not None:
            check_same_tokens(vocabulary, draft_model)
            draft = make_runner(draft_model, None, kv_dtype if cache is None else "auto", None)
        runner = runner or make_runner(model, cache, kv_dtype, ranks)
        self.scheduler = Scheduler(runner, draft=draft, token_budget=token_budget)
        self._maker = SequenceMaker(
            vocabulary,
            model.config.context,
            lambda: self.compiler,
            lambda: self._prompts,
            drafts_by_model=draft is not None,
        )
        self.driver = Driver(self.scheduler)

    @classmethod
    @keywords_checked()
    def from_pretrained(
        cls,
        name: str | os.PathLike[str],
        *,
        adapter: str | os.PathLike[str] | None = None,
        device: str | torch.device = "auto",
        dtype: str | torch.dtype = "auto",
        kv_dtype: KVDtype = "auto",
        tensor_parallel: int = 1,
        pipeline_parallel: int = 1,
        compile: bool = False,
        revision: str | None = None,
        draft_model: str | os.PathLike[str] | None = None,
    ) -> Engine:
        """A model by name ("smollm2-135m-instruct", "org/model": fetched once, then offline) or by a path.

        Args:
            name: the name; or a GGUF file; or a directory with config.json, safetensors and tokenizer.json.
            adapter: a directory with a LoRA adapter for it, as PEFT saves them (models/lora.py). One engine has one.
            device: "auto" is CUDA where there is one, else the CPU.
            dtype: "auto": matrices of a GGUF file stay as they are on a CPU (models/block_matrix.py), with activations
                in float32; other weights, and all with `compile`, are bfloat16 where the device computes in it, else
                float32. "float32": all weights are that. "bfloat16": so is what is computed, and all that does not stay
                as it is.
            kv_dtype: of the cache: "auto", the same as dtype; or "int8" for half the memory (not on CUDA's fast path).
            tensor_parallel: processes that each layer is cut among, each with a GPU (or the CPU) of its own.
            pipeline_parallel: stages of so many processes, each with some of the layers.
            compile: `torch.compile` fuses what stands between attentions; the first steps take a minute. For CUDA; on
                a CPU it is slower, and logits differ by rounding where a prompt is cut otherwise.
            revision: of a model of the Hugging Face hub: a branch, a tag or a commit ("main").
            draft_model: a smaller model with the same tokens, which drafts for this one; see `Options.drafts`.

        Raises:
            ModelFileError: the model or the adapter cannot be found or fetched, or a file of it is corrupt.
            VocabularyError: its tokenizer cannot be used.
            UnsupportedError: the model is of a kind that is not computed here, or cannot be cut into so many parts.
            GuidedError: a package is missing; there are not as many GPUs.
        """
        loaded = load(
            name, adapter=adapter, device=device, dtype=dtype, kv_dtype=kv_dtype, tensor_parallel=tensor_parallel,
            pipeline_parallel=pipeline_parallel, compile=compile, revision=revision, draft_model=draft_model,
        )  # fmt: skip
        found = loaded.parts
        return cls(
            found.model, found.vocabulary, chat=found.chat, bos=found.bos, kv_dtype=kv_dtype, ranks=loaded.ranks,
            draft_model=loaded.draft,
        )  # fmt: skip

    def close(self) -> None:
        """End the other processes of the model, where there are any; they end with the engine anyway."""
        if self.ranks is not None:
            self.ranks.close()

    def __repr__(self) -> str:
        chat = "" if self.chat is None else ", with a chat template"
        return f"Engine({type(self.model).__name__} of {self.vocabulary.size} tokens{chat})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def compiler(self) -> GrammarCompiler:
        """Compiles specifications for this vocabulary; remembers them."""
        return GrammarCompiler(self.vocabulary)

    @cached_property
    def _pool(self) -> PolitePool:
        """Compiles for requests that come together."""
        return PolitePool(_COMPILERS, "guided compiler")

    # A type gives its values, a regular expression or a choice its text; what other constraints give is not told.
    @overload
    def generate(
        self, prompt: Prompt, constraint: type[ValueT_co], *, n: Literal[1] = 1, **options: Unpack[Options]
    ) -> Result[ValueT_co]: ...
    @overload
    def generate(
        self, prompt: Prompt, constraint: str | Sequence[str], *, n: Literal[1] = 1, **options: Unpack[Options]
    ) -> Result[str]: ...
    @overload
    def generate(
        self, prompt: Prompt, constraint: Constraint = None, *, n: Literal[1] = 1, **options: Unpack[Options]
    ) -> Result: ...
    @overload
    def generate(
        self, prompt: Prompt, constraint: type[ValueT_co], *, n: int, **options: Unpack[Options]
    ) -> Result[ValueT_co] | list[Result[ValueT_co]]: ...
    @overload
    def generate(
        self, prompt: Prompt, constraint: Constraint = None, *, n: int, **options: Unpack[Options]
    ) -> Result | list[Result]: ...
    @keywords_checked(Options.__annotations__, elsewhere=OTHERS_KEYWORDS)
    def generate(self, prompt: Prompt, constraint: Constraint = None, *, n: int = 1, **options: Unpack[Options]) -> Any:
        """Generate: one `Result`, or a list of them where n > 1 (the prompt passes the model once).

        Args:
            prompt: a text; messages for the chat template; or token ids. A text is the user's message where the model
                has a chat template, and else, or with `raw=True`, what the model goes on from. Text is text: names of
                control tokens in it are not control tokens (`vocabulary.encode_with_special` makes ids of them).
            constraint: None: free, until an end token. A compiled grammar. One composed of parts (`guided.sequence`,
                `guided.choice`, ...). A mapping or a bool: a JSON Schema. A string: a regular expression that the whole
                output matches. A list of strings: one of them. A function: its arguments, as a JSON object. Else a
                type.
            n: how many outputs.
            **options: see `Options`.

        Raises:
            SpecError, UnsupportedError: the constraint. BudgetError: no output of it fits the budget. GuidedError: the
            prompt. OptionError: a number of the options.
        """
        results = self._run([self._tasks(prompt, constraint, n, **options)])
        return results[0] if n == 1 else results

    @overload
    def generate_batch(
        self,
        prompts: Sequence[Prompt],
        constraint: type[ValueT_co],
        *,
        progress: ShowProgress | bool = False,
        **options: Unpack[Options],
    ) -> list[Result[ValueT_co]]: ...
    @overload
    def generate_batch(
        self,
        prompts: Sequence[Prompt],
        constraint: Constraint = None,
        *,
        constraints: Sequence[Constraint] | None = None,
        progress: ShowProgress | bool = False,
        **options: Unpack[Options],
    ) -> list[Result]: ...
    @keywords_checked(
        Options.__annotations__, elsewhere={**OTHERS_KEYWORDS, "n": "generate_each takes requests with n"}
    )
    def generate_batch(
        self,
        prompts: Sequence[Prompt],
        constraint: Constraint = None,
        *,
        constraints: Sequence[Constraint] | None = None,
        progress: ShowProgress | bool = False,
        **options: Unpack[Options],
    ) -> Any:
        """Outputs for many prompts, in their order, run together.

        Args:
            prompts: see `generate`.
            constraint: of all of them, see `generate`.
            constraints: instead of it one for each prompt.
            progress: called with `BatchProgress` whenever an output has gone on; True: a line on standard error, if it
                takes more than two seconds.
            **options: of all of them.

        Raises:
            As `generate`; nothing of the batch goes on then. ValueError: as many constraints as prompts are needed.
        """
        if isinstance(prompts, str | bytes):
            raise TypeError(
                f"prompts is a list of prompts, not one {type(prompts).__name__}; generate takes one prompt"
            )
        each = [constraint] * len(prompts) if constraints is None else read_items("constraints", constraints)
        if len(each) != len(prompts):
            raise ValueError(f"{len(prompts)} prompts, but {len(each)} constraints")
        groups = [self._later(prompt, one, 1, **options) for prompt, one in zip(prompts, each, strict=True)]
        with Meter(len(groups), progress) as meter:
            return self._run(groups, meter)

    def generate_each(
        self, requests: Iterable[Request | Exception], *, total: int = 0, progress: ShowProgress | bool = False
    ) -> Generator[Answer, None, None]:
        """Answer many requests, run together, each on its own terms: what fails stops no other.

        Args:
            requests: taken as there is room for them. An exception is an answer, too: its own.
            total: how many there are, for `progress`.
            progress: see `generate_batch`.

        Returns:
            The answers as they come, each with the number of its request: its n results, or why it failed (see the
            errors of `generate`). Closing it stops what is running.
        """
        return answer_each(requests, self.tasks, self.driver.outcomes, Meter(total, progress))

    @overload
    def stream(
        self, prompt: Prompt, constraint: type[ValueT_co], **options: Unpack[Options]
    ) -> Iterator[StreamEvent[ValueT_co]]: ...
    @overload
    def stream(
        self, prompt: Prompt, constraint: str | Sequence[str], **options: Unpack[Options]
    ) -> Iterator[StreamEvent[str]]: ...
    @overload
    def stream(
        self, prompt: Prompt, constraint: Constraint = None, **options: Unpack[Options]
    ) -> Iterator[StreamEvent]: ...
    @keywords_checked(
        Options.__annotations__, elsewhere={**OTHERS_KEYWORDS, "n": "stream_samples gives n outputs at once"}
    )
    def stream(
        self, prompt: Prompt, constraint: Constraint = None, **options: Unpack[Options]
    ) -> Iterator[StreamEvent]:
        """As `generate` with n=1, in pieces as they come; the last event holds the result. Closing it stops."""
        return (event for _, event in self.stream_samples(prompt, constraint, n=1, **options))

    @keywords_checked(Options.__annotations__, elsewhere=OTHERS_KEYWORDS)
    def stream_samples(
        self, prompt: Prompt, constraint: Constraint = None, *, n: int, **options: Unpack[Options]
    ) -> Iterator[tuple[int, StreamEvent]]:
        """As `stream`, n outputs at once: events as they come, each with the number of its output."""
        tasks = self._tasks(prompt, constraint, n, **options)
        number = {task: at for at, task in enumerate(tasks)}
        return ((number[task], event) for task, event in self.driver.events([tasks]))

    def logits(self, tokens: Sequence[int], keep: int = 1) -> torch.Tensor:
        """What the model scores after each of the last `keep` tokens: float32, (keep, vocab_size)."""
        runner, ids = self.scheduler.runner, read_items("tokens", tokens)
        self._prompts.check(ids, room=0)
        with self.driver.lock:
            lease = runner.cache.open(ids, keep=keep)
            try:
                if not runner.cache.reserve(lease, len(ids) - lease.length):
                    raise MemoryError(f"no room for {len(ids)} tokens beside what runs")
                return runner.step([Chunk(lease, ids[lease.length :], keep)])
            finally:
                runner.cache.close(lease)

    def encode_prompt(self, prompt: Prompt, *, raw: bool = False) -> list[int]:
        """The ids that the model sees for a prompt; `raw` as for `generate`.

        Raises:
            GuidedError: the prompt is empty or too long, or the model has no template for messages.
        """
        return self._prompts.encode(prompt, raw=raw)

    @property
    def _prompts(self) -> PromptReader:
        return PromptReader(self.vocabulary, self.model.config, self.chat, self.bos)

    def _tasks(self, prompt: Prompt, constraint: Constraint, n: int, **options: Any) -> list[Task]:
        """Samples of one request. Everything that can be refused is refused here, before the first event."""
        return list(map(Task, self._maker.make(prompt, constraint, n, **options)))

    def _later(self, prompt: Prompt, constraint: Constraint, n: int, **options: Any) -> list[Task]:
        """The same, made on another thread: others run while its grammar is compiled; a refusal is its outcome."""
        coming = self._pool.submit(lambda: begun(self._maker.make(prompt, constraint, n, **options)))
        return [Task.later(coming, number) for number in range(n if isinstance(n, int) and n > 0 else 1)]

    def tasks(self, request: Request) -> list[Task]:
        """The samples of a request, for `driver`: made on another thread; a refusal is their outcome."""
        return self._later(request.prompt, request.constraint, request.n, **request.options)

    def outputs(self, request: Request, prompt: Prompt, compiler: GrammarCompiler) -> list[Output]:
        """The samples of a request, made on this thread: for its prompt as ids, by a compiler."""
        return self._maker.make(prompt, request.constraint, request.n, compiler=compiler, **request.options)

    def _run(self, groups: Sequence[list[Task]], meter: Meter | None = None) -> list[Result]:
        """Run groups of samples to their ends."""
        results = dict[Task, Result]()
        for task, event in self.driver.events(groups):
            if meter is not None:
                meter.count(event)
            if event.result is not None:
                results[task] = event.result
                if meter is not None:
                    meter.finish(len(event.result.tokens))
        return [results[task] for tasks in groups for task in tasks]
