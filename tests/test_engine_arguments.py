"""Arguments of the wrong type or out of range are errors that name the argument, before anything runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import guided
from guided.chat import Conversation
from guided.chat.template import CHATML, ChatTemplate
from guided.engine.engine import Engine
from guided.engine.runner import ModelRunner, default_cache
from guided.engine.scheduler import Scheduler
from guided.models.architectures.llama import Llama, LlamaConfig

torch.set_num_threads(1)
VOCABULARY = guided.Vocabulary(
    [*(bytes([byte]) for byte in range(256)), None, None],
    eos_token_ids=[257],
    special_tokens={256: "<|im_start|>", 257: "<|im_end|>"},
)
CONFIG = LlamaConfig(layers=1, dim=16, heads=2, kv_heads=1, head_dim=8, hidden=24, vocab_size=258, context=1024)
MODEL = Llama.random(CONFIG, seed=1)
PLAIN = Engine(MODEL, VOCABULARY)
WITH_SYSTEM = Engine(MODEL, VOCABULARY, chat=ChatTemplate(VOCABULARY, CHATML))
WITHOUT_SYSTEM = Engine(
    MODEL,
    VOCABULARY,
    chat=ChatTemplate(
        VOCABULARY,
        "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}{% for m in messages %}"
        "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}{{ part.text }}{% endfor %}"
        "{% endif %}{% endfor %}",
    ),
)
INTEGER = {"type": "integer"}
NO_COUNTS = (0, -1, True, 1.0, math.nan, "5", None)


@pytest.mark.parametrize("value", NO_COUNTS)
def test_an_engine_needs_a_positive_token_budget(value: Any) -> None:
    with pytest.raises(guided.OptionError, match=r"token_budget is .* must be an integer of at least 1") as caught:
        Engine(MODEL, VOCABULARY, token_budget=value)
    assert caught.value.option == "token_budget"
    with pytest.raises(guided.OptionError, match="max_running is"):
        Scheduler(ModelRunner(MODEL, default_cache(MODEL, "auto")), max_running=value)


@pytest.mark.parametrize("value", [1, np.int64(2)])
def test_the_smallest_token_budgets(value: Any) -> None:
    small = Engine(MODEL, VOCABULARY, token_budget=value)
    assert small.generate("ab", max_tokens=3).tokens == PLAIN.generate("ab", max_tokens=3).tokens


@pytest.mark.parametrize("id", [-1, 258, True, 1.0, "a"])
def test_ids_before_a_prompt_must_be_tokens(id: Any) -> None:
    with pytest.raises(guided.OptionError, match=r"bos contains .* not a token id below 258"):
        Engine(MODEL, VOCABULARY, bos=[257, id])
    assert Engine(MODEL, VOCABULARY, bos=[0, 257]).encode_prompt("a") == [0, 257, 97]


@pytest.mark.parametrize("engine", [WITH_SYSTEM, PLAIN])
@pytest.mark.parametrize("choices", [["yes", "no"], ("yes",)])
def test_a_choice_is_not_a_prompt(engine: Engine, choices: Any) -> None:
    for call in (engine.generate, engine.encode_prompt, lambda prompt: next(engine.stream(prompt, "Is it?"))):
        with pytest.raises(guided.GuidedError, match=r"not a list of strings such as .*'yes'") as caught:
            call(choices)
        assert caught.value.hint.startswith("the first argument is the prompt, and the second is the constraint")


@pytest.mark.parametrize("choices", [{"yes", "no"}, frozenset(("yes",)), {"yes": 1}.keys(), set()])
def test_a_set_is_not_a_choice(choices: Any) -> None:
    with pytest.raises(guided.SpecError, match="a set has no order") as caught:
        PLAIN.generate("a", choices, max_tokens=4)
    assert caught.value.hint.startswith("pass a list of strings")


WRONG_CONVERSATIONS = (
    [],
    ["a"],
    [None],
    [{"role": "user"}],
    [{"role": 5, "content": "a"}],
    [{"role": "user", "content": None}],
    [{"role": "user", "content": 5}],
    [{"role": "user", "content": ()}],
    [{"role": "user", "content": ["a"]}],
    [{"role": "user", "content": {"type": "text", "text": "a"}}],
    [{"role": "user", "content": "a"}, {"role": "user", "content": None}],
    [{"role": "system", "content": None}, {"role": "user", "content": "a"}],
    [{"role": "robot", "content": "a"}],
)


@pytest.mark.parametrize("options", [{"describe": True}, {"think_first": 4}, {"think_first": "answer"}])
@pytest.mark.parametrize("engine", [WITH_SYSTEM, WITHOUT_SYSTEM])
@pytest.mark.parametrize("messages", WRONG_CONVERSATIONS)
def test_added_instructions_hide_no_errors_in_messages(messages: Any, engine: Engine, options: dict[str, Any]) -> None:
    """The error is the same as without the instruction."""
    for prompt in (messages, Conversation(messages)):
        with pytest.raises(guided.GuidedError) as plain:
            engine.encode_prompt(prompt)
        with pytest.raises(guided.GuidedError) as instructed:
            engine.generate(prompt, INTEGER, max_tokens=30, **options)
        assert (type(instructed.value), str(instructed.value)) == (type(plain.value), str(plain.value))


@pytest.mark.parametrize("options", [{"describe": True}, {"think_first": 4}])
@pytest.mark.parametrize("prompt", [5, None, b"ab", {"role": "user", "content": "a"}, {"a"}, iter(["a"])])
def test_added_instructions_hide_no_errors_in_prompts(prompt: Any, options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="a prompt must be text, messages or token ids, not"):
        WITH_SYSTEM.generate(prompt, INTEGER, max_tokens=30, **options)
    with pytest.raises(guided.GuidedError, match="messages must be a list of messages, not 5"):
        WITH_SYSTEM.generate(Conversation(5), INTEGER, max_tokens=30, **options)  # type: ignore[arg-type]
    with pytest.raises(guided.GuidedError, match="this model has no chat template"):
        PLAIN.generate([{"role": "user", "content": "a"}], INTEGER, max_tokens=30, **options)


def test_instructions_follow_a_tuple_of_content_parts() -> None:
    parts = [{"type": "text", "text": "Who"}, {"type": "text", "text": " is it?"}]
    as_list, as_tuple = (
        WITHOUT_SYSTEM.generate([{"role": "user", "content": content}], ["yes"], max_tokens=4, describe=True)
        for content in (parts, tuple(parts))
    )
    expected = "Who is it?\n\nAnswer with exactly one of these: yes"
    assert as_list.prompt_tokens == as_tuple.prompt_tokens == len(expected)
    described = [{"role": "user", "content": (*parts, {"type": "text", "text": "Only yes."})}]
    assert WITHOUT_SYSTEM.generate(described, ["yes"], max_tokens=4, describe=True).prompt_tokens == 19


@pytest.mark.parametrize("engine", [WITH_SYSTEM, WITHOUT_SYSTEM])
def test_content_parts_are_the_same_as_their_text(engine: Engine) -> None:
    """For a template that concatenates strings, and for one that reads parts."""
    parts = [{"type": "text", "text": "Who"}, {"type": "text", "text": " is it?"}]
    for options in ({}, {"describe": True}, {"think_first": 4}):
        results = [
            engine.generate([{"role": "user", "content": content}], ["a", "b"], max_tokens=9, seed=1, **options)
            for content in (parts, "Who is it?")
        ]
        assert results[0].tokens == results[1].tokens
        assert results[0].prompt_tokens == results[1].prompt_tokens


@pytest.mark.parametrize("engine", [PLAIN, WITH_SYSTEM])
def test_prompts_of_token_ids(engine: Engine) -> None:
    for ids in ([5, 6], (5, 6), range(5, 7), [np.int64(5), np.uint16(6)], list(np.array([5, 6]))):
        encoded = engine.encode_prompt(ids)
        assert encoded == [5, 6] and [type(id) for id in encoded] == [int, int]
        assert engine.generate(ids, "[ab]", max_tokens=2).prompt_tokens == 2
    for wrong in ([True, False], [5, True], [5.0], [5, 6.5], [np.float32(5)], [math.nan]):
        with pytest.raises(guided.GuidedError, match=r"the prompt contains .*, which is not a token id"):
            engine.encode_prompt(wrong)


def test_logits_of_no_more_tokens_than_there_are() -> None:
    tokens = [np.int64(1), 2, 3, 4]
    rows = PLAIN.logits(tokens, keep=4)
    for keep in (1, 2, np.int64(4)):
        assert torch.equal(PLAIN.logits(tokens, keep=keep), rows[-keep:])
    for keep in (*NO_COUNTS, 5, 8):
        with pytest.raises(guided.OptionError, match="keep is") as caught:
            PLAIN.logits(tokens, keep=keep)
        assert caught.value.option == "keep"
    for wrong in ([True], ["a"], "ab", [1.5]):
        with pytest.raises(guided.GuidedError, match="which is not a token id"):
            PLAIN.logits(wrong)


@pytest.mark.parametrize("max_tokens", [-1, True, 1.5, "5"])
def test_errors_for_max_tokens_say_what_is_allowed(max_tokens: Any) -> None:
    with pytest.raises(guided.OptionError, match="must be a positive integer"):
        PLAIN.generate("a", max_tokens=max_tokens)
    with pytest.raises(guided.OptionError, match="must be an integer of at least 0"):
        PLAIN.generate("a", max_tokens=max_tokens, prompt_logprobs=1)
    assert PLAIN.generate("a", max_tokens=0, prompt_logprobs=1).tokens == []


INTEGER_OPTIONS = {
    "max_tokens": 2, "n": 2, "seed": 3, "top_k": 5, "min_tokens": 2, "logprobs": 1, "prompt_logprobs": 1, "drafts": 2,
    "think_first": 2, "max_passes": 9, "retries": 1, "budget_ramp": 2,
}  # fmt: skip


@pytest.mark.parametrize("name", INTEGER_OPTIONS)
def test_integers_of_numpy_are_integers(name: str) -> None:
    prompt = [{"role": "user", "content": "a"}]

    def generate(value: Any) -> list[list[int]]:
        sampling = "exact" if name == "max_passes" else "masked"
        options: Any = {"max_tokens": 8, "temperature": 1.0, "sampling": sampling, "seed": 7, name: value}
        results = WITH_SYSTEM.generate(prompt, "[ab]{2}", **options)
        return [result.tokens for result in (results if isinstance(results, list) else [results])]

    expected = generate(INTEGER_OPTIONS[name])
    assert all(generate(kind(INTEGER_OPTIONS[name])) == expected for kind in (np.int64, np.uint8))
    for wrong in (True, np.bool_(True), np.float32(2.5) if name != "budget_ramp" else np.array(2), "2"):
        with pytest.raises(guided.OptionError, match=f"{name} is") as caught:
            generate(wrong)
        assert caught.value.option == name


def test_integers_of_numpy_in_requests_ids_and_limits() -> None:
    two, token = np.int64(2), np.int64(97)
    (results,) = PLAIN.generate_each([guided.Request("a", "[ab]{2}", n=two, options={"max_tokens": two})])
    assert len(results) == 2
    for ids in ({"allowed_token_ids": [token]}, {"logit_bias": {token: 100}}, {"bad_words": np.array([[98], [99]])}):
        assert PLAIN.generate("a", "[abc]", max_tokens=2, **ids).text == "a"  # type: ignore[arg-type]
    limits = guided.Limits(states=np.int64(9))  # type: ignore[arg-type]
    assert limits == guided.Limits(states=9) and type(limits.states) is int
    assert guided.GrammarCompiler(VOCABULARY, cache_bytes=two).cache_bytes == 2  # type: ignore[arg-type]


CONVERSATIONS_OF_WRONG_TYPES = (
    ("tools", (5, None, "ab", {"a": 1}), "tools must be a list, not"),
    ("documents", (5, None, "ab", {"a": 1}), "documents must be a list, not"),
    ("variables", (5, None, [1]), "variables of the chat template must be a dict, not"),
    ("begin", (5, None), "begin must be a string, not"),
    ("template", (5, []), "this model has no chat template"),
    ("messages", ([{"role": "assistant", "content": "a", "tool_calls": 5}],), "has tool_calls 5, but they must be"),
)


@pytest.mark.parametrize(("name", "values", "message"), CONVERSATIONS_OF_WRONG_TYPES)
def test_parts_of_a_conversation_of_the_wrong_type(name: str, values: tuple[Any, ...], message: str) -> None:
    for value in values:
        parts: dict[str, Any] = {"messages": [{"role": "user", "content": "a"}], name: value}
        with pytest.raises(guided.GuidedError, match=message):
            WITH_SYSTEM.generate(Conversation(**parts), INTEGER, max_tokens=30)


@pytest.mark.parametrize("name", ["stop", "stop_regex", "stop_token_ids", "allowed_token_ids", "bad_words"])
def test_options_that_are_lists(name: str) -> None:
    item: Any = {"stop": "b", "stop_regex": "b", "bad_words": [5]}.get(name, 5)
    for right in ([item], (item,), iter([item]), [item, item]):
        PLAIN.generate("a", max_tokens=2, **{name: right})
    for wrong in ({"a": 1}, {5: 1}, {}, b"a", 5, 0, False, True, 1.5):
        with pytest.raises(guided.OptionError, match=name) as caught:
            PLAIN.generate("a", max_tokens=2, **{name: wrong})
        assert caught.value.option == name


@pytest.mark.parametrize("end", [5, 0, True, b"a", ["a"]])
def test_the_end_of_the_reasoning_must_be_a_string(end: Any) -> None:
    for generate in (PLAIN.generate, WITH_SYSTEM.generate, WITH_SYSTEM.chat):
        with pytest.raises(guided.OptionError, match=r"reasoning_end is .*, but must be a string$") as caught:
            generate("a", reasoning_end=end, max_tokens=9)
        assert caught.value.option == "reasoning_end"


@pytest.mark.parametrize("name", ["raw", "describe", "score_forced", "include_stop_str_in_output", "ignore_eos"])
def test_flags_must_be_booleans(name: str) -> None:
    for wrong in (1, 0, "yes", 1.0):
        with pytest.raises(guided.OptionError, match=f"{name} is .*, but must be True or False") as caught:
            WITH_SYSTEM.generate("a", max_tokens=2, **{name: wrong})
        assert caught.value.option == name
    WITH_SYSTEM.generate("a", max_tokens=2, **{name: False})
