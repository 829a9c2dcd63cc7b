"""nanochat's API on our engine: its columns and rows equal the outputs of single runs."""

from __future__ import annotations

import inspect
from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.engine.engine import Engine
from guided.engine.nanochat import NanochatEngine
from guided.errors import GuidedError
from guided.tools import CALCULATOR
from guided.vocabulary import Vocabulary
from tests.effort import examples
from tests.tool_support import (
    BEGIN_CALL,
    BEGIN_RESULT,
    END,
    END_CALL,
    END_RESULT,
    ENGINE,
    MODEL,
    VOCABULARY,
)  # fmt: skip

PROMPT = VOCABULARY.encode("What is 2+2?")
NANOCHAT = NanochatEngine(ENGINE)


class Calling:
    """The random model, with a higher probability for some tokens."""

    def __init__(self, likely: dict[int, float]) -> None:
        self.likely = likely
        self.config, self.dtype, self.device, self.forward = MODEL.config, MODEL.dtype, MODEL.device, MODEL.forward

    def logits(self, hidden):
        scores = MODEL.logits(hidden)
        for token, more in self.likely.items():
            scores[:, token] += more
        return scores


CALLING = NanochatEngine(Engine(Calling({BEGIN_CALL: 4.0, END_CALL: 4.0, END: 2.0}), VOCABULARY))


def test_the_calls_are_nanochats():
    assert list(inspect.signature(NANOCHAT.generate).parameters.items())[1:] == [
        (name, inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation))
        for name, default, annotation in [
            ("num_samples", 1, "int"), ("max_tokens", None, "int | None"), ("temperature", 1.0, "float"),
            ("top_k", None, "int | None"), ("seed", 42, "int"),
        ]
    ]  # fmt: skip
    assert inspect.isgenerator(NANOCHAT.generate(PROMPT))


@examples(25)
@given(st.integers(1, 4), st.integers(1, 60), st.integers(0, 10**6), st.sampled_from([None, 0, 5]))
def test_columns_are_single_runs_side_by_side(rows, max_tokens, seed, top_k):
    options = {"max_tokens": max_tokens, "temperature": 1.0, "seed": seed, "top_k": top_k}
    columns = list(CALLING.generate(PROMPT, rows, **options))
    assert all(len(tokens) == len(masks) == rows for tokens, masks in columns)
    assert len(columns) <= max_tokens
    singles = []
    for row in range(rows):
        options["seed"] = seed + row
        single = [(token, mask) for (token,), (mask,) in CALLING.generate(PROMPT, **options)]
        singles.append(single)
    for column, expected in zip(columns, zip_longest(*singles, fillvalue=(END, 0)), strict=True):
        assert list(zip(*column, strict=True)) == list(expected)
    options["seed"] = seed
    results, masks = CALLING.generate_batch(PROMPT, rows, **options)
    for single, tokens, mask in zip(singles, results, masks, strict=True):
        kept = single[:-1] if single[-1][0] == END else single
        assert tokens == [*PROMPT, *(token for token, _ in kept)]
        assert mask == [0] * len(PROMPT) + [m for _, m in kept]
        assert len(single) == max_tokens or single[-1] == (END, 1)


def test_the_calculators_results_have_mask_0():
    results, masks = CALLING.generate_batch(PROMPT, 12, max_tokens=80, seed=3)
    calls = 0
    for tokens, mask in zip(results, masks, strict=True):
        at = 0
        while BEGIN_CALL in tokens[at:]:
            start = tokens.index(BEGIN_CALL, at)
            closed = tokens.index(END_CALL, start)
            at = tokens.index(END_RESULT, closed) + 1
            text, said = (
                VOCABULARY.decode(tokens[a + 1 : b]).decode() for a, b in ((start, closed), (closed + 1, at - 1))
            )
            assert tokens[closed + 1] == BEGIN_RESULT
            assert said in (CALCULATOR.answer(text), "")
            assert set(mask[closed + 1 : at]) == {0}
            calls += 1
    assert calls > 12


def test_rows_that_ended_hold_the_end_and_are_not_decoded():
    read = []
    engine = Engine(Calling({END: 4.0}), VOCABULARY)
    step = engine.scheduler.runner.step
    engine.scheduler.runner.step = lambda chunks: read.append(len(chunks)) or step(chunks)
    columns = list(NanochatEngine(engine, tools=[]).generate(PROMPT, 4, max_tokens=60, seed=5))
    rows = list(zip(*(list(zip(*column, strict=True)) for column in columns), strict=True))
    ends = [row.index((END, 1)) if (END, 1) in row else len(row) for row in rows]
    assert len(set(ends)) > 1
    for row, end in zip(rows, ends, strict=True):
        assert set(row[end + 1 :]) <= {(END, 0)}
    assert read == [1] + [sum(end >= at for end in ends) for at in range(1, len(columns))]


def test_without_a_bound_it_goes_to_the_end_of_the_context():
    never = NanochatEngine(Engine(Calling({END: -50.0}), VOCABULARY))
    for tools in (None, []):
        never = NanochatEngine(never.engine, tools)
        columns = list(never.generate(PROMPT))
        assert len(columns) == MODEL.config.context - len(PROMPT)


def test_tools_need_tokens_of_the_vocabulary():
    assert NANOCHAT.tools == [CALCULATOR]
    bare = Vocabulary([bytes([b]) for b in range(256)], eos_token_ids=[258, 257], special_tokens={258: "<|bos|>"})
    plain = NanochatEngine(Engine(MODEL, bare))
    assert (plain.tools, plain.end, NANOCHAT.end) == ([], 257, END)
    greedy = [column[0][0] for column in plain.generate([1, 2], max_tokens=5, temperature=0.0)]
    assert greedy == plain.engine.generate([1, 2], max_tokens=5).tokens


def test_refusals_and_closing():
    for options, message in [({"temperature": -1.0}, "temperature"), ({"num_samples": 0}, "n is 0")]:
        with pytest.raises(ValueError, match=message):
            NANOCHAT.generate(PROMPT, **options)
    with pytest.raises(GuidedError, match="the prompt is empty"):
        NANOCHAT.generate([])
    columns = NANOCHAT.generate(PROMPT, 3)
    next(columns)
    columns.close()
    assert (ENGINE.scheduler.running_count, ENGINE.scheduler.waiting_count) == (0, 0)
