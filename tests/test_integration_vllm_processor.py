"""The logits processor for vLLM, called as both of its model runners call it, on a stand-in for vLLM's interfaces.

There is a small runner of each kind. Requests enter, leave, are preempted and move. With the second one, drafts are
verified.
"""

from __future__ import annotations

import importlib
import json
import random
import re
from types import SimpleNamespace

import pytest

import guided
from guided.integrations.vllm.compilers import Compilers
from guided.integrations.vllm.rows import MaskedRequest
from guided.integrations.vllm.settings import Settings
from guided.integrations.vllm.specification import Specification
from tests.vllm_stand_in import SamplingParams, StructuredOutputsParams, install_stand_in

torch = pytest.importorskip("torch", reason="torch is not installed")

END, SIZE, CONTEXT = 256, 260, 64
VOCABULARY = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[END], size=SIZE)
KINDS = ({"regex": "[ab]{2,}c"}, {"choice": ["yes", "no"]}, {"json": {"type": "integer"}}, None)
PATTERNS = ("[ab]{2,}c", "yes|no", "0|-?[1-9][0-9]*", "(?s).*")


@pytest.fixture
def made(monkeypatch):
    """The class on the stand-in, and the stand-in's module of the V1 runner."""
    install_stand_in(monkeypatch)
    monkeypatch.setattr("guided.integrations.vllm.compilers.read_vocabulary", lambda tokenizer: VOCABULARY)
    module = importlib.import_module("guided.integrations.vllm.processor")
    return module.GuidedLogitsProcessor


def config() -> SimpleNamespace:
    model = SimpleNamespace(tokenizer=object(), max_model_len=CONTEXT, get_vocab_size=lambda: SIZE)
    return SimpleNamespace(model_config=model)


class Request:
    """A request that a runner serves until it ends or has used its tokens."""

    def __init__(self, kind: int, rng: random.Random) -> None:
        self.kind, self.prompt, self.output = kind, [rng.randrange(256) for _ in range(rng.randrange(1, 9))], []
        given = KINDS[kind]
        text = rng.random() < 0.5 and given is not None
        self.params = SamplingParams(
            rng.randrange(6, 20), extra_args=given and {"guided": json.dumps(given) if text else given}
        )
        self.params.all_stop_token_ids = {END}

    @property
    def is_over(self) -> bool:
        return END in self.output or len(self.output) >= self.params.max_tokens

    def judge(self) -> None:
        if KINDS[self.kind] is not None:
            assert self.output[-1] == END, "the answer is not complete"
            assert re.fullmatch(PATTERNS[self.kind], bytes(self.output[:-1]).decode())


def sampled(row: torch.Tensor, request: Request) -> int:
    allowed = torch.isfinite(row).nonzero().flatten().tolist()
    assert request.params.extra_args or len(allowed) == SIZE
    return random.choice(allowed)


class V1Runner:
    """A persistent batch, which is condensed and swapped as in vLLM."""

    def __init__(self, made, updates) -> None:
        self.processor = made(config(), torch.device("cpu"), False)
        self.rows: list[Request] = []
        self.updates = updates

    def step(self, entering: list[Request], rng: random.Random) -> None:
        removed, moved, added = [], [], []
        for place in [place for place, request in enumerate(self.rows) if request.is_over or rng.random() < 0.05]:
            request = self.rows[place]
            if not request.is_over:
                entering.append(request)  # preempted: it returns with its output so far
            self.rows[place] = None
            removed.append(place)
        for request in entering:
            place = self.rows.index(None) if None in self.rows else len(self.rows)
            self.rows[place : place + 1] = [request]
            added.append((place, request.params, request.prompt, request.output))
        while None in self.rows:
            empty, last = self.rows.index(None), len(self.rows) - 1
            if empty != last:
                self.rows[empty] = self.rows[last]
                if self.rows[last] is not None:
                    moved.append((last, empty, self.updates.MoveDirectionality.UNIDIRECTIONAL))
            self.rows.pop()
        if len(self.rows) > 1 and rng.random() < 0.5:
            one, other = rng.sample(range(len(self.rows)), 2)
            self.rows[one], self.rows[other] = self.rows[other], self.rows[one]
            moved.append((one, other, self.updates.MoveDirectionality.SWAP))
        update = self.updates.BatchUpdate(len(self.rows), removed, added, moved)
        self.processor.update_state(update if removed or added or moved else None)
        logits = torch.randn(len(self.rows), SIZE)
        assert self.processor.apply(logits) is logits
        for row, request in zip(logits, self.rows, strict=True):
            request.output.append(sampled(row, request))


def test_the_v1_runner(made):
    updates = importlib.import_module("vllm.v1.sample.logits_processor")
    rng = random.Random(1)
    runner, waiting = V1Runner(made, updates), [Request(number % 4, rng) for number in range(60)]
    every = list(waiting)
    assert not runner.processor.is_argmax_invariant()
    while waiting or not all(request.is_over for request in every):
        entering = [waiting.pop() for _ in range(min(len(waiting), rng.randrange(4)))]
        runner.step(entering, rng)
    for request in every:
        request.judge()


class V2Runner:
    """Slots, rows in any order, and up to three drafts for each request."""

    def __init__(self, made, slots: int) -> None:
        self.tokens = torch.zeros(slots, CONTEXT, dtype=torch.int32)
        self.prompt_len = torch.zeros(slots, dtype=torch.int32)
        self.state = SimpleNamespace(
            all_token_ids=SimpleNamespace(gpu=self.tokens), prompt_len=SimpleNamespace(np=self.prompt_len.numpy())
        )
        self.processor = made(config(), self.state)
        self.by_position: dict[int, Request] = {}
        self.read: dict[int, int] = {}  # the number of tokens of a prompt that were read

    def enter(self, request: Request) -> None:
        slot = next(slot for slot in range(len(self.tokens)) if slot not in self.by_position)
        self.by_position[slot], self.read[slot] = request, 0
        self.prompt_len[slot] = len(request.prompt)
        known = request.prompt + request.output
        self.tokens[slot, : len(known)] = torch.tensor(known)
        assert self.processor.add_request(slot, request.params) is (request.params.extra_args is not None)

    def step(self, rng: random.Random) -> None:
        rows = []  # slot, index among its rows, the token read, its position
        drafts: dict[int, list[int]] = {}
        for slot, request in self.by_position.items():
            known = request.prompt + request.output
            if self.read[slot] < len(request.prompt) and rng.random() < 0.4:  # a part of the prompt
                self.read[slot] = rng.randrange(1, len(request.prompt) + 1)
                rows.append((slot, 0, known[self.read[slot] - 1], self.read[slot] - 1))
                if self.read[slot] < len(request.prompt):
                    continue
                rows.pop()
            self.read[slot] = len(known)
            room = min(3, request.params.max_tokens - len(request.output) - 1, CONTEXT - len(known) - 1)
            likely = b"abc" if request.kind == 0 else b"yesno01"
            drafts[slot] = [rng.choice([*likely, END]) for _ in range(rng.randrange(max(0, room) + 1))]
            for number, token in enumerate([known[-1], *drafts[slot]]):
                rows.append((slot, number, token, len(known) - 1 + number))
        rng.shuffle(rows)
        slots, numbers, inputs, positions = (torch.tensor(column) for column in zip(*rows, strict=True))
        context = SimpleNamespace(
            expanded_idx_mapping=slots, expanded_local_pos=numbers, input_ids=inputs, pos=positions
        )
        logits = torch.randn(len(rows), SIZE)
        self.processor.apply(logits, context)
        by_place = {(slot, number): row for (slot, number, *_), row in zip(rows, logits, strict=True)}
        for slot, guesses in drafts.items():
            self.verify(slot, guesses, by_place)

    def verify(self, slot: int, guesses: list[int], by_place: dict[tuple[int, int], torch.Tensor]) -> None:
        """Accept drafts as long as they equal the samples. Every second allowed draft is sampled."""
        request = self.by_position[slot]
        for number in range(len(guesses) + 1):
            row = by_place[slot, number]
            token = sampled(row, request)
            if number < len(guesses) and torch.isfinite(row[guesses[number]]) and random.random() < 0.7:
                token = guesses[number]
            request.output.append(token)
            if request.is_over or number == len(guesses) or token != guesses[number]:
                break
        known = request.prompt + request.output
        self.tokens[slot, : len(known)] = torch.tensor(known)


def test_the_v2_runner(made):
    rng = random.Random(2)
    runner, waiting = V2Runner(made, 6), [Request(number % 4, rng) for number in range(60)]
    every, steps = list(waiting), 0
    while waiting or runner.by_position:
        for slot in [slot for slot, request in runner.by_position.items() if request.is_over or rng.random() < 0.03]:
            request = runner.by_position.pop(slot)
            if not request.is_over:
                waiting.append(request)  # preempted
        while waiting and len(runner.by_position) < 6:
            runner.enter(waiting.pop())
        if runner.by_position:
            runner.step(rng)
        steps += 1
    assert steps < sum(len(request.output) for request in every) / 3  # drafts were accepted
    for request in every:
        request.judge()


def test_the_context_is_a_budget_too(made):
    updates = importlib.import_module("vllm.v1.sample.logits_processor")
    processor = made(config(), torch.device("cpu"), False)
    params = SamplingParams(500, extra_args={"guided": {"regex": "a{3,}"}})
    params.all_stop_token_ids = {END}
    output = [ord("a")] * 3
    processor.update_state(updates.BatchUpdate(1, [], [(0, params, [1] * (CONTEXT - 5), output)], []))
    logits = torch.zeros(1, SIZE)
    processor.apply(logits)
    assert torch.isfinite(logits[0]).nonzero().flatten().tolist() == [ord("a"), END]
    output.append(ord("a"))
    processor.apply(logits)
    assert torch.isfinite(logits[0]).nonzero().flatten().tolist() == [END]


def test_a_request_that_cannot_be_served_ends_and_the_reason_is_logged(made, caplog):
    updates = importlib.import_module("vllm.v1.sample.logits_processor")
    processor = made(config(), torch.device("cpu"), False)
    outputs = [[], [ord("a")], []]
    every = [
        SamplingParams(3, extra_args={"guided": {"choice": ["too long"]}}),
        SamplingParams(9, extra_args={"guided": {"choice": ["yes"]}}),
        SamplingParams(9),
    ]
    for params in every:
        params.all_stop_token_ids = {END, 7}
    added = [(place, params, [1], output) for place, (params, output) in enumerate(zip(every, outputs, strict=True))]
    processor.update_state(updates.BatchUpdate(3, [], added, []))
    logits = torch.zeros(3, SIZE)
    processor.apply(logits)
    for row in logits[:2]:
        assert torch.isfinite(row).nonzero().flatten().tolist() == [7, END]
    assert torch.isfinite(logits[2]).all()
    assert "has 9 tokens, but the budget is 3" in caplog.text and "another processor chose a token" in caplog.text
    outputs[2].append(5)
    outputs[1][-1] = -1
    with pytest.raises(guided.GuidedError, match="--logits-processors"):
        processor.apply(logits)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"json": {"type": "integr"}}, "/type"),
        ('{"regex": "a("}', "line 1"),
        ("{", "not JSON"),
        (3, "must be an object"),
        ({"grammar": "start: <|x|>"}, "allow_special_tokens"),
        ({"regex": "a", "max_token": 3}, "max_token"),
    ],
)
def test_requests_are_checked_before_they_are_queued(made, given, said):
    with pytest.raises(ValueError, match=said):
        made.validate_params(SamplingParams(9, extra_args={"guided": given}))


def test_two_ways_at_once_are_refused_and_control_tokens_need_the_operators_word(made, monkeypatch):
    both = SamplingParams(9, None, StructuredOutputsParams(regex="a"), {"guided": {"regex": "a"}})
    with pytest.raises(ValueError, match="give only one"):
        made.validate_params(both)
    made.validate_params(SamplingParams())
    made.validate_params(SamplingParams(extra_args={"other": 1}))
    monkeypatch.setenv("GUIDED_VLLM", '{"allow_special_tokens": true}')
    made.validate_params(SamplingParams(9, extra_args={"guided": {"grammar": "start: <|x|>"}}))


def test_without_vllm_the_error_names_the_package(monkeypatch):
    import sys

    import guided.integrations.vllm as package

    for name in [name for name in sys.modules if name.split(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "guided.integrations.vllm.processor", raising=False)
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ImportError, match=r"guided-decoding\[vllm\]"):
        package.GuidedLogitsProcessor  # noqa: B018
    with pytest.raises(AttributeError):
        package.Other  # noqa: B018


def test_rollbacks_are_followed():
    compilers = Compilers(VOCABULARY, SIZE)
    masked = MaskedRequest(Specification("regex", "ab?c", max_tokens=9), [END], compilers, Settings())
    bitmask = guided.allocate_token_bitmask(1, SIZE)
    for written, expected in (
        (b"", b"a"), (b"ab", b"c"), (b"a", b"bc"), (b"ac", [END]), (b"", b"a"), (b"a", b"bc"),
    ):  # fmt: skip
        masked.follow(list(written))
        masked.fill(bitmask, 0)
        assert guided.allowed_tokens(bitmask) == list(expected) and masked.output_length == len(written)
