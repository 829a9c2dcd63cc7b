"""Each message of a conversation reaches the model, or is refused with the roles that work."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from guided.chat import ChatTemplate, Conversation
from guided.chat.compiled import CompiledTemplate, compile_template
from guided.chat.conversation import MessageError
from guided.chat.template import CHATML
from guided.errors import GuidedError
from guided.vocabulary import Vocabulary

pytest.importorskip("jinja2", minversion="3.1.6")

FOLDER = Path(__file__).parent / "chat_templates"
TEMPLATES = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.jinja"))}
VOCABULARY = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[0])
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
USER, ANSWER = {"role": "user", "content": "hello"}, {"role": "assistant", "content": "hm"}
SECRET = "SECRETWORD"


def load(name: str) -> ChatTemplate:
    return ChatTemplate(VOCABULARY, TEMPLATES[name], tokens=TOKENS)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_message_of_any_role_is_shown_or_refused(name: str):
    """The roles are all words of the template, and their beginnings."""
    ours, words = load(name), {*re.findall(r"[A-Za-z_]\w*", TEMPLATES[name])}
    for role in sorted(words | {word[:-1] for word in words if len(word) > 3})[::3]:
        message = {"role": role, "content": SECRET}
        for messages in ([message, USER], [USER, message], [USER, ANSWER, message, USER]):
            try:
                assert SECRET in ours.text(messages), (role, messages)
            except GuidedError:
                continue


def test_an_unknown_role_is_refused_with_the_roles_that_work():
    for name, role, roles in (
        ("qwen-2.5", "use", "system, user, assistant, tool"),
        ("llama-3.1", "assistan", "system, user, assistant, tool, ipython"),
        ("gemma-2", "use", "user, assistant, tool, model"),
    ):
        with pytest.raises(MessageError, match=f"1 has the role '{role}', .* not support; it supports {roles}$"):
            load(name).render([USER, {"role": role, "content": SECRET}])


SKIPS = (
    "{% for m in messages %}{% if m.role in ('user', 'assistant') %}{{ m.content }}{% endif %}"
    "{{ '' if m.role == 'function' }}{% endfor %}"
)


@pytest.mark.parametrize("role", ["system", "function"])
def test_a_known_role_that_is_not_shown_is_refused(role: str):
    ours = ChatTemplate(VOCABULARY, SKIPS)
    messages = [USER, ANSWER, {"role": role, "content": [{"type": "text", "text": "hello"}]}]
    with pytest.raises(MessageError, match=f"message 2 has the role '{role}', but the chat template does not show it"):
        ours.text(messages)
    assert not ours.shows_system


def test_tools_are_described_although_system_messages_are_not_shown():
    tools = [{"type": "function", "function": {"name": "weather_in", "description": "", "parameters": {}}}]
    assert re.search(r"(?s)weather_in.*hello", ChatTemplate(VOCABULARY, SKIPS).text(Conversation([USER], tools)))


def test_only_the_position_decides():
    source = (
        "{{ messages[0].content if messages[0].role == 'system' }}"
        "{% for m in messages if m.role != 'system' %}[{{ m.content }}]{% endfor %}"
    )
    ours, system = ChatTemplate(VOCABULARY, source), {"role": "system", "content": "Be short."}
    assert ours.text([system, USER]) == "Be short.[hello]"
    with pytest.raises(MessageError, match=r"message 1 has the role 'system', .* at this position") as caught:
        ours.text([USER, system])
    assert (caught.value.number, caught.value.key) == (1, "role")


def test_messages_without_a_text_of_their_own():
    """Llama's template leaves out the text beside calls."""
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [USER, {"role": "assistant", "content": "", "tool_calls": [call]}]
    result = {"role": "tool", "content": SECRET, "name": "f", "tool_call_id": "abcdefghi"}
    for text in ("", "I call."):
        messages[1]["content"] = text
        assert SECRET in load("llama-3.1").text(Conversation([*messages, result], [{"type": "function", "function": {
            "name": "f", "description": "", "parameters": {"type": "object", "properties": {}}}}]))  # fmt: skip


def test_the_same_roles_are_checked_once(monkeypatch: pytest.MonkeyPatch):
    counts = list[int]()
    render = CompiledTemplate.render
    monkeypatch.setattr(CompiledTemplate, "render", lambda *a, **k: (counts.append(1), render(*a, **k))[1])
    ours = ChatTemplate(VOCABULARY, CHATML)
    ours.text([USER])  # begins with other probes
    for expected in (2, 1, 1):
        counts.clear()
        ours.text([USER, ANSWER, USER])
        assert len(counts) == expected


KEYS = (
    "{% for m in messages %}[{{ m.content }}{{ m.nickname if m.role == 'user' }}]{% endfor %}{{ messages[0].get('y') }}"
)


@pytest.mark.parametrize(
    ("role", "key", "value", "is_shown"),
    [
        ("user", "nickname", "Bob", True), ("user", "nick", "Bob", False), ("assistant", "nickname", "Bob", False),
        ("user", "y", True, True), ("user", "cont", "y", False),
        ("assistant", "nickname", "", True),
    ],
)  # fmt: skip
def test_a_key_changes_the_prompt_or_is_refused(role: str, key: str, value: Any, is_shown: bool):
    ours, messages = ChatTemplate(VOCABULARY, KEYS), [{"role": role, "content": "x", key: value}, USER]
    if is_shown:
        assert not value or str(value) in ours.text(messages)
        return
    with pytest.raises(MessageError, match=f"message 0 has the key '{key}', which this template would not show"):
        ours.text(messages)


def test_keys_of_published_templates():
    for name, key in product(("qwen-2.5", "llama-3.1"), ("name", "cont", "zzz")):
        with pytest.raises(MessageError, match=f"the key '{key}', which this template would not show"):
            load(name).text([{**USER, key: "Bob"}])


def test_names_in_a_template():
    source = (
        "{% set roles = ['critic'] %}{% if messages[0].role == 'function' and x == 'y' %}{# use #}"
        "{{ 'model' if messages[0]['role'] in ('judge', 'jury') }}{{ messages[0]['content'] }}{% endif %}"
    )
    template = compile_template(source)
    assert template.role_names == {"critic", "function", "judge", "jury"}
    assert template.names == template.role_names | {"content", "role", "y", "model"}
