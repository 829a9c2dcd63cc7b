"""Encoder-decoder models of transformers: forced first tokens; and rows that `generate` fills up with padding."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import guided  # noqa: E402
from guided.integrations.transformers import GuidedLogitsProcessor, prefix_allowed_tokens_fn  # noqa: E402
from tests.transformers_support import small_model, small_tokenizer  # noqa: E402

PATTERN = r"(red|green|blue)-[0-9]{2,4}(,[a-z]{1,3})*\."
PROMPTS = ["A colour: ", "Another longer colour: ", "x"]
HOW: list[dict[str, Any]] = [{}, {"num_beams": 3}, {"do_sample": True, "num_return_sequences": 2}]


@pytest.fixture(scope="module")
def tokenizer():
    tokenizer = small_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["de_DE", "fr_FR"]})
    return tokenizer


def decoder(tokenizer, kind: str) -> Any:
    torch.manual_seed(0)
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    ids |= {"decoder_start_token_id": tokenizer.eos_token_id, "bos_token_id": tokenizer.eos_token_id}
    sizes = {f"{part}_{name}": size for part in ("encoder", "decoder")
             for name, size in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 32))}  # fmt: skip
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(tokenizer), d_model=32, max_position_embeddings=99, forced_eos_token_id=None, **sizes, **ids
    )
    model = getattr(transformers, f"{kind}ForConditionalGeneration")(config).eval()
    for parameter in model.parameters():
        parameter.data.mul_(6)  # sharper choices
    return model


def write(tokenizer, model, processor, budget: int = 24, /, **options: Any) -> list[list[int]]:
    """The ids of each answer, without the start token or the prompt."""
    inputs = tokenizer(PROMPTS, return_tensors="pt", padding=True).data
    inputs.pop("token_type_ids", None)
    torch.manual_seed(1)
    out = model.generate(**inputs, logits_processor=[processor], max_new_tokens=budget, **options)
    return out[:, 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1] :].tolist()


@pytest.mark.parametrize("kind", ["Bart", "MBart"])
@pytest.mark.parametrize("how", HOW)
def test_the_constraint_begins_after_a_forced_first_token(tokenizer, kind, how):
    model, forced = decoder(tokenizer, kind), tokenizer.convert_tokens_to_ids("fr_FR")
    processor = GuidedLogitsProcessor(PATTERN, tokenizer, max_new_tokens=24, canonical=not how)
    for _ in range(2):
        for answer in write(tokenizer, model, processor, forced_bos_token_id=forced, **how):
            assert answer[0] == forced
            assert re.fullmatch(PATTERN, tokenizer.decode(answer[1:], skip_special_tokens=True))


def test_a_forced_token_that_the_constraint_allows_belongs_to_the_answer(tokenizer):
    forced = tokenizer.convert_tokens_to_ids("fr_FR")
    compiler = guided.GrammarCompiler(guided.Vocabulary.from_huggingface(tokenizer))
    grammar = compiler.compile_structural_tag({"type": "structural_tag", "format": {
        "type": "sequence", "elements": [{"type": "token", "token": "fr_FR"}, {"type": "regex", "pattern": "[ab]{3}"}],
    }}, allow_special_tokens=True)  # fmt: skip
    processor = GuidedLogitsProcessor(grammar, tokenizer, max_new_tokens=4)
    for answer in write(tokenizer, decoder(tokenizer, "MBart"), processor, 4, forced_bos_token_id=forced):
        assert answer[0] == forced and re.fullmatch("[ab]{3}", tokenizer.decode(answer[1:], skip_special_tokens=True))


def test_a_forced_token_counts_toward_the_budget(tokenizer):
    model, forced = decoder(tokenizer, "MBart"), tokenizer.convert_tokens_to_ids("fr_FR")
    for length, fits in ((23, True), (24, False)):
        processor = GuidedLogitsProcessor(f"[d-k]{{{length}}}", tokenizer, max_new_tokens=24)
        if fits:
            assert {len(answer) for answer in write(tokenizer, model, processor, forced_bos_token_id=forced)} == {24}
        else:
            with pytest.raises(guided.BudgetError, match="24 tokens, but the budget is 23"):
                write(tokenizer, model, processor, forced_bos_token_id=forced)


def test_a_forced_token_with_a_function(tokenizer):
    model, forced = decoder(tokenizer, "MBart"), tokenizer.convert_tokens_to_ids("fr_FR")
    inputs = tokenizer(PROMPTS[:1], return_tensors="pt").data
    inputs.pop("token_type_ids", None)
    function = prefix_allowed_tokens_fn("[ab]{5}", tokenizer)
    out = model.generate(**inputs, prefix_allowed_tokens_fn=function, max_new_tokens=9, forced_bos_token_id=forced)
    assert re.fullmatch("[ab]{5}", tokenizer.decode(out[0, 1:], skip_special_tokens=True))


@pytest.mark.parametrize("kind", ["Llama", "Bart"])
def test_padding_causes_no_warning(tokenizer, kind):
    model = small_model(tokenizer) if kind == "Llama" else decoder(tokenizer, kind)
    constraints = ("-[a-z]{9}", "[a-z]{7}-[a-z]{5}", "[a-z]{5}-x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        processor = GuidedLogitsProcessor(constraints, tokenizer, max_new_tokens=24)
        answers = write(tokenizer, model, processor, stop_strings=["-"], tokenizer=tokenizer)
        texts = [tokenizer.decode(answer, skip_special_tokens=True) for answer in answers]
        assert all(re.fullmatch(f"[a-z]{{{length}}}-", text) for text, length in zip(texts, (0, 7, 5), strict=True))
        options = {"num_beams": 3, "do_sample": True, "num_return_sequences": 2}
        for answer in write(tokenizer, model, GuidedLogitsProcessor(PATTERN, tokenizer, max_new_tokens=24), **options):
            assert re.fullmatch(PATTERN, tokenizer.decode(answer, skip_special_tokens=True))


def test_text_after_padding_causes_a_warning(tokenizer):
    processor = GuidedLogitsProcessor("[ab]{9}", tokenizer)
    scores, ids = torch.zeros(1, len(tokenizer)), tokenizer("xya")["input_ids"]
    pad, letter = tokenizer.pad_token_id, tokenizer.convert_tokens_to_ids("c")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for length in range(2, 4):
            processor(torch.tensor([ids[:length]]), scores)
        for count in (1, 2):
            found = processor(torch.tensor([[*ids, *[pad] * count]]), scores)
            assert (found[0] > -torch.inf).nonzero().flatten().tolist() == [tokenizer.eos_token_id]
    with pytest.warns(RuntimeWarning, match="row 0 has a token that its constraint does not allow"):
        processor(torch.tensor([[*ids, pad, pad, letter]]), scores)


def test_limits_with_another_name_are_explained(tokenizer):
    with pytest.raises(guided.OptionError, match="max_new_tokens, not max_tokens"):
        GuidedLogitsProcessor("a", tokenizer, max_tokens=9)
    for name in ("max_tokens", "max_new_tokens"):
        with pytest.raises(guided.OptionError, match=f"{name}: this function has no budget"):
            prefix_allowed_tokens_fn("a", tokenizer, **{name: 9})
