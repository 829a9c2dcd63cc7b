"""Which generation a call with token ids continues, for engines that pass only the ids: rows that are copied, reordered
and rolled back, threads that share a processor, groups of beams, and prompts that begin with earlier answers.
"""

from __future__ import annotations

import random
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import guided
from guided.integrations import rows as rows_module
from guided.integrations.rows import RowMatchers

VOCABULARY = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
END = 256
PATTERN = "([ab]{2}c|b[ab]*d){2,40}"


@pytest.fixture(scope="module")
def grammar():
    return guided.GrammarCompiler(VOCABULARY).compile_regex(PATTERN)


def replay(grammar, tokens):
    matcher = guided.GrammarMatcher(grammar)
    for token in tokens:
        assert matcher.is_terminated() or matcher.accept_token(int(token))
    return matcher


def state(matcher):
    return mask_of(matcher).tolist(), matcher.is_terminated(), matcher.min_tokens_to_finish()


def mask_of(matcher):
    mask = guided.allocate_token_bitmask(1, VOCABULARY.size)
    matcher.fill_next_token_bitmask(mask)
    return mask[0]


def ids_of(*texts: bytes):
    return np.array([list(text) for text in texts], np.int64)


def allowed(matchers, *texts: bytes) -> list[set[str]]:
    """The characters that may follow each row; "" is the end."""
    masks = matchers.mask_rows(ids_of(*texts))
    rows = [guided.allowed_tokens(masks.bitmask, number) for number in range(len(texts))]
    return [{"" if id == END else chr(id) for id in row} for row in rows]


def test_rows_of_a_prompt_are_neighbours_that_begin_alike(grammar):
    ids = np.array([[1, 2], [1, 2], [1, 3], [1, 2], [1, 2]])
    for grammars, rows, expected in (
        ([grammar], ids, [(0, 2), (0, 2), (2, 3), (3, 5), (3, 5)]),
        ([grammar] * 2, ids[[0, 1, 1, 2]], [(0, 2), (0, 2), (2, 3), (3, 4)]),
        ([grammar, None], ids[[0, 0, 0, 0]], [(0, 2), (0, 2), (2, 4), (2, 4)]),
        ([grammar], ids[:1], [(0, 1)]),
    ):
        masks = RowMatchers(grammars).mask_rows(rows)
        assert [masks.rows_with_same_prompt(number) for number in range(len(rows))] == [
            list(range(*pair)) for pair in expected
        ]


def test_rows_are_found_whatever_becomes_of_them(grammar):
    """Rows that are copied, dropped, cut and continued at random have the state that replaying their tokens gives."""
    rng = random.Random(3)
    for _ in range(30):
        rows = RowMatchers([grammar, None])
        prompt = [[rng.randrange(50) for _ in range(3)] for _ in range(2)]
        ids = np.array([prompt[0]] * 3 + [prompt[1]] * 3)
        rows.follow(ids)
        for _ in range(25):
            if rng.random() < 0.2 and ids.shape[1] > 5:
                ids = ids[:, : rng.randrange(4, ids.shape[1])]  # rolled back
                found = rows.follow(ids)
            else:
                order = [rng.randrange(3) for _ in range(3)] + [3 + rng.randrange(3) for _ in range(3)]
                if rng.random() < 0.5:
                    order = list(range(6))
                new = []
                for at in order:
                    if at >= 3:
                        new.append(rng.randrange(50))
                        continue
                    twin = mask_of(replay(grammar, ids[at, 3:]))
                    new.append(rng.choice(guided.allowed_tokens(twin[None])))
                ids = np.concatenate([ids[order], np.array(new)[:, None]], 1)
                found = rows.follow(ids)
            for own, row in zip(ids, found, strict=True):
                assert row.output_length == ids.shape[1] - 3
                assert (row.matcher is None) == (own[:3].tolist() == prompt[1])
                if row.matcher is not None:
                    assert not row.is_dead and state(row.matcher) == state(replay(grammar, own[3:]))


class Simulated:
    """A generation of a thread: groups of beams, which may be rolled back together."""

    def __init__(self, matchers, grammar, rng, prompt: bytes, groups: int, beams: int) -> None:
        self.matchers, self.grammar, self.rng = matchers, grammar, rng
        self.pool = ThreadPoolExecutor(1)
        self.prompt_length = len(prompt)
        self.groups = [np.array([list(prompt)] * beams) for _ in range(groups)]
        self.next_group = 0

    def step(self) -> None:
        """One call of the engine: for the next group."""
        rng, number = self.rng, self.next_group
        ids = self.groups[number]
        masks = self.pool.submit(self.matchers.mask_rows, ids).result()
        for row, row_ids in enumerate(ids):
            expected = mask_of(replay(self.grammar, row_ids[self.prompt_length :]))
            assert (masks.bitmask[row] == expected).all(), (number, row_ids)
        if len(self.groups) == 1 and rng.random() < 0.2 and ids.shape[1] > self.prompt_length + 1:
            ids = ids[:, : rng.randrange(self.prompt_length + 1, ids.shape[1])]
        else:
            order = [rng.randrange(len(ids)) for _ in ids]
            new = []
            for row in order:
                choices = set(guided.allowed_tokens(masks.bitmask, row)) - {END}
                new.append(rng.choice(sorted(choices)) if choices else END)
            ids = np.concatenate([ids[order], np.array(new)[:, None]], 1)
        self.groups[number] = ids
        self.next_group = (number + 1) % len(self.groups)


@pytest.mark.parametrize("seed", range(12))
def test_generations_of_several_threads_alternate(grammar, seed):
    """In any order, with equal or different prompts, beams, groups of beams and rolled back tokens."""
    rng = random.Random(seed)
    matchers = RowMatchers([grammar])
    running = [
        Simulated(matchers, grammar, rng, rng.choice([b"one", b"two", b"three"]), *shape)
        for shape in ((1, 1), (1, 1), (1, 3), (2, 2), (3, 1), (2, 2))
    ]
    for _ in range(200):
        rng.choice(running).step()


def test_generations_of_one_thread_may_alternate(grammar):
    """As streams that are read in turn."""
    matchers = RowMatchers([grammar])
    for length in range(10):
        text = b"abcbbadaac"[:length]
        for prompt in (b"one", b"two", b"a prompt"):
            mask = matchers.mask_rows(ids_of(prompt + text)).bitmask[0]
            assert (mask == mask_of(replay(grammar, text))).all()


def test_a_part_of_the_rows_in_another_order(grammar):
    matchers = RowMatchers([grammar])
    allowed(matchers, b"p", b"q", b"r", b"p")
    assert allowed(matchers, b"ra", b"pb") == [{"a", "b"}, {"a", "b", "d"}]
    assert allowed(matchers, b"qa", b"pa") == [{"a", "b"}] * 2
    assert allowed(matchers, b"pbd") == [{"a", "b"}] and allowed(matchers, b"paa", b"qab") == [{"c"}] * 2
    assert allowed(matchers, b"rab") == [{"c"}]


def test_equal_prompts_with_different_constraints(grammar):
    """Their order tells them apart, so a part of the rows is refused."""
    other = guided.GrammarCompiler(VOCABULARY).compile_regex("[xy]a[xy]")
    matchers = RowMatchers([grammar, other])
    assert allowed(matchers, b"p", b"p") == [{"a", "b"}, {"x", "y"}]
    with pytest.raises(guided.GuidedError, match="pass all rows at each step"):
        matchers.mask_rows(ids_of(b"pa"))
    assert allowed(matchers, b"pa", b"px") == [{"a", "b"}, {"a"}]


def test_a_generation_that_is_no_longer_kept_is_an_error(grammar):
    matchers = RowMatchers([grammar])
    prompts = [b"prompt %d." % number for number in range(rows_module._MAX_GENERATIONS + 1)]
    for prompt in prompts:
        assert allowed(matchers, prompt) == [{"a", "b"}]
    assert allowed(matchers, prompts[1] + b"b") == [{"a", "b", "d"}]
    with pytest.raises(guided.GuidedError, match=r"create a processor for each sequence, .* call reset\(\)"):
        matchers.mask_rows(ids_of(prompts[0] + b"b"))
    matchers.reset()
    assert allowed(matchers, prompts[0] + b"b") == [{"a", "b"}]


@pytest.mark.parametrize("tail", [b"", b"x", b"a!", b"ab", b"abc!", b"abcbd?", b"abcbd."])
def test_prompts_that_begin_with_an_earlier_prompt_and_its_answer(grammar, tail):
    """Its last call was after `abcbd`. Other prompts came between."""
    matchers = RowMatchers([grammar])
    for number in range(6):
        assert allowed(matchers, b"p" + b"abcbd"[:number])
    assert allowed(matchers, b"q") == [{"a", "b"}]
    assert allowed(matchers, b"p" + tail) == [{"a", "b"}]


def test_drafts_that_the_budget_forbids_end_their_row(grammar):
    """transformers 4.51 requests masks after drafts that the previous masks forbid."""
    compiled = guided.GrammarCompiler(VOCABULARY).compile_regex("a(b[0-9]{9})?c")
    matchers = RowMatchers([compiled, None], 5)
    assert allowed(matchers, b"p", b"q")[0] == {"a"}
    assert allowed(matchers, b"pa", b"q.")[0] == {"c"}
    with pytest.warns(RuntimeWarning, match="row 0 has a token that its constraint does not allow"):
        assert allowed(matchers, b"pab", b"q..")[0] == {""}
    with pytest.warns(RuntimeWarning, match="row 0"):
        assert allowed(matchers, b"pab1", b"q...")[0] == {""}
    assert allowed(matchers, b"pac", b"q..")[0] == {""}  # the draft is rejected
    assert not matchers.follow(ids_of(b"pac", b"q.."))[0].is_dead
    with pytest.raises(guided.BudgetError):
        RowMatchers([compiled], 1)


def test_threads_share_a_processor(monkeypatch):
    """They call it while others compute. Only one call at a time changes the rows."""
    compiled = guided.GrammarCompiler(VOCABULARY).compile_regex("[ab]{2}[cd]{20}[ef]{2}")
    matchers, answers, barrier, inside = RowMatchers([compiled], 25), [], threading.Barrier(8), threading.Lock()
    fill_batch = rows_module.fill_batch

    def fill(*arguments, **options):
        assert inside.acquire(blocking=False)
        time.sleep(0.0005)
        fill_batch(*arguments, **options)
        inside.release()

    monkeypatch.setattr(rows_module, "fill_batch", fill)

    def write(number: int) -> None:
        rng, ids = random.Random(number), list(b"prompt %d" % (number % 3))
        begin = len(ids)
        barrier.wait()
        while ids[-1] != END:
            mask = matchers.mask_rows(np.array([ids])).bitmask
            ids.append(rng.choice(guided.allowed_tokens(mask)))
        answers.append(bytes(ids[begin:-1]).decode())

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(write, number) for number in range(8)]:
            future.result()
    assert len(answers) == 8 and all(re.fullmatch("[ab]{2}[cd]{20}[ef]{2}", answer) for answer in answers)
