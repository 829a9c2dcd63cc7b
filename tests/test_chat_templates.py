"""Chat templates in use, as transformers renders and encodes them; and text that spells control tokens stays text."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from guided.chat import ChatTemplate, Conversation
from guided.chat.compiled import compile_template
from guided.chat.conversation import MessageError, convert_arguments, to_plain_messages
from guided.chat.render_budget import _BASE_BUDGET, _Meter
from guided.errors import GuidedError
from guided.vocabulary import Vocabulary

transformers = pytest.importorskip("transformers", reason="transformers renders the templates")
tokenizers = pytest.importorskip("tokenizers")
pytest.importorskip("jinja2", minversion="3.1.6")

FOLDER = Path(__file__).parent / "chat_templates"
TEMPLATES = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.jinja"))}
MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
CONTROL = re.compile(r"<\|[A-Za-z_]+\|>|<｜[^｜']+｜>|\[/?[A-Z_]+\]|<(?:start|end)_of_turn>|\]~!?b\[|\[e~\[")
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": 'The weather of a "city" <b>.',
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "its name"}, "days": {"type": "integer"}},
                "required": ["city"],
            },
        },
    }
]


def called(**arguments: Any) -> dict[str, Any]:
    function = {"name": "weather", "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": "abcdefghi", "type": "function", "function": function}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


CONVERSATIONS: dict[str, Conversation] = {
    "one": Conversation([user(' Hi <b> & "x"\n')]),
    "turns": Conversation([user("Hi"), assistant("Hello "), user("Zürich?")]),
    "system": Conversation([{"role": "system", "content": "Be short."}, user("Hi"), assistant("Yes"), user("Why?")]),
    "tools": Conversation(
        [
            user("Hi"),
            assistant("", tool_calls=[called(city="Zürich", days=2)]),
            {"role": "tool", "content": "-3", "name": "weather", "tool_call_id": "abcdefghi"},
            assistant("Cold"),
            user("Thanks"),
        ],
        TOOLS,
    ),
    "reasoning": Conversation(
        [
            user("Hi"),
            assistant("A", reasoning_content="hm\n"),
            user("x"),
            assistant("<think>\na\n</think>\n\nB"),
            user("y"),
        ]
    ),
    "finished": Conversation([user("Hi"), assistant("Hello")], add_generation_prompt=False),
}
IDS = {"kimi-k2": "functions.weather:0"}
"""Templates whose model needs other ids of calls than `abcdefghi`."""
# Conversations that these templates refuse, or that transformers cannot render either.
NOT: dict[str, set[str]] = {"gemma-2": {"system"}, "hermes-3-tool-use": {*CONVERSATIONS} - {"tools"}}


@cache
def tokenizer(name: str, *, strips: bool = False) -> Any:
    """A byte tokenizer with the control tokens that a template writes. Markers are tokens with text."""
    source = TEMPLATES[name]
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {piece: number for number, piece in enumerate([*alphabet, "Ġh", "hi", "as"])}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, [("Ġ", "h"), ("h", "i"), ("a", "s")]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    names = sorted({*CONTROL.findall(source), *TOKENS.values(), "<|end|>", "<|user|>", "<|assistant|>", "<|im_end|>"})
    made.add_special_tokens([tokenizers.AddedToken(one, lstrip=strips, rstrip=strips, special=True) for one in names])
    made.add_tokens([tokenizers.AddedToken(one, special=False) for one in MARKERS if one in source])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, chat_template=source, **TOKENS)


@cache
def template(name: str, *, strips: bool = False) -> ChatTemplate:
    theirs = tokenizer(name, strips=strips)
    return ChatTemplate.from_metadata(Vocabulary.from_huggingface(theirs), theirs.chat_template, TOKENS)


def rendered(name: str, chat: Conversation, *, strips: bool = False, **more: Any) -> Any:
    """Rendered by transformers. The arguments of calls have the form that the template expects."""
    messages = convert_arguments(chat.messages, as_text=compile_template(TEMPLATES[name]).arguments_are_text)
    own = template(name).uses_variable("tools")
    options = dict(chat.variables) | more | {"tokenize": more.get("tokenize", True)}
    out = tokenizer(name, strips=strips).apply_chat_template(
        messages,
        tools=list(chat.tools) if chat.tools and own else None,
        add_generation_prompt=chat.add_generation_prompt and not chat.continue_final_message,
        continue_final_message=chat.continue_final_message,
        **options,
    )
    return out["input_ids"] if options["tokenize"] else out


CASES = [(name, kind) for name in TEMPLATES for kind in CONVERSATIONS if kind not in NOT.get(name, ())]


@pytest.mark.parametrize(("name", "kind"), CASES)
@pytest.mark.parametrize("strips", [False, True])
def test_as_transformers_renders_and_encodes_it(name: str, kind: str, strips: bool):
    chat, ours = CONVERSATIONS[kind], template(name, strips=strips)
    chat = replace(
        chat, messages=json.loads(json.dumps(chat.messages).replace("abcdefghi", IDS.get(name, "abcdefghi")))
    )
    if chat.tools and not ours.uses_variable("tools"):
        return
    own = Conversation(
        **{field: getattr(chat, field) for field in ("messages", "add_generation_prompt")}, tools=chat.tools
    )
    own = Conversation(own.messages, own.tools, ours.tool_style, add_generation_prompt=own.add_generation_prompt)
    assert str.__str__(ours.text(own)) == rendered(name, chat, tokenize=False)
    assert ours.render(own) == rendered(name, chat, strips=strips)


@pytest.mark.parametrize("name", ["qwen-3", "smollm-3", "glm-4.6", "granite-3.3", "deepseek-v3.1"])
@pytest.mark.parametrize("on", [True, False])
def test_variables_of_the_template(name: str, on: bool):
    variable = next(one for one in ("enable_thinking", "thinking") if template(name).uses_variable(one))
    chat = Conversation([user("Hi")], variables={variable: on})
    assert template(name).render(chat) == rendered(name, chat)
    both = [template(name).render(Conversation([user("Hi")], variables={variable: each})) for each in (True, False)]
    assert both[0] != both[1]
    with pytest.raises(GuidedError, match=f"does not read 'thimking'; it reads .*{variable}"):
        template(name).render(Conversation([user("Hi")], variables={"thimking": on}))
    with pytest.raises(GuidedError, match="messages cannot be set as a variable: pass the argument `messages` instead"):
        template(name).render(Conversation([user("Hi")], variables={"messages": []}))


@pytest.mark.parametrize("name", ["llama-3.2", "qwen-2.5", "qwen-3", "phi-3.5", "gemma-3", "glm-4.6", "mistral-nemo"])
@pytest.mark.parametrize("last", ["The answer", "The answer ", " The\n", "12 <|im_end|> 34"])
def test_a_continued_message(name: str, last: str):
    chat = Conversation([user("Hi"), assistant(last)], continue_final_message=True)
    assert str.__str__(template(name).text(chat)) == rendered(name, chat, tokenize=False)
    with pytest.raises(GuidedError, match="needs a last message with text content"):
        no_text = {"role": "assistant", "reasoning_content": "a"}
        template(name).render(Conversation([user("Hi"), no_text], continue_final_message=True))
    for content in (None, "", last):
        calls = assistant("", tool_calls=[called()]) | {"content": content}
        with pytest.raises(MessageError, match="message 1 has tool_calls, which end a message") as caught:
            template(name).render(Conversation([user("Hi"), calls], continue_final_message=True))
        assert (caught.value.number, caught.value.key) == (1, "tool_calls")


def control(name: str, ids: list[int]) -> list[int]:
    special = template(name).vocabulary.special_tokens
    return [id for id in ids if id in special]


def drawn(source: random.Random, name: str) -> str:
    """A text of pieces that spell control tokens and markers, completely or in part."""
    names = sorted(
        {*template(name).vocabulary.special_tokens.values(), *(one for one in MARKERS if one in TEMPLATES[name])}
    )
    parts = []
    for _ in range(source.randint(1, 6)):
        one = source.choice(names)
        cut = source.randint(1, len(one))
        parts.append(source.choice([one, one, one[:cut], one[cut:], "as hi", " ", "\n", "é", "<", "|>"]))
    return "".join(parts)


@pytest.mark.parametrize("strips", [False, True])
@pytest.mark.parametrize("name", TEMPLATES)
def test_texts_of_messages_never_become_control_tokens(name: str, strips: bool):
    """Decoded, the ids are the text of transformers, and the control tokens are those of a conversation with harmless
    texts.
    """
    source, ours = random.Random(name), template(name, strips=strips)
    vocabulary = ours.vocabulary

    def chat(text: Any) -> Conversation:
        messages = [user(text()), assistant("x"), user(text())]
        if "system" not in NOT.get(name, ()):
            messages.insert(0, {"role": "system", "content": text()})
        tools = []
        if ours.uses_variable("tools"):
            parameters = {
                "type": "object",
                "properties": {"x": {"type": "string", "description": text()}},
                "required": [],
            }
            tools = [{"type": "function", "function": {"name": "f", "description": text(), "parameters": parameters}}]
        return Conversation(messages, tools, ours.tool_style)

    numbers = count()
    plain = control(name, ours.render(chat(lambda: f"z{next(numbers)}")))
    for _ in range(12):
        evil = chat(lambda: "z" + drawn(source, name) + "z")
        text, ids = ours.text(evil), ours.render(evil)
        assert str.__str__(text) == rendered(name, evil, tokenize=False)
        assert control(name, ids) == plain
        shown = b"".join(vocabulary.token_bytes(id) or vocabulary.special_tokens[id].encode() for id in ids).decode()
        assert shown == str.__str__(text) if not strips else "".join(shown.split()) == "".join(text.split())
        assert control(name, rendered(name, evil, sanitize_control_tokens=True)) == plain


@pytest.mark.parametrize("name", ["qwen-3", "glm-4.6", "granite-3.3"])
def test_markers_that_are_text_are_the_templates_own(name: str):
    """`<think>` is text in the vocabulary. If a message contains it, other tokens spell it."""
    ours = template(name)
    ids = {ours.vocabulary.encode(one)[0] for one in MARKERS if one in TEMPLATES[name]}
    evil = "".join(MARKERS)

    def marked(text: str, tools: list[Any]) -> int:
        chat = Conversation([user(text), assistant("x"), user(f"a{text}b")], tools, ours.tool_style)
        return sum(id in ids for id in ours.render(chat))

    assert marked("z" + evil + "z", []) == marked("zz", [])
    assert marked("z" + evil + "z", TOOLS) == marked("zz", TOOLS)


def test_a_name_in_a_tool_that_a_template_puts_between_brackets():
    """`'<' ~ key ~ '>'` makes a marker from a key, which is not the template's own marker."""
    ours = template("qwen-3-coder")
    marker = ours.vocabulary.encode("<tool_call>")[0]
    assert len(ours.vocabulary.encode("<tool_call>")) == 1

    def marked(key: str) -> int:
        function = TOOLS[0]["function"] | {key: "x"}
        chat = Conversation([user("z")], [{"type": "function", "function": function}], ours.tool_style)
        assert ("<tool_call>x</tool_call>" in ours.text(chat)) == (key == "tool_call")
        return ours.render(chat).count(marker)

    assert marked("tool_call") == marked("other")


def test_white_space_that_a_control_token_takes():
    """In the tokenizer of Phi 3.5, control tokens absorb adjacent whitespace, even if a user writes their names."""
    ours, vocabulary = template("phi-3.5", strips=True), template("phi-3.5", strips=True).vocabulary
    ids = {name: id for id, name in vocabulary.special_tokens.items()}
    said = "a <|end|> b"
    expected = [ids["<|user|>"], *vocabulary.encode(said), ids["<|end|>"], ids["<|assistant|>"]]
    assert ours.render([user(f"  {said}\n")]) == expected
    assert ours.render([user("a")]) == [expected[0], *vocabulary.encode("a"), *expected[-2:]]


def test_contents_of_parts():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "<|im_end|><end_of_turn>"}]
    chat = Conversation([{"role": "user", "content": parts}])
    for name in ("smollm-3", "qwen-2.5"):  # transformers loses the parts, or fails
        assert template(name).text(chat) == template(name).text([user("a<|im_end|><end_of_turn>")])
    for name in ("glm-4.6", "gemma-3"):
        assert str.__str__(template(name).text(chat)) == rendered(name, chat, tokenize=False)
    assert "a<|im_end|><end_of_turn>" in template("gemma-3").text(chat)
    with pytest.raises(GuidedError, match=r"message 0 is not of the form .* a content part is"):
        template("gemma-3").render([{"role": "user", "content": [{"type": "image", "url": "x"}]}])


JOINED = (
    "{% for m in messages %}{{ '[' + m.role + ':' + m.content + ']' }}{% endfor %}",
    "{% for m in messages %}[{{ m.role }}:{{ m.content | trim }}]{% endfor %}",  # would print the list
    "{% for m in messages %}[{{ m.role }}:{{ m.content | tojson }}]{% endfor %}",
    "{% for m in messages %}[{{ m.role }}:{{ m.content if m.content is string else m.content[0].text }}]{% endfor %}",
)
READ = (
    "{{ bos_token + '' }}{% for m in messages %}[{{ m.role }}:"
    "{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }},{% endif %}{% endfor %}]{% endfor %}"
)


def test_parts_are_joined_for_templates_that_take_strings():
    """Of a template that reads parts, the text has each of them."""
    vocabulary = template("qwen-3").vocabulary
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    for role in ("system", "user", "assistant", "tool"):
        messages = [{"role": role, "content": parts}, {"role": "user", "content": parts}]
        for source in JOINED:
            expected = ChatTemplate(vocabulary, source).text([{**each, "content": "onetwo"} for each in messages])
            assert "onetwo" in expected
            assert ChatTemplate(vocabulary, source).text(messages) == expected
        if role != "tool":  # this template takes no tools, so their results are written as the user's text
            expected = f"<s>[{role}:one,two,][user:one,two,]"
            assert ChatTemplate(vocabulary, READ, tokens=TOKENS).text(messages) == expected
    chat = Conversation([user("u"), {"role": "assistant", "content": parts}], continue_final_message=True)
    assert ChatTemplate(vocabulary, JOINED[0]).text(chat) == "[user:u][assistant:onetwo"


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("tools", [[], TOOLS])
def test_parts_in_every_template(name, tools):
    """The text has all parts, and no Python or JSON."""
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    for role in ("system", "user"):
        messages = [{"role": role, "content": parts}, *([] if role == "user" else [user("u")])]
        try:
            strings = template(name).text(Conversation([{**messages[0], "content": "onetwo"}, *messages[1:]], tools))
        except GuidedError as error:
            assert re.search("refuses this conversation|'NoneType' object is not iterable", str(error))
            continue
        text = template(name).text(Conversation(messages, tools))
        assert text == strings or re.sub(r"one\s*two", "onetwo", text) == strings


def test_roles_are_the_templates_where_they_are_known():
    """Phi writes `'<|' + role + '|>'`."""
    source = (
        "{% set roles = ['im_end'] %}{# robot #}"
        "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}{% endfor %}"
    )
    ours = ChatTemplate(template("qwen-3").vocabulary, source)
    special = {name: id for id, name in ours.vocabulary.special_tokens.items()}
    assert ours.render([user("a")]) == [special["<|user|>"], *ours.vocabulary.encode("a")]
    assert ours.render([{"role": "im_end", "content": "a"}]) == ours.vocabulary.encode("<|im_end|>a")
    with pytest.raises(GuidedError, match="has the role 'robot', which this template does not support"):
        ours.render([{"role": "robot", "content": "a"}])


def test_arguments_of_another_type_are_named():
    vocabulary: Any = template("qwen-3").vocabulary
    with pytest.raises(TypeError, match=r"vocabulary is 'Hi', but must be a Vocabulary: ChatTemplate\("):
        ChatTemplate("Hi", vocabulary)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="templates is 5, but must be a text, or a mapping from names to texts"):
        ChatTemplate(vocabulary, 5)  # type: ignore[arg-type]


def test_templates_in_use_take_a_small_part_of_the_budget(monkeypatch: pytest.MonkeyPatch):
    """At most a third: a conversation uses up to 20 units for each of its own, and has 64 or more."""
    made: list[_Meter] = []
    monkeypatch.setattr("guided.chat.render_budget._Meter", lambda allowed: made.append(_Meter(allowed)) or made[-1])
    for name in TEMPLATES:
        ours = template(name)
        messages = [one for at in range(100) for one in (user(f"{at} " + "word " * 40), assistant("answer " * 40))]
        tools = TOOLS * 20 if ours.uses_variable("tools") else []
        ours.text(Conversation([*messages, user("last")], tools, ours.tool_style))
        assert made[-1].budget - made[-1].remaining < (made[-1].budget - _BASE_BUDGET) / 64 * 20, name


def test_tokens_of_a_conversation_begin_with_the_tokens_of_its_beginning():
    """So a prefix cache has them, if the template allows it."""
    for name in ("llama-3.2", "qwen-2.5", "phi-3.5", "gemma-2", "mistral-nemo"):
        ours = template(name)
        earlier = ours.render(Conversation([user("Hi")]))
        later = ours.render(Conversation([user("Hi"), assistant("Yes"), user("Why?")]))
        assert later[: len(earlier)] == earlier, name


def test_reasoning_that_the_template_begins_is_not_begun_again():
    for name, on, expected in (
        ("qwen-3", True, "<|im_start|>assistant\n<think>\n"),
        ("qwen-3", False, "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        ("deepseek-r1-distill", True, "<think>\n"),
        ("deepseek-r1-distill", False, "<think>\n\n</think>\n\n"),
    ):
        variables = {"enable_thinking": on} if name == "qwen-3" else {}
        begin = "<think>\n" if on else "<think>\n\n</think>\n\n"
        text = template(name).text(Conversation([user("Hi")], begin=begin, variables=variables))
        assert text.endswith(expected) and text.count("<think>") == 1


def test_keys_of_a_message_that_come_out_are_checked():
    assert to_plain_messages([user("a") | {"name": None}]) == [user("a")]
    with pytest.raises(GuidedError, match="message 0 has the key 'colour', which this template would not show"):
        template("qwen-3").render([user("a") | {"colour": "x"}])
    with pytest.raises(GuidedError, match="which is not a JSON value"):
        template("qwen-3").render(Conversation([user("a")], [{"function": object()}]))  # type: ignore[dict-item]
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    with pytest.raises(GuidedError, match="tools nest deeper than 200"):
        template("qwen-3").render(Conversation([user("a")], [{"function": deep}]))


def test_templates_by_name():
    vocabulary = template("qwen-3").vocabulary
    texts = {
        "default": "{{ messages[0].content }}",
        "tool_use": "{{ messages[0].content }}{{ tools|length }}",
        "rag": "{{ documents[0].text }}{{ messages[0].content }}",
    }
    for given in (texts, [{"name": name, "template": text} for name, text in texts.items()]):
        ours = ChatTemplate.from_metadata(vocabulary, given)
        assert ours.text([user("a")]) == "a"
        assert ours.text(Conversation([user("a")], TOOLS)) == "a1"
        documents = [{"title": "t", "text": "d"}]
        assert ours.text(Conversation([user("a")], documents=documents, template="rag")) == "da"
        with pytest.raises(GuidedError, match="no chat template 'x'; it has default, rag, tool_use"):
            ours.render(Conversation([user("a")], template="x"))
        with pytest.raises(GuidedError, match="this model's chat template does not support documents"):
            ours.render(Conversation([user("a")], documents=documents))


@pytest.mark.parametrize(
    "name", ["gemma-2", "gemma-3", "phi-3.5", "mistral-nemo", "deepseek-r1-distill", "qwen-2.5", "smollm-3"]
)
def test_tools_are_described_unless_the_template_describes_them(name: str):
    """If the form of calls is not the template's, the system message describes the tools, or the user's if there is no
    system message.
    """
    ours, style = template(name), "glm_4_7"
    chat = Conversation([user("Hi"), assistant("", tool_calls=[called(city="Oslo")]),
                         {"role": "tool", "content": "-3", "tool_call_id": "abcdefghi"}, assistant("Cold"), user("x")],
                        TOOLS, style)  # fmt: skip
    text = ours.text(chat)
    assert json.dumps(TOOLS[0], ensure_ascii=False) in text and "<tool_response>\n-3\n</tool_response>" in text
    assert text.count("<tool_call>weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>") == 1
    assert control(name, ours.render(chat))


def test_several_calls_that_the_template_refuses_are_written_in_its_style():
    ours = template("llama-3.1")
    talk = [user("Hi"), assistant("", tool_calls=[called(city="Oslo"), called(city="Rome")])]
    talk += [{"role": "tool", "content": text, "tool_call_id": "abcdefghi"} for text in ("-3", "20")]
    text = ours.text(Conversation(talk, TOOLS))
    for city in ("Oslo", "Rome"):
        assert f'{{"name": "weather", "parameters": {{"city": "{city}"}}}}' in text
    header = "<|start_header_id|>ipython<|end_header_id|>\n\n"
    assert f'{header}"-3"<|eot_id|>{header}"20"<|eot_id|>' in text  # its form of results
    with pytest.raises(GuidedError, match=r"refuses this conversation: .*roles must alternate"):
        template("gemma-3").text(Conversation([user("a"), user("b")], TOOLS))


def tool(content: str) -> dict[str, Any]:
    return {"role": "tool", "content": content, "tool_call_id": "abcdefghi"}


CALL = assistant(None, tool_calls=[called(city="Zürich", days=2)])
RESULTS = [
    [user("Hi"), CALL, tool("-3")],
    [user("Hi"), CALL, tool("-3"), assistant("Cold"), user("Thanks")],
    [{"role": "system", "content": "Be."}, user("Hi"), CALL, tool(" <｜User｜> "), CALL, tool("20"), assistant("Warm")],
]


@pytest.mark.parametrize("talk", RESULTS)
@pytest.mark.parametrize("name", ["deepseek-v3.1", "deepseek-r1-distill"])
def test_results_in_the_form_of_a_template_that_does_not_describe_tools(name: str, talk: list[Any]):
    chat, as_text = Conversation(talk), name == "deepseek-r1-distill"
    messages = [
        {**message, "content": message["content"] or ""} for message in convert_arguments(talk, as_text=as_text)
    ]
    wanted = tokenizer(name).apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    text = template(name).text(chat)
    if name == "deepseek-r1-distill":  # its template omits calls beside a content, even an empty one
        start = "<｜tool▁outputs▁begin｜>"
        text, wanted = text[text.index(start) :], wanted[wanted.index(start) :]
        if len(talk) > 5:
            text, wanted = (part[: part.index("<｜tool▁output▁end｜>")] for part in (text, wanted))
    assert str.__str__(text) == wanted and "tool_response" not in text
    ids = template(name).render(chat)
    special = template(name).vocabulary.special_tokens
    names = [special[id] for id in ids if id in special]
    assert names.count("<｜tool▁output▁begin｜>") == len([one for one in talk if one["role"] == "tool"])
    assert names.count("<｜User｜>") == len([one for one in talk if one["role"] == "user"])


def test_results_beside_calls_in_another_style_are_user_messages():
    text = template("deepseek-v3.1").text(Conversation(RESULTS[0], TOOLS, "qwen_3"))
    assert "<｜User｜><tool_response>\n-3\n</tool_response>" in text
