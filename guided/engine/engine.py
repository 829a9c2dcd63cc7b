"""`Engine`: a model, its vocabulary, and `generate`, `generate_batch` and `stream` under constraints.

In: prompts, a constraint for each (or none), sampling parameters (request.py). Out: `Result`, `StreamEvent`. The
requests of all threads run in one batch (scheduler.py) and share one cache. A thread that waits for an output runs the
next step of the batch. Outputs do not depend on concurrent requests, on prompt chunking or on prefix caching: on a CPU
logits are bitwise equal (kernels/native/), elsewhere they differ by rounding.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, Self, Unpack, overload

import torch

from guided.chat import ChatTemplate
from guided.engine.agent.chat_methods import ChatMethods
from guided.engine.async_driver import AsyncDriver
from guided.engine.async_methods import AsyncMethods
from guided.engine.batch import Answer, answer_each, pair_with_constraints
from guided.engine.draft_model import check_same_tokens
from guided.engine.driver import Driver
from guided.engine.instructions import Instructions, describes_by_default
from guided.engine.loading import load, make_runners
from guided.engine.polite_pool import PolitePool
from guided.engine.progress import ProgressCounter, ShowProgress
from guided.engine.prompts import PromptReader, read_token_ids
from guided.engine.request import FOREIGN_KEYWORDS, Options, Prompt, Request
from guided.engine.result import GrowingText, Result, StreamEvent, ValueT_co
from guided.engine.runner import Chunk, KVDtype, ModelRunner
from guided.engine.scheduler import Scheduler
from guided.engine.sequence_maker import SequenceMaker
from guided.engine.staged_output import Output
from guided.engine.stepper import begin_steppers
from guided.engine.task import Task
from guided.engine.tensor_parallel.leader import Ranks
from guided.errors import GuidedError, OptionError
from guided.keywords import check_integer, check_token_ids, keywords_checked, read_items, to_int
from guided.kv.cache import KVCache
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.constraint import Constraint
from guided.models.model import Model
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Engine", "Options", "Prompt", "Request"]

_COMPILER_THREADS = 2


class Engine(ChatMethods, AsyncMethods):
    """A model that answers under constraints.

    Attributes:
        model: the weights.
        vocabulary: the model's tokens.
        chat_template: the chat template, if the model has one.
        bos: the ids that precede a string which the model continues (none for most models).
        context: the maximum length of a sequence, in tokens, prompt and output.
        scheduler: runs the batch.
        ranks: the processes that hold the other parts of the model; None if the model is not split.
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
        describe: bool | None = None,
        context: int | None = None,
    ) -> None:
        """`cache`: by default a paged cache (cache_size.py). `kv_dtype`, `describe`, `context`: see `from_pretrained`.
        `ranks`: the processes that hold the other parts of the model. `runner`: a runner with its own cache, which
        replaces `cache`, `kv_dtype` and `ranks`. `draft_model`: a smaller model with the same tokens, which drafts for
        this one (draft_model.py). `token_budget`: the maximum number of tokens per forward pass.

        Raises:
            OptionError: `token_budget`, `context` or an id in `bos` is out of range.
            GuidedError: the vocabulary has more tokens than the model, or there is not enough memory for the cache.
        """
        if vocabulary.size > model.config.vocab_size:
            raise GuidedError(f"{vocabulary.size} tokens, but the model has only {model.config.vocab_size} logits")
        self.model, self.vocabulary, self.bos = model, vocabulary, read_items("bos", bos)
        check_token_ids("bos", self.bos, model.config.vocab_size)
        self.chat_template, self.ranks = chat, ranks
        if draft_model is not None:
            check_same_tokens(vocabulary, draft_model)
        runner, draft, self.context = make_runners(
            model, cache=cache, kv_dtype=kv_dtype, ranks=ranks, runner=runner, draft_model=draft_model, context=context
        )
        self.scheduler = Scheduler(runner, draft=draft, token_budget=token_budget)
        self._maker = SequenceMaker(
            vocabulary, self.context, lambda: self.compiler, lambda: self._prompts, drafts_by_model=draft is not None,
            describes_by_default=describes_by_default(model.config) if describe is None else describe,
        )  # fmt: skip
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
        describe: bool | None = None,
        context: int | None = None,
    ) -> Engine:
        """Load a model by name ("smollm2-135m-instruct", "org/model": downloaded once, then offline) or by path.

        Args:
            name: a name, a GGUF file, or a directory with config.json, safetensors and tokenizer.json.
            adapter: a directory with a LoRA adapter in PEFT's format (models/lora.py). An engine has at most one.
            device: "auto": CUDA if available, else the CPU.
            dtype: "auto": on a CPU, quantised matrices of a GGUF file stay quantised (models/block_matrix.py), with
                float32 activations. Other weights, and all weights with `compile`, are bfloat16 if the device can
                compute in bfloat16, else float32. "float32": all weights. "bfloat16": activations, and all weights that
                do not stay quantised.
            kv_dtype: the type of cached keys and values. "auto": the model's dtype. "int8": half the memory (slower on
                CUDA).
            tensor_parallel: the number of processes that share each layer, each with its own GPU (or the CPU).
            pipeline_parallel: the number of pipeline stages; each computes some of the layers.
            compile: fuse the operations between attention calls with `torch.compile`; the first steps then take a
                minute. Meant for CUDA: on a CPU it is slower, and the chunks of a prompt affect the rounding of logits.
            revision: a branch, tag or commit of a Hugging Face model. Default "main".
            draft_model: a smaller model with the same tokens, which drafts for this one; see `Options.drafts`.
            describe: the default of `Options.describe`. None: True if descriptions help a model of this size.
            context: the maximum length of prompt and output together, in tokens. None: the model's context, or fewer
                tokens if their keys and values would take more than half of the free memory (80 % on a GPU).

        Raises:
            ModelFileError: the model or the adapter cannot be found or downloaded, or one of its files is corrupt.
            VocabularyError: the tokenizer cannot be used.
            UnsupportedError: the architecture is not supported, or cannot be split into this many parts.
            GuidedError: a package is missing, or there are too few GPUs or not enough memory for the KV cache.
        """
        loaded = load(
            name, adapter=adapter, device=device, dtype=dtype, kv_dtype=kv_dtype, tensor_parallel=tensor_parallel,
            pipeline_parallel=pipeline_parallel, compile=compile, revision=revision, draft_model=draft_model,
            context=context,
        )  # fmt: skip
        parts = loaded.parts
        return cls(
            parts.model, parts.vocabulary, chat=parts.chat, bos=parts.bos, kv_dtype=kv_dtype, ranks=loaded.ranks,
            draft_model=loaded.draft, describe=describe, context=context,
        )  # fmt: skip

    def close(self) -> None:
        """End the other processes of a split model. They also end when the engine is garbage-collected."""
        if self.ranks is not None:
            self.ranks.close()

    def __repr__(self) -> str:
        chat = "" if self.chat_template is None else ", with a chat template"
        return f"Engine({type(self.model).__name__} of {self.vocabulary.size} tokens{chat})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def compiler(self) -> GrammarCompiler:
        """Compiles specifications for this vocabulary and caches them."""
        return GrammarCompiler(self.vocabulary)

    @cached_property
    def async_driver(self) -> AsyncDriver:
        """Runs the requests of coroutines."""
        self.yield_in_background()
        return AsyncDriver(self.driver)

    def yield_in_background(self) -> None:
        """Let long calls on other threads yield to the model's steps, for users who read tokens as they come."""
        self._pool.yields = self.scheduler.background_steps.yields = True

    @cached_property
    def _pool(self) -> PolitePool:
        """Threads that compile the constraints of concurrent requests."""
        return PolitePool(_COMPILER_THREADS, "guided compiler", yields=False)

    # For a type, the value is an instance of it; for a regular expression or a choice, the text; otherwise any object.
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
    @keywords_checked(Options.__annotations__, foreign_keywords=FOREIGN_KEYWORDS)
    def generate(self, prompt: Prompt, constraint: Constraint = None, *, n: int = 1, **options: Unpack[Options]) -> Any:
        """Generate one `Result`, or a list of results if n > 1 (the model reads the prompt once).

        Args:
            prompt: a string, messages for the chat template, or token ids. If the model has a chat template, a string
                is sent as a user message. Otherwise, or with `raw=True`, the model continues the string. Names of
                control tokens in a string are encoded as ordinary text (`vocabulary.encode_with_special` encodes them
                as control tokens).
            constraint: None: free text up to an end token. A compiled grammar. A composed constraint
                (`guided.sequence`, `guided.choice`, ...). A mapping or a bool: a JSON Schema. A string: a regular
                expression that the whole output matches. A list of strings: one of them. A function: its arguments, as
                a JSON object. Anything else: a type.
            n: the number of outputs.
            **options: see `Options`.

        Raises:
            SpecError, UnsupportedError: the constraint cannot be used. BudgetError: no output fits the budget.
            GuidedError: the prompt cannot be used. OptionError: an option is out of range.
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
        Options.__annotations__,
        foreign_keywords={**FOREIGN_KEYWORDS, "n": "generate_each takes requests with their own n"},
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
        """Generate outputs for many prompts in one batch. Results are in the order of the prompts.

        Args:
            prompts: see `generate`.
            constraint: the constraint of all prompts, see `generate`.
            constraints: one for each prompt, instead of `constraint`.
            progress: called with `BatchProgress` whenever an output grows. True: a line on standard error if the batch
                takes more than two seconds.
            **options: for all prompts.

        Raises:
            The errors of `generate`, which stop the whole batch. ValueError: the numbers of constraints and prompts
            differ, or both `constraint` and `constraints` are given.
        """
        pairs = pair_with_constraints(prompts, constraint, constraints)
        groups = [self._background_tasks(prompt, constraint, 1, **options) for prompt, constraint in pairs]
        with ProgressCounter(len(groups), progress) as counter:
            return self._run(groups, counter)

    def generate_each(
        self, requests: Iterable[Request | Exception], *, total: int = 0, progress: ShowProgress | bool = False
    ) -> Generator[Answer, None, None]:
        """Answer many independent requests in one batch. A request that fails does not stop the others.

        Args:
            requests: the engine takes them from the iterable as earlier requests end. An exception among them is
                returned as its own answer.
            total: the number of requests, for `progress`.
            progress: see `generate_batch`.

        Returns:
            The answers in order of completion, each with the number of its request: its n results, or its error (see
            `generate`). Closing the generator cancels the remaining requests.
        """
        return answer_each(requests, self.tasks, self.driver.outcomes, ProgressCounter(total, progress))

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
        Options.__annotations__, foreign_keywords={**FOREIGN_KEYWORDS, "n": "stream_samples streams n outputs at once"}
    )
    def stream(
        self, prompt: Prompt, constraint: Constraint = None, **options: Unpack[Options]
    ) -> Iterator[StreamEvent]:
        """Like `generate` with n=1, but yield events. The last event contains the result. Closing the iterator cancels
        the request."""
        return (event for _, event in self.stream_samples(prompt, constraint, n=1, **options))

    @keywords_checked(Options.__annotations__, foreign_keywords=FOREIGN_KEYWORDS)
    def stream_samples(
        self, prompt: Prompt, constraint: Constraint = None, *, n: int, **options: Unpack[Options]
    ) -> Iterator[tuple[int, StreamEvent]]:
        """Like `stream`, for n outputs at once: yield events, each with the number of its output."""
        tasks = self._tasks(prompt, constraint, n, **options)
        numbers = {task: number for number, task in enumerate(tasks)}
        texts = {task: GrowingText(task.sequence.parse, task.sequence.prefill) for task in tasks}
        return ((numbers[task], texts[task].add(event)) for task, event in self.driver.events([tasks]))

    def logits(self, tokens: Sequence[int], keep: int = 1) -> torch.Tensor:
        """The model's logits after each of the last `keep` tokens: float32, (keep, vocab_size).

        Raises:
            OptionError: `keep` is not a number from 1 to the number of tokens. GuidedError: see `encode_prompt`.
        """
        runner, ids = self.scheduler.runner, read_token_ids(read_items("tokens", tokens))
        self._prompts.check(ids, reserve=0)
        check_integer("keep", keep, minimum=1)
        if keep > len(ids):
            raise OptionError(f"keep is {keep}, but the number of tokens is {len(ids)}", option="keep")
        with self.driver.lock:
            lease = runner.cache.open(ids, keep=keep)
            try:
                if not runner.cache.reserve(lease, len(ids) - lease.length):
                    raise MemoryError(f"{len(ids)} tokens do not fit into the cache together with the running requests")
                return runner.step([Chunk(lease, ids[lease.length :], keep)])
            finally:
                runner.cache.close(lease)

    def encode_prompt(self, prompt: Prompt, *, raw: bool = False) -> list[int]:
        """The ids that the model sees for a prompt; `raw` as for `generate`.

        Raises:
            GuidedError: the prompt is empty or too long, or the model has no template for messages.
        """
        return self._prompts.encode(prompt, raw=raw)

    def describe_prompt(self, prompt: Prompt, grammar: CompiledGrammar | None, *, raw: bool = False) -> Prompt:
        """The prompt with a description of the specification. Unchanged unless the engine has `describe=True`."""
        instructions = Instructions(self._prompts, grammar, raw=raw)
        return instructions.describe(prompt, is_required=False) if self._maker.describes_by_default else prompt

    def described(self, prompt: Prompt, grammar: CompiledGrammar | None, *, raw: bool = False) -> Prompt:
        """Deprecated: use `describe_prompt`."""
        warnings.warn("Engine.described is Engine.describe_prompt", DeprecationWarning, stacklevel=2)
        return self.describe_prompt(prompt, grammar, raw=raw)

    @property
    def _prompts(self) -> PromptReader:
        return PromptReader(self.vocabulary, self.model.config, self.context, self.chat_template, self.bos)

    def _tasks(self, prompt: Prompt, constraint: Constraint, n: int, **options: Any) -> list[Task]:
        """The tasks of one request. All errors in the request are raised here, before the first event."""
        return list(map(Task, self._maker.make(prompt, constraint, n, **options)))

    def _background_tasks(self, prompt: Prompt, constraint: Constraint, n: int, **options: Any) -> list[Task]:
        """Like `_tasks`, but prepared on another thread while other tasks run. An error becomes their outcome."""
        n = to_int(n)
        future = self._pool.submit(lambda: begin_steppers(self._maker.make(prompt, constraint, n, **options)))
        return [Task.from_future(future, number) for number in range(n if isinstance(n, int) and n > 0 else 1)]

    def tasks(self, request: Request) -> list[Task]:
        """The tasks of a request, for `driver`, prepared on another thread. An error becomes their outcome."""
        return self._background_tasks(request.prompt, request.constraint, request.n, **request.options)

    def outputs(self, request: Request, ids: list[int], compiler: GrammarCompiler) -> list[Output]:
        """The outputs of a request, created on this thread with the given compiler. `ids`: the ids of its prompt."""
        prompt, constraint = request.prompt, request.constraint
        return self._maker.make(prompt, constraint, request.n, ids=ids, compiler=compiler, **request.options)

    def prompt_ids(self, request: Request, ids: list[int], compiler: GrammarCompiler) -> list[int]:
        """The ids that the model sees for a request, with descriptions and instructions. Arguments as for `outputs`."""
        return self._maker.read_prompt(request.prompt, request.constraint, ids, compiler, **request.options)

    def _run(self, groups: Sequence[list[Task]], counter: ProgressCounter | None = None) -> list[Result]:
        """Run groups of tasks to completion. Return their results in order."""
        results = dict[Task, Result]()
        for task, event in self.driver.events(groups):
            if counter is not None:
                counter.count(event)
            if event.result is not None:
                results[task] = event.result
                if counter is not None:
                    counter.finish(len(event.result.tokens))
        return [results[task] for tasks in groups for task in tasks]
