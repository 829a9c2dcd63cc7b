"""Many requests at once: answers equal those of single runs, errors do not stop other requests, and progress counts are
right.
"""

from __future__ import annotations

import io
import re
import sys
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.engine import driver
from guided.engine import progress as progress_module
from guided.engine.engine import Engine, Request
from guided.engine.progress import BatchProgress, ProgressLine
from guided.errors import BudgetError, GuidedError, SpecError
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.vocabulary.vocabulary import Vocabulary
from tests.effort import examples

torch.set_num_threads(1)
VOCABULARY = Vocabulary([bytes([b]) for b in range(128)], eos_token_ids=[128])
CONFIG = LlamaConfig(layers=1, dim=16, heads=2, kv_heads=1, head_dim=8, hidden=24, vocab_size=129, context=80)
ENGINE = Engine(Llama.random(CONFIG, seed=7), VOCABULARY)

GOOD = st.builds(
    lambda prompt, constraint, n, seed, most: Request(
        prompt, constraint, n, {"seed": seed, "max_tokens": most, "temperature": 1.0}
    ),
    st.sampled_from(["a", "ab", "abc" * 9]),
    st.sampled_from([None, "[a-c]{2,5}", ["yes", "no"], {"type": "boolean"}]),
    st.integers(1, 3),
    st.integers(0, 99),
    st.integers(7, 20),
)
BAD = st.sampled_from(
    [
        Request("a", "(a"),
        Request("a", "a{9}", options={"max_tokens": 9}),
        Request("a", options={"min_tokens": 9, "max_tokens": 3}),
        Request(""),
        Request("a", n=0),
        GuidedError("its own"),
    ]
)


def error_of(request):
    if isinstance(request, Exception):
        return request
    with pytest.raises((GuidedError, ValueError)) as caught:
        ENGINE.generate(request.prompt, request.constraint, n=request.n, **request.options)
    return caught.value


@examples(30)
@given(st.lists(GOOD | BAD, max_size=12), st.sampled_from([1, 3, 512]))
def test_answers_match_single_runs(requests, ahead):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "_MAX_OWN_TASKS", ahead)
        seen = list[BatchProgress]()
        answers = dict(ENGINE.generate_each(iter(requests), total=len(requests), progress=seen.append))
    assert sorted(answers) == list(range(len(requests)))
    tokens = 0
    for number, request in enumerate(requests):
        answer = answers[number]
        if isinstance(answer, Exception):
            alone = error_of(request)
            assert (type(answer), str(answer)) == (type(alone), str(alone))
        else:
            alone = ENGINE.generate(request.prompt, request.constraint, n=request.n, **request.options)
            alone = alone if isinstance(alone, list) else [alone]
            assert [r.tokens for r in answer] == [r.tokens for r in alone]
            tokens += sum(len(r.tokens) for r in answer)
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    if requests:
        assert (seen[-1].done, seen[-1].total, seen[-1].tokens) == (len(requests), len(requests), tokens)
    assert (ENGINE.scheduler.running_count, ENGINE.scheduler.waiting_count, ENGINE.driver._callbacks) == (0, 0, {})


def test_a_failing_request_does_not_affect_others():
    """A stop pattern with too many unfinished matches is only detected while the text is generated."""
    requests = [
        Request("a", options={"max_tokens": 9}),
        Request("b", options={"max_tokens": 9, "stop_regex": "(?s:.{1,60})z"}),
        Request("c", n=3, options={"max_tokens": 9}),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("guided.engine.stopping._MAX_CANDIDATES", 3)
        answers = dict(ENGINE.generate_each(requests))
    assert isinstance(answers[1], GuidedError)
    assert "more than 3 unfinished matches" in str(answers[1])
    assert [len(answers[0]), len(answers[2])] == [1, 3]
    assert answers[0][0].tokens == ENGINE.generate("a", max_tokens=9).tokens


def test_requests_are_read_when_there_is_space(monkeypatch):
    monkeypatch.setattr(driver, "_MAX_OWN_TASKS", 4)
    taken = []

    def requests():
        for number in range(40):
            taken.append(number)
            yield Request("a", "[a-c]{3}", options={"max_tokens": 9})

    answers = ENGINE.generate_each(requests())
    next(answers)
    assert len(taken) <= 9
    answers.close()
    assert (ENGINE.scheduler.running_count, ENGINE.scheduler.waiting_count, ENGINE.driver._callbacks) == (0, 0, {})
    assert len(taken) <= 9


def test_a_batch_reports_its_progress():
    seen = list[BatchProgress]()
    results = ENGINE.generate_batch(["a"] * 5, "[a-c]{4,9}", max_tokens=12, progress=seen.append)
    assert {p.total for p in seen} == {5}
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert (seen[-1].done, seen[-1].tokens) == (5, sum(len(r.tokens) for r in results))
    assert all(a.seconds <= b.seconds and a.tokens <= b.tokens for a, b in pairwise(seen))
    with pytest.raises(SpecError):
        ENGINE.generate_batch(["a", "b"], constraints=[None, "("], progress=True)
    with pytest.raises(BudgetError):
        ENGINE.generate_batch(["a", "b"], constraints=[None, "a{9}"], max_tokens=5, progress=seen.append)


def test_figures_of_progress():
    half = BatchProgress(done=3, total=12, tokens=600, tokens_done=300, seconds=10.0)
    assert (half.tokens_per_second, half.seconds_left) == (
        60.0,
        10.0,
    )  # 12 requests of 100 tokens, half of them written
    assert str(half) == "3 of 12 requests, 600 tokens in 00:10, 60 tokens/s, 00:10 left"
    assert BatchProgress(0, 3, 0, 0, 0.0).seconds_left is None
    assert BatchProgress(1, 3, 50, 0, 1.0).seconds_left is None  # one failed; none of the others is done
    assert BatchProgress(1, 2, 500, 1, 1.0).seconds_left == 0.0  # longer than expected
    assert str(BatchProgress(0, 3, 0, 0, 0.0)) == "0 of 3 requests, 0 tokens in 00:00, 0 tokens/s"
    assert str(BatchProgress(7, 0, 9, 9, 3.0)) == "7 requests, 9 tokens in 00:03, 3 tokens/s"
    assert BatchProgress(3, 3, 9, 9, 3.0).seconds_left == 0.0


def test_the_estimate_is_steady_though_requests_end_together():
    """Eight requests at a time, all of 100 tokens, 10 steps per second: the first ends when 8 * 100 tokens exist."""
    errors = []
    for step in range(101, 1000):
        done = 8 * (step // 100)
        left = BatchProgress(done, 80, 8 * step, 100 * done, step / 10).seconds_left
        errors.append(abs(left - (1000 - step) / 10))
    assert max(errors) < 0.01


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("terminal", [True, False])
def test_the_bar_speaks_after_two_seconds_and_ends_with_a_line(monkeypatch, terminal):
    clock = [1000.0]
    monkeypatch.setattr("tqdm.std.time", lambda: clock[0])
    err = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", err)
    line = ProgressLine()
    for tenths in range(200):
        clock[0] = 1000 + tenths / 10  # five times a second on a terminal, otherwise every ten seconds
        line(BatchProgress(tenths, 400, 10 * tenths, 10 * tenths, tenths / 10))
        if tenths == 10:
            line.print_line("early")
        if tenths < 20:
            assert err.getvalue() in ("", "early\n")
    line.print_line("a remark")
    clock[0] += 0.05
    line(BatchProgress(400, 400, 4000, 4000, 20.0))
    line.close()
    said = err.getvalue()
    *_, last = said.rstrip("\n").split("\r")
    assert last.strip() == f"100%|{'#' * 24}| 400 of 400 requests, 4,000 tokens in 00:20, 200 tokens/s"
    assert said.endswith("\n")
    assert re.search(r"\r +\ra remark\n", said)
    assert "% |" not in said
    drawn = said.count("tokens/s")
    assert 55 <= drawn <= 95 if terminal else 2 <= drawn <= 4


def test_a_short_batch_shows_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", err := Terminal())
    ENGINE.generate_batch(["a"] * 3, "[a-c]{4}", max_tokens=9, progress=True)
    list(ENGINE.generate_each([Request("a", "[a-c]{3}", options={"max_tokens": 9})], total=1, progress=True))
    assert err.getvalue() == ""


@pytest.mark.parametrize("each", [True, False])
def test_a_batch_that_is_shown_counts_tokens(monkeypatch, each):
    monkeypatch.setattr(sys, "stderr", err := Terminal())
    monkeypatch.setattr(progress_module, "_QUIET_SECONDS", 0.0)
    if each:
        requests = [Request("a", "[a-c]{3}", options={"max_tokens": 9})] * 2 + [Request("a", "(")]
        list(ENGINE.generate_each(requests, total=3, progress=True))
    else:
        ENGINE.generate_batch(["a"] * 3, "[a-c]{2}", max_tokens=9, progress=True)
    assert re.search(r"100%\|#+\| 3 of 3 requests, \d+ tokens in 00:\d\d, \d+ tokens/s *\n$", err.getvalue())


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (b"abc", "a prompt must be text, messages or token ids, not bytes: decode the bytes"),
        (bytearray(b"abc"), "not bytes: decode the bytes"),
        (None, "a prompt must be text, messages or token ids, not None"),
        (12, "a prompt must be text, messages or token ids, not 12"),
        ({"role": "user", "content": "x"}, "not {'role': 'user', 'content': 'x'}: put a single message into a list"),
        (
            {"type": "string"},
            "not {'type': 'string'}: the first argument is the prompt, and the second is the",
        ),
        (int, "not <class 'int'>: the first argument is the prompt"),
    ],
)
def test_invalid_prompts(prompt, message):
    for call in (ENGINE.generate, lambda prompt, _: ENGINE.generate_batch(["a", prompt], "a")):
        with pytest.raises(TypeError, match=re.escape(message)):
            call(prompt, "a")
    ((_, error),) = ENGINE.generate_each([Request(prompt, "a")])
    assert isinstance(error, TypeError)
    assert message in str(error)


@pytest.mark.parametrize("prompts", ["Who?", b"Who?"])
def test_a_single_text_is_refused_as_a_batch(prompts):
    with pytest.raises(TypeError, match=r"prompts must be a list of prompts, not (str|bytes)"):
        ENGINE.generate_batch(prompts, "a")
    ((_, error), *_) = ENGINE.generate_each(prompts)
    assert isinstance(error, TypeError)
    assert str(error).startswith("a request must be a guided.Request, not ")
