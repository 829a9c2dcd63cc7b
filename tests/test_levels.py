"""Three levels of guided decoding, with the 65 characters of Tiny Shakespeare."""

from __future__ import annotations

import ast
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import guided.levels
from guided.engine.engine import Engine
from guided.errors import BudgetError, GuidedError, SpecError
from guided.levels import (
    NAME_LINE,
    CompiledFSM,
    GuidedFSM,
    Reader,
    apply_token_mask,
    build_char_classes,
    compile_pattern,
    generate_guided,
    generate_guided_static,
    greedy,
)
from guided.matching import GrammarCompiler
from guided.vocabulary import Vocabulary
from tests.effort import every
from tests.level_support import CHARACTERS, CLASSES, END, STOI, ids, text

pytest.importorskip("safetensors")
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def model():
    return Reader(Engine.from_pretrained("shakespeare", dtype="float32").model)


def noise(idx: torch.Tensor) -> torch.Tensor:
    """A model without preferences, including the end token."""
    return torch.zeros(idx.shape[0], END + 1)


def name_line(end_tokens=()) -> GuidedFSM:
    """The automaton, written by hand, edge by edge."""
    fsm = GuidedFSM(end_tokens)
    fsm.add_transition(0, CLASSES["UPPER"], 1)
    fsm.add_transition(1, CLASSES["UPPER"], 1)
    fsm.add_transition(1, {STOI[":"]}, 2)
    fsm.add_transition(2, {STOI[" "]}, 3)
    fsm.add_transition(3, CLASSES["LOWER"], 4)
    fsm.add_transition(4, CLASSES["LOWER"], 4)
    fsm.add_transition(4, {STOI["\n"]}, 5)
    fsm.accept_states = {5}
    return fsm


# ---- the vocabulary, its classes, the mask
def test_the_vocabulary_and_its_classes():
    assert [STOI[char] for char in "\n :AZaz"] == [0, 1, 10, 13, 38, 39, 64]
    sizes = {name: len(tokens) for name, tokens in CLASSES.items()}
    assert sizes == {
        "UPPER": 26, "LOWER": 26, "DIGIT": 1, "NEWLINE": 1, "SPACE": 1, "PUNCT": 10, "LETTER": 52, "ANY": 65
    }  # fmt: skip
    assert "".join(CHARACTERS[token] for token in sorted(CLASSES["PUNCT"])) == "!$&',-.:;?"
    single = [CLASSES[name] for name in ("UPPER", "LOWER", "DIGIT", "NEWLINE", "SPACE", "PUNCT")]
    assert sorted(token for tokens in single for token in tokens) == list(range(65))


def test_nothing_allowed_is_an_error():
    with pytest.raises(ValueError, match="no token is allowed"):
        apply_token_mask(torch.zeros(65), set())
    with pytest.raises(ValueError, match="the id 65 is allowed, but there are 65 logits"):
        apply_token_mask(torch.zeros(65), {3, 65})


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=70), st.data())
def test_a_mask_keeps_the_odds_of_what_it_allows(logits, data):
    allowed = data.draw(st.sets(st.integers(0, len(logits) - 1), min_size=1))
    before = torch.tensor(logits, dtype=torch.float64)
    whole, masked = before.softmax(0), apply_token_mask(before, allowed).softmax(0)
    share = whole[list(allowed)].sum()
    for token in range(len(logits)):
        expected = whole[token] / share if token in allowed else torch.tensor(0.0, dtype=torch.float64)
        torch.testing.assert_close(masked[token], expected)
    assert before.isfinite().all()  # the masked logits are a copy


# ---- level 1
@pytest.mark.parametrize("seed", every(2, range(5)))
def test_level_1_five_letters_and_a_newline(model, seed):
    torch.manual_seed(seed)
    rows = torch.cat((ids("\n"), ids("e")))  # two sequences at once
    out = generate_guided_static(model, rows, [CLASSES["LOWER"]] * 5 + [CLASSES["NEWLINE"]])
    assert out.shape == (2, 7)
    assert torch.equal(out[:, :1], rows)
    assert all(re.fullmatch("[a-z]{5}\n", text(row)) for row in out[:, 1:])


def test_level_1_rows_do_not_see_each_other(model):
    masks = [CLASSES["LETTER"] | CLASSES["SPACE"]] * 12
    rows = torch.cat((ids("First"), ids("KING ")))
    both = generate_guided_static(model, rows, masks, choose=greedy)
    single = [generate_guided_static(model, row[None], masks, choose=greedy) for row in rows]
    assert torch.equal(both, torch.cat(single))


# ---- level 2
def test_level_2_by_hand():
    fsm = name_line()
    assert fsm.allowed_tokens() == CLASSES["UPPER"]
    assert not fsm.advance(STOI["a"]) and fsm.current_state == 0  # refused: nothing changes
    for char, state in zip("HE: a\n", (1, 1, 2, 3, 4, 5), strict=True):
        assert not fsm.is_complete()
        assert fsm.advance(STOI[char])
        assert fsm.current_state == state
    assert fsm.is_complete() and fsm.allowed_tokens() == set() and not fsm.advance(0)
    fsm.reset()
    assert fsm.current_state == 0 and not fsm.is_complete()
    assert len({*fsm.transitions, *(to for edges in fsm.transitions.values() for to in edges.values())}) == 6


@pytest.mark.parametrize("make", [name_line, lambda: compile_pattern(NAME_LINE, CLASSES, STOI)])
@pytest.mark.parametrize("seed", every(2, range(5)))
def test_level_2_and_3_name_lines(model, make, seed):
    torch.manual_seed(seed)
    out = generate_guided(model, ids("\n"), make(), 40)
    assert re.fullmatch("\n[A-Z]+: [a-z]+\n", text(out.idx))
    assert (out.complete, out.ending) == (True, "format")


def test_an_edge_that_would_make_two_ways_is_refused():
    fsm = name_line([END])
    with pytest.raises(ValueError, match="token 13 would lead from state 1 to both 2 and state 1"):
        fsm.add_transition(1, {STOI["A"]}, 2)
    with pytest.raises(ValueError, match="token 65 would lead from state 1 to both 2 and the end"):
        fsm.add_transition(1, {END}, 2)
    fsm.add_transition(1, {STOI["A"]}, 1)  # unchanged
    assert fsm.transitions[1] == name_line().transitions[1]


def test_the_end_of_the_budget_is_reported_or_planned_for():
    torch.manual_seed(0)
    fsm = name_line()
    cut = generate_guided(noise, ids("\n"), fsm, 3, within_budget=False)
    assert (cut.complete, cut.ending, cut.idx.shape) == (False, "budget", (1, 4))
    for budget in (5, 6, 9):
        out = generate_guided(noise, ids("\n"), fsm, budget)
        assert re.fullmatch("\n[A-Z]+: [a-z]+\n", text(out.idx))
        assert out.complete and out.idx.shape[1] <= budget + 1
    with pytest.raises(BudgetError, match="shortest completion has 5 tokens, but the budget is 4"):
        generate_guided(noise, ids("\n"), fsm, 4)
    with pytest.raises(BudgetError, match="shortest known completion has 5 tokens, but the budget is 4"):
        generate_guided(noise, ids("\n"), compile_pattern(NAME_LINE, CLASSES, STOI), 4)


def test_machines_without_a_way_to_the_end():
    fsm = GuidedFSM()
    fsm.add_transition(0, {3}, 1)
    with pytest.raises(GuidedError, match="no accepting state can be reached from state 0"):
        generate_guided(noise, ids("\n"), fsm, 5)
    with pytest.raises(ValueError, match="no token is allowed"):
        generate_guided(noise, ids("\n"), fsm, 5, within_budget=False)
    with pytest.raises(ValueError, match="a machine follows one sequence"):
        generate_guided(noise, torch.zeros(2, 1, dtype=torch.int64), fsm, 5)


def test_the_budget_avoids_what_leads_nowhere():
    fsm = GuidedFSM()
    fsm.add_transition(0, {1, 2}, 0)
    fsm.add_transition(0, {3}, 1)  # from here, no edge leads on
    fsm.add_transition(0, {4}, 2)
    fsm.accept_states = {2}
    assert fsm.allowed_tokens() == {1, 2, 3, 4}
    assert (fsm.allowed_tokens(2), fsm.allowed_tokens(1)) == ({1, 2, 4}, {4})


# ---- level 3
def test_level_3_is_the_same_machine():
    """All reachable states, compared side by side."""
    compiled, hand = compile_pattern(NAME_LINE, CLASSES, STOI, end_tokens=[END]), name_line([END])
    assert compiled.grammar.native.positions == 6
    seen, front = {0}, [""]
    while front:
        path = front.pop()
        for fsm in (compiled, hand):
            fsm.reset()
            assert all(fsm.advance(STOI[char]) for char in path)
        for budget in (None, *range(hand._compute_distances()[hand.current_state], 8)):
            assert compiled.allowed_tokens(budget) == hand.allowed_tokens(budget)
        assert compiled.is_complete() == hand.is_complete()
        state = hand.current_state
        for token in hand.allowed_tokens() - {END}:
            if (to := hand.transitions[state][token]) not in seen:
                seen.add(to)
                front.append(path + CHARACTERS[token])
    assert seen == set(range(6))
    assert compiled.advance(END) and compiled.is_complete() and compiled.allowed_tokens() == set()
    assert compiled.allowed_tokens(0) == set() and not compiled.advance(END)


def test_overlap_is_decided_by_what_follows():
    """One or more letters, then an 'A': taking the first matching edge would never end."""
    fsm = compile_pattern([("UPPER", "+"), ("A", "1")], CLASSES, STOI, end_tokens=[END])
    for word in ("BA", "AA", "ABBA", "A", "AB", "B"):
        fsm.reset()
        assert all(fsm.advance(STOI[char]) for char in word)
        assert fsm.is_complete() == bool(re.fullmatch("[A-Z]+A", word))
    endings = set()
    for seed in range(40):
        torch.manual_seed(seed)
        out = generate_guided(noise, ids("\n"), fsm, 30)
        assert re.fullmatch("\n[A-Z]+A", text(out.idx))
        endings.add(out.ending)
        assert out.complete
    assert endings == {"end token", "budget"}


def test_a_final_plus_continues():
    fsm = compile_pattern([("LOWER", "+")], CLASSES, STOI, end_tokens=[END])
    lengths, endings = set(), set()
    for seed in range(60):
        torch.manual_seed(seed)
        out = generate_guided(noise, ids("\n"), fsm, 30)
        assert re.fullmatch("\n[a-z]+", text(out.idx)) and out.complete
        assert out.ending == "end token" or out.idx.shape[1] == 31
        lengths.add(out.idx.shape[1])
        endings.add(out.ending)
    assert len(lengths) > 10
    assert endings == {"end token", "budget"}
    torch.manual_seed(0)  # without an end token the budget ends it, and it is complete
    endless = compile_pattern([("LOWER", "+")], CLASSES, STOI)
    for within_budget in (True, False):
        out = generate_guided(noise, ids("\n"), endless, 9, within_budget=within_budget)
        assert (out.idx.shape[1], out.complete, out.ending) == (10, True, "budget")


def test_a_budget_does_not_end_the_format():
    """'a' or 'abc': the second is out of reach within two tokens."""
    fsm = GuidedFSM()
    for state, char in enumerate("abc"):
        fsm.add_transition(state, {STOI[char]}, state + 1)
    fsm.accept_states = {1, 3}
    assert generate_guided(noise, ids("\n"), fsm, 2)[1:] == (True, "budget")
    assert generate_guided(noise, ids("\n"), fsm, 3)[1:] == (True, "format")
    assert generate_guided(noise, ids("\n"), fsm, 2, within_budget=False)[1:] == (False, "budget")


ELEMENTS = st.lists(
    st.tuples(st.sampled_from(["UPPER", "LOWER", "SPACE", "LETTER", "A", "a", ":", "\n"]), st.sampled_from("1+")),
    min_size=1, max_size=5,
)  # fmt: skip
RANGES = {"UPPER": "[A-Z]", "LOWER": "[a-z]", "SPACE": " ", "LETTER": "[A-Za-z]"}


@given(ELEMENTS, st.randoms(use_true_random=False), st.integers(0, 6))
def test_every_walk_of_every_pattern_matches(elements, rng: random.Random, slack):
    """Any allowed choice is taken: the text matches when the machine reports the end, within the budget."""
    pattern = re.compile("".join(RANGES.get(name, name) + quantifier.strip("1") for name, quantifier in elements))
    fsm = compile_pattern(elements, CLASSES, STOI, end_tokens=[END])
    budget = len(elements) + slack
    written = ""
    for left in range(budget, 0, -1):
        assert fsm.is_complete() == bool(pattern.fullmatch(written))
        allowed = sorted(fsm.allowed_tokens(left))
        assert (END in allowed) == fsm.is_complete()
        if allowed == [END] or (token := rng.choice(allowed)) == END:
            break
        assert fsm.advance(token)
        written += CHARACTERS[token]
    assert pattern.fullmatch(written) and fsm.is_complete()


def test_any_compiled_grammar_is_such_a_machine(model):
    """With a stack, too: matching brackets, which no finite machine can count."""
    vocabulary = Vocabulary.without_end([char.encode() for char in CHARACTERS + "[]0"])
    schema = {"$ref": "#/$defs/nest", "$defs": {"nest": {"type": "array", "items": {"$ref": "#/$defs/nest"}}}}
    fsm = CompiledFSM(GrammarCompiler(vocabulary).compile_json_schema(schema, whitespace="compact"))
    torch.manual_seed(1)
    out = generate_guided(lambda idx: torch.zeros(1, 68), torch.tensor([[0]]), fsm, 25)
    written = "".join((CHARACTERS + "[]0")[token] for token in out.idx[0, 1:].tolist())
    assert out.complete and isinstance(ast.literal_eval(written), list)
    assert written.count("[") == written.count("]") > 1


def test_patterns_are_refused_with_their_place():
    for elements, message in (
        ([("UPPER", "+"), ("é", "1")], "element 1: no token spells 'é'"),
        ([("UPER", "+")], "element 0: 'UPER' is neither a class nor one character"),
        (["UPPER"], "element 0 is not a pair of strings"),
        ([(3, "1")], "element 0 is not a pair of strings"),
        ([("A", "*")], "element 0: the quantifier '*' is unknown"),
    ):
        with pytest.raises(SpecError, match=re.escape(message)):
            compile_pattern(elements, CLASSES, STOI)


def test_classes_of_other_alphabets():
    stoi = {char: token for token, char in enumerate("ÄäЖж٣ \n€")}
    classes = build_char_classes(stoi)
    assert (classes["UPPER"], classes["LOWER"], classes["DIGIT"], classes["PUNCT"]) == ({0, 2}, {1, 3}, {4}, {7})
    fsm = compile_pattern([("UPPER", "1"), ("LOWER", "+"), ("€", "1")], classes, stoi)
    assert fsm.allowed_tokens() == {0, 2} and fsm.advance(2) and fsm.allowed_tokens() == {1, 3}


# ---- imports and sizes
def test_the_machine_by_hand_is_plain_python():
    """Level 2 imports nothing that computes, and each file is short."""
    folder = Path(guided.levels.__file__).parent
    tree = ast.parse((folder / "fsm.py").read_text())
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {name.split(".")[0] for name in names} <= {*sys.stdlib_module_names, "guided"}
    assert {name for name in names if name.startswith("guided")} == {"guided.errors"}
    assert all(path.read_text().count("\n") <= 125 for path in folder.glob("*.py"))


def test_the_document_shows_code_that_runs():
    root = Path(guided.levels.__file__).parents[2]
    (block,) = re.findall(r"```python\n(.*?)```", (root / "docs" / "levels.md").read_text(encoding="utf-8"), re.DOTALL)
    env = {**os.environ, "OMP_NUM_THREADS": "1"}  # threads do not help a small model
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=True, cwd=root, env=env)
    assert re.fullmatch("\n[a-z]{5}\n\n(\n[A-Z]+: [a-z]+\n True format\n)\\1", done.stdout)  # the same line twice


def test_the_readers_context_has_an_end(model):
    with pytest.raises(ValueError, match="257 tokens, but the model's context is 256"):
        model(torch.zeros(1, 257, dtype=torch.int64))
