"""Constraints in transformers' `generate`: each mode's output satisfies its constraint, completely and within its
budget.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import guided  # noqa: E402
from guided.integrations.transformers import (  # noqa: E402
    GuidedLogitsProcessor,
    prefix_allowed_tokens_fn,
    vocabulary_of,
)
from guided.matching.bitmask import first_allowed, row_of  # noqa: E402
from tests.transformers_support import small_model, small_tokenizer  # noqa: E402

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "boolean"}}},
    "required": ["a", "b"],
}
PROMPTS = ["x", "abc true 12", "tell me of it"]


@pytest.fixture(scope="module")
def tokenizer():
    return small_tokenizer()


@pytest.fixture(scope="module")
def model(tokenizer):
    return small_model(tokenizer)


def texts(tokenizer, out, inputs):
    return tokenizer.batch_decode(out[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


def ask(tokenizer, model, prompts, processor, **options):
    inputs = tokenizer(prompts, return_tensors="pt", padding=True)
    out = model.generate(**inputs, logits_processor=[processor], **options)
    return texts(tokenizer, out, inputs)


@pytest.mark.parametrize("budget", [15, 20, 60])
@pytest.mark.parametrize("sample", [False, True])
def test_a_batch_with_left_padding_is_complete_within_its_budget(tokenizer, model, budget, sample):
    processor = GuidedLogitsProcessor(SCHEMA, vocabulary_of(tokenizer, model), max_new_tokens=budget)
    for seed in range(4):
        torch.manual_seed(seed)
        for text in ask(tokenizer, model, PROMPTS, processor, max_new_tokens=budget, do_sample=sample):
            jsonschema.validate(json.loads(text), SCHEMA)


def test_a_constraint_for_some_rows(tokenizer, model):
    each = (r"[ab]{3,5}", None, ["yes", "no"])
    processor = GuidedLogitsProcessor(each, tokenizer, max_new_tokens=12)
    torch.manual_seed(1)
    options = {"max_new_tokens": 12, "do_sample": True, "num_return_sequences": 3}
    found = ask(tokenizer, model, PROMPTS, processor, **options)
    assert all(re.fullmatch(each[0], text) for text in found[:3])
    assert all(text in each[2] for text in found[6:])
    torch.manual_seed(1)
    free = ask(tokenizer, model, PROMPTS, GuidedLogitsProcessor((None,), tokenizer), **options)
    assert all(len(text) > 0 for text in free[3:6])


def test_a_free_row_is_as_without_a_processor(tokenizer, model):
    inputs = tokenizer(PROMPTS[:2], return_tensors="pt", padding=True)
    alone = texts(tokenizer, model.generate(**inputs, max_new_tokens=20, do_sample=False), inputs)
    beside = ask(tokenizer, model, PROMPTS[:2], GuidedLogitsProcessor((None, "[ab]+"), tokenizer, max_new_tokens=20),
                 max_new_tokens=20, do_sample=False)  # fmt: skip
    assert beside[0] == alone[0] and re.fullmatch("[ab]+", beside[1])


@pytest.mark.parametrize("beams", [2, 5])
def test_beams(tokenizer, model, beams):
    processor = GuidedLogitsProcessor((SCHEMA, "[ab]{2,6}"), tokenizer, max_new_tokens=40)
    found = ask(tokenizer, model, PROMPTS[:2], processor, max_new_tokens=40, num_beams=beams, do_sample=False,
                num_return_sequences=beams)  # fmt: skip
    for text in found[:beams]:
        jsonschema.validate(json.loads(text), SCHEMA)
    assert all(re.fullmatch("[ab]{2,6}", text) for text in found[beams:])


def test_beams_choose_what_an_exhaustive_search_does(tokenizer, model):
    """With as many beams as texts, the best text is found. All texts are scored with the model."""
    choices = ["aa", "ab", "ba", "bb"]
    grammar = guided.GrammarCompiler(vocabulary_of(tokenizer, model)).compile_regex("[ab]{2}")
    inputs = tokenizer([PROMPTS[1]], return_tensors="pt")
    ids = inputs["input_ids"]

    def score(tokens):
        """The score of the model's own probabilities, as in beam search: masked, but not normalised again."""
        with torch.no_grad():
            logits = model(torch.cat([ids, torch.tensor([tokens])], 1)).logits[0].log_softmax(-1)
        return sum(float(logits[ids.shape[1] - 1 + at, token]) for at, token in enumerate(tokens)) / len(tokens)

    end = tokenizer.eos_token_id
    ways = [[*map(tokenizer.convert_tokens_to_ids, text), end] for text in choices]
    ways.append([tokenizer.convert_tokens_to_ids("ab"), end])
    best = max(ways, key=score)
    processor = GuidedLogitsProcessor(grammar, tokenizer=guided.GrammarCompiler(grammar.vocabulary))
    out = model.generate(**inputs, logits_processor=[processor], num_beams=8, max_new_tokens=6, do_sample=False)
    assert out[0, ids.shape[1] :].tolist()[: len(best)] == best


def test_assisted_generation(tokenizer, model):
    """A second model drafts several tokens, some of which are rejected. The output is that of the model alone."""
    alone = ask(tokenizer, model, PROMPTS[1:2], GuidedLogitsProcessor(SCHEMA, tokenizer, max_new_tokens=40),
                max_new_tokens=40, do_sample=False)  # fmt: skip
    drafted = ask(tokenizer, model, PROMPTS[1:2], GuidedLogitsProcessor(SCHEMA, tokenizer, max_new_tokens=40),
                  max_new_tokens=40, do_sample=False, assistant_model=small_model(tokenizer, seed=5))  # fmt: skip
    assert drafted == alone
    jsonschema.validate(json.loads(alone[0]), SCHEMA)


@pytest.mark.parametrize("after", ["?!", "<eos>more text", "ab ab ab ab", "x", ""])
def test_one_processor_for_many_generations(tokenizer, model, after):
    """Even if a prompt continues an earlier one, with or without its answer, as in a conversation."""
    processor = GuidedLogitsProcessor("[ab]{5}", tokenizer, max_new_tokens=6)
    prompt = "x"
    for _ in range(4):
        text = ask(tokenizer, model, [prompt], processor, max_new_tokens=6, do_sample=False)[0]
        assert re.fullmatch("[ab]{5}", text)
        other = ask(tokenizer, model, [prompt + " yes"], processor, max_new_tokens=6, do_sample=False)[0]
        assert re.fullmatch("[ab]{5}", other)
        prompt += text + after if after else "yz"


def test_an_answer_that_is_continued_needs_a_reset(tokenizer, model):
    processor = GuidedLogitsProcessor("[ab]{5}", tokenizer, max_new_tokens=6)
    text = ask(tokenizer, model, ["x"], processor, max_new_tokens=6, do_sample=False)[0]
    processor.reset()
    assert re.fullmatch(
        "[ab]{5}", ask(tokenizer, model, ["x" + text[:2]], processor, max_new_tokens=6, do_sample=False)[0]
    )


@pytest.mark.parametrize("make", [GuidedLogitsProcessor, prefix_allowed_tokens_fn])
def test_threads_share_a_processor(tokenizer, model, make):
    shared = make("[ab]{2}[cd]{6}[ef]{2}", tokenizer)
    option = {"logits_processor": [shared]} if make is GuidedLogitsProcessor else {"prefix_allowed_tokens_fn": shared}

    def write(prompt):
        inputs = tokenizer([prompt], return_tensors="pt")
        return texts(tokenizer, model.generate(**inputs, **option, max_new_tokens=11, do_sample=True), inputs)

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(write, ["x", "x", "say", "tell me", "x", "tell"] * 3):
            assert re.fullmatch("[ab]{2}[cd]{6}[ef]{2}", found[0])


@pytest.mark.parametrize("constraint", ["[ab]{2}[cd]{3}", ("[ab]{2}[cd]{3}", "[ef]{2}[gh]{3}")])
def test_groups_of_beams(tokenizer, constraint):
    """Diverse beam search calls the processor for each group of beams in turn, with the rows of this group."""
    processor, vocabulary = GuidedLogitsProcessor(constraint, tokenizer), vocabulary_of(tokenizer)
    prompts = tokenizer(["abc", "d"], return_tensors="pt", padding=True)["input_ids"]
    groups = [prompts.repeat_interleave(2, 0) for _ in range(3)]
    torch.manual_seed(2)
    for _ in range(6):
        for number, ids in enumerate(groups):
            scores = processor(ids, torch.randn(4, vocabulary.size))
            tokens = torch.distributions.Categorical(logits=scores).sample()
            order = torch.tensor([0, 0, 2, 3]) if torch.rand(1) < 0.5 else torch.tensor([1, 0, 3, 2])
            groups[number] = torch.cat([ids[order], tokens[order, None]], 1)
    patterns = constraint if isinstance(constraint, tuple) else (constraint,) * 2
    for ids in groups:
        found = tokenizer.batch_decode(ids[:, prompts.shape[1] :], skip_special_tokens=True)
        assert all(re.fullmatch(patterns[row // 2], text) for row, text in enumerate(found)), found


def test_a_static_cache(tokenizer, model):
    processor = GuidedLogitsProcessor((SCHEMA, "[ab]{2,6}"), tokenizer, max_new_tokens=40)
    found = ask(tokenizer, model, PROMPTS[:2], processor, max_new_tokens=40, cache_implementation="static")
    jsonschema.validate(json.loads(found[0]), SCHEMA)
    assert re.fullmatch("[ab]{2,6}", found[1])


@pytest.mark.parametrize("beams", [1, 3])
def test_a_model_with_an_encoder(tokenizer, beams):
    """Its rows begin with a token of the decoder, not with the prompt."""
    torch.manual_seed(3)
    config = transformers.T5Config(
        vocab_size=len(tokenizer) + 6, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2,
        decoder_start_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    other = transformers.T5ForConditionalGeneration(config).eval()
    processor = GuidedLogitsProcessor((SCHEMA, ["yes", "no"]), vocabulary_of(tokenizer, other), max_new_tokens=40)
    inputs = tokenizer(PROMPTS[:2], return_tensors="pt", padding=True)
    options = {"input_ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"], "num_beams": beams}
    for _ in range(2):
        out = other.generate(**options, logits_processor=[processor], max_new_tokens=40)
        record, word = tokenizer.batch_decode(out, skip_special_tokens=True)
        jsonschema.validate(json.loads(record), SCHEMA)
        assert word in ("yes", "no")


def test_raw_logits_stay_as_they_are(tokenizer, model):
    inputs = tokenizer(["x"], return_tensors="pt")
    told = {"return_dict_in_generate": True, "output_logits": True, "output_scores": True}
    out = model.generate(
        **inputs, logits_processor=[GuidedLogitsProcessor("[ab]{3}", tokenizer)], max_new_tokens=4, **told
    )
    assert all(torch.isfinite(logits).all() for logits in out.logits)
    assert [int(torch.isfinite(scores).sum()) for scores in out.scores][-1] == 1  # the end


@pytest.mark.filterwarnings(
    "ignore:row 0 has a token:RuntimeWarning"
)  # tokens of the assistant, which has another vocabulary
def test_an_assistant_with_another_tokenizer_changes_nothing_or_is_refused(tokenizer, model):
    """transformers also calls the processor for the assistant's rows."""
    other = small_tokenizer(backwards=True)
    other.add_tokens(["<1>", "<2>", "<3>"])
    assistant = {"tokenizer": tokenizer, "assistant_tokenizer": other, "assistant_model": small_model(other, seed=9)}
    inputs = tokenizer(["abc a"], return_tensors="pt")

    def written(**options):
        processor = GuidedLogitsProcessor("[ab]{4}c[de]{3}", vocabulary_of(tokenizer, model))
        return texts(
            tokenizer, model.generate(**inputs, logits_processor=[processor], max_new_tokens=12, **options), inputs
        )

    alone = written(do_sample=False)
    assert written(do_sample=False, **assistant) == alone and re.fullmatch("[ab]{4}c[de]{3}", alone[0])
    with pytest.raises(guided.GuidedError, match="belongs to another model"):  # only some of these tokens are scored
        written(do_sample=True, **assistant)


@pytest.mark.parametrize("prompt", ["abab abab ab", "x"])
def test_prompt_lookup(tokenizer, model, prompt):
    alone, drafted = (
        ask(tokenizer, model, [prompt], GuidedLogitsProcessor("[ab ]{4,12}", tokenizer, max_new_tokens=14),
            max_new_tokens=14, do_sample=False, **options)
        for options in ({}, {"prompt_lookup_num_tokens": 3})
    )  # fmt: skip
    assert drafted == alone and re.fullmatch("[ab ]{4,12}", alone[0])


def test_prefix_allowed_tokens_fn(tokenizer, model):
    inputs = tokenizer(PROMPTS, return_tensors="pt", padding=True)
    allowed = prefix_allowed_tokens_fn("[ab]{3}c", tokenizer)
    for options in (
        {"do_sample": False},
        {"num_beams": 3, "do_sample": False},
        {"num_return_sequences": 3, "do_sample": True},
    ):
        out = model.generate(**inputs, prefix_allowed_tokens_fn=allowed, max_new_tokens=8, **options)
        assert all(re.fullmatch("[ab]{3}c", text) for text in texts(tokenizer, out, inputs))


def test_a_pipeline(tokenizer, model):
    pipe = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer, device="cpu")
    processor = GuidedLogitsProcessor(["left", "right"], tokenizer, max_new_tokens=10)
    said = pipe("x", logits_processor=[processor], max_new_tokens=10, do_sample=False, return_full_text=False)
    assert said[0]["generated_text"] in ("left", "right")


def test_error_messages(tokenizer, model):
    with pytest.raises(guided.SpecError):
        GuidedLogitsProcessor("(", tokenizer)
    with pytest.raises(guided.GuidedError, match="the option whitespace has no effect here: there is no constraint"):
        GuidedLogitsProcessor((None, None), tokenizer, whitespace="compact")
    GuidedLogitsProcessor((None, SCHEMA), tokenizer, whitespace="compact")
    inputs = tokenizer(PROMPTS, return_tensors="pt", padding=True)
    with pytest.raises(guided.BudgetError) as error:
        model.generate(**inputs, logits_processor=[GuidedLogitsProcessor("a{9}", tokenizer, max_new_tokens=4)],
                       max_new_tokens=4)  # fmt: skip
    assert error.value.needed == 9
    with pytest.raises(guided.GuidedError, match=r"3 rows cannot be divided among 2 constraints.* is a list"):
        model.generate(**inputs, logits_processor=[GuidedLogitsProcessor(("a", "b"), tokenizer)], max_new_tokens=4)
    bigger = guided.Vocabulary.from_characters("".join(map(chr, range(32, 2000))))
    with pytest.raises(guided.GuidedError, match="belongs to another model"):
        model.generate(**inputs, logits_processor=[GuidedLogitsProcessor("a", bigger)], max_new_tokens=4)


@pytest.mark.parametrize("least", ["min_new_tokens", "min_length"])
@pytest.mark.parametrize(
    "how", [{"do_sample": False}, {"do_sample": True, "num_return_sequences": 2}, {"num_beams": 3}]
)
def test_a_constraint_wins_over_a_least_number_of_tokens(tokenizer, model, least, how):
    """As in guided's own engine: if only the end may follow, the row ends."""
    inputs = tokenizer(PROMPTS, return_tensors="pt", padding=True)
    for number, most in ((4, 4), (6, 12), (30, 30)):
        asked = (
            {"min_new_tokens": number}
            if least == "min_new_tokens"
            else {"min_length": number + inputs["input_ids"].shape[1]}
        )
        processor = GuidedLogitsProcessor("[ab]{2,3}", tokenizer, max_new_tokens=most)
        torch.manual_seed(number)
        out = model.generate(**inputs, logits_processor=[processor], max_new_tokens=most, **asked, **how)
        for text in texts(tokenizer, out, inputs):
            assert re.fullmatch("[ab]{3}", text), text  # as long as allowed


def test_of_beams_those_that_reach_the_least_number_are_preferred(tokenizer, model):
    processor = GuidedLogitsProcessor("[ab]{2}|c{7}", tokenizer)
    found = ask(tokenizer, model, PROMPTS, processor, max_new_tokens=12, min_new_tokens=6, num_beams=4, do_sample=False)
    assert found == ["ccccccc"] * 3


@pytest.mark.parametrize("how", [{"do_sample": False}, {"num_beams": 2}])
def test_where_others_forbid_all_that_is_allowed_there_is_an_error(tokenizer, model, how):
    for forbidden in ({"suppress_tokens": tokenizer.convert_tokens_to_ids(["c", "d"])}, {"no_repeat_ngram_size": 1}):
        with pytest.raises(guided.GuidedError, match="forbids each token that the constraint of row 0 allows"):
            ask(
                tokenizer,
                model,
                PROMPTS[:1],
                GuidedLogitsProcessor("a[cd]a", tokenizer),
                max_new_tokens=9,
                **forbidden,
                **how,
            )


def test_a_forced_end_token_takes_the_last_token_of_an_answer(tokenizer, model):
    options = {"max_new_tokens": 6, "do_sample": False}
    processor = GuidedLogitsProcessor("[ab]{6}", tokenizer, max_new_tokens=6)
    with pytest.raises(guided.GuidedError, match="forced_eos_token_id, forbids each token"):
        ask(tokenizer, model, ["x"], processor, forced_eos_token_id=tokenizer.eos_token_id, **options)
    found = ask(tokenizer, model, ["x"], processor, forced_eos_token_id=None, **options)
    assert re.fullmatch("[ab]{6}", found[0])


@pytest.mark.parametrize("how", [{"do_sample": False}, {"do_sample": True}, {"num_beams": 3}])
def test_a_row_of_a_batch_that_others_leave_without_tokens_is_an_error(tokenizer, model, how):
    """Also if not all prompts with one constraint are affected: only the first one contains the pairs `ac` and `bc`."""
    processor = GuidedLogitsProcessor("[ab]c", tokenizer)
    with pytest.raises(guided.GuidedError, match="forbids each token that the constraint of row 0 allows"):
        ask(tokenizer, model, ["acbc", "x", "yy"], processor, max_new_tokens=9, no_repeat_ngram_size=2, **how)
    assert ask(tokenizer, model, ["x", "yy"], processor, max_new_tokens=9, no_repeat_ngram_size=2, **how)


@pytest.mark.filterwarnings("ignore:row . has a token that its constraint does not allow:RuntimeWarning")
def test_beams_of_a_batch_take_the_ways_that_are_left(tokenizer, model):
    processor = GuidedLogitsProcessor("ac|bd", tokenizer)
    options = {"max_new_tokens": 9, "no_repeat_ngram_size": 2, "num_beams": 2, "do_sample": False}
    found = ask(tokenizer, model, ["ac", "x", "x"], processor, **options)
    assert found[0] == "bd"
    assert all(text in ("ac", "bd") for text in found)


def test_canonical_answers_are_what_the_tokenizer_writes(tokenizer, model):
    pattern, differ = '[abc12]{1,9}|"(true|:)*', 0
    for how in ({"do_sample": True, "num_return_sequences": 8}, {"num_beams": 4, "num_return_sequences": 4}):
        for canonical in (False, True):
            processor = GuidedLogitsProcessor(pattern, tokenizer, max_new_tokens=20, canonical=canonical)
            inputs = tokenizer(PROMPTS, return_tensors="pt", padding=True)
            torch.manual_seed(1)
            out = model.generate(**inputs, logits_processor=[processor], max_new_tokens=20, **how)
            for row in out[:, inputs["input_ids"].shape[1] :].tolist():
                ids = [id for id in row if id not in (tokenizer.eos_token_id, tokenizer.pad_token_id)]
                text = tokenizer.decode(ids)
                assert re.fullmatch(pattern, text)
                same = tokenizer.encode(text) == ids
                assert same or not canonical, (text, ids)
                differ += not same
    assert differ > 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_new_tokens": "3"}, "max_new_tokens is '3', but must be an integer of at least 1, or None"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0, but must be an integer of at least 1"),
        ({"canonical": "yes"}, "canonical is 'yes', but must be True or False"),
        ({"tokenizer": "nofile.json"}, "nofile.json does not exist: a tokenizer is an object of transformers"),
        ({"tokenizer": None}, "takes a fast tokenizer, .* not NoneType"),
        ({"heal_prompt": True}, "'heal_prompt' is not an option of a constraint"),
    ],
)
def test_options_are_checked_by_the_constructor(tokenizer, options, said):
    with pytest.raises(guided.GuidedError, match=said):
        GuidedLogitsProcessor("[ab]", **{"tokenizer": tokenizer, **options})


def test_a_token_that_another_processor_chose_is_reported(tokenizer, model):
    class Stubborn(transformers.LogitsProcessor):
        def __call__(self, input_ids, scores):
            scores[:] = -torch.inf
            scores[:, tokenizer.convert_tokens_to_ids("z")] = 0
            return scores

    processor = GuidedLogitsProcessor("[ab]{3}", tokenizer)
    inputs = tokenizer(["x"], return_tensors="pt")
    with pytest.warns(RuntimeWarning, match="another processor chose the token"):
        model.generate(**inputs, logits_processor=[processor, Stubborn()], max_new_tokens=3)


def test_the_first_token_that_a_row_allows():
    import random

    rng = random.Random(1)
    for size in (1, 31, 32, 33, 200):
        for ids in [[0], [size - 1], *(rng.sample(range(size), rng.randint(1, size)) for _ in range(20))]:
            assert first_allowed(row_of(size, ids)) == min(ids)
        assert first_allowed(row_of(size, [])) == -1
