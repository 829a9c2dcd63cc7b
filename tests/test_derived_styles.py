"""Styles of calls that are derived from chat templates write what Jinja renders, and read it back. The hand-written
styles read the same calls.
"""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.chat import ChatTemplate, Conversation
from guided.chat.call_probes import make_probe_tools
from guided.errors import GuidedError, UnsupportedError
from guided.frontends.structural_tag.tool_styles import ToolStyle
from guided.vocabulary import Vocabulary
from tests.derived_support import OF_STYLE, PUBLISHED, TEMPLATES, Calls, template, text_of
from tests.effort import draws, examples
from tests.structural_tag_support import accepts, byte_compiler, walk

jinja2 = pytest.importorskip("jinja2", minversion="3.1.6")

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
OWN_MESSAGES = {"kimi_k3"}
"""Styles whose messages ChatML cannot express, so they write no prompts."""
ONE_CALL = {"llama"}
OTHER_SPACE = {"glm_4_7", "deepseek_v4"}
"""The template writes line ends that the hand-written style leaves out. That style accepts any whitespace."""
CALLS: Calls = [
    ("weather", {"city": "Oslo in May", "days": 3}),
    ("pick", {"at": {"lat": -1.5}, "unit": "C"}),
    ("find", {"names": ["a", "b c"], "text": "<b> & x"}),
    ("weather", {"city": "São Paulo | ｜", "days": 12}),
]


@cache
def derived(name: str) -> ToolStyle:
    return guided.derive_tool_style(TEMPLATES[name], tokens=TOKENS)


def drawn(source: random.Random, most: int, *, nested: bool = True) -> Calls:
    kept = [call for call in CALLS if nested or call[0] not in ("pick", "find")]
    return [source.choice(kept) for _ in range(source.randint(1, most))]


def read(style: ToolStyle, text: str, calls: Calls, source: random.Random) -> Calls:
    reader, at = style.reader(make_probe_tools(calls)), 0
    while at < len(text):
        size = source.choice([1, 2, 5, 30])
        reader.read(text[at : at + size])
        at += size
    reader.finish()
    assert not reader.text.strip() and all(call.complete for call in reader.calls), (text, reader.text, reader.calls)
    return [(call.name, json.loads(call.arguments)) for call in reader.calls]


def rendered(source: str, calls: Calls) -> str:
    """A conversation with calls, as Jinja itself renders it, with the filters of transformers."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    environment.globals |= {"raise_exception": lambda text: 1 / 0, "strftime_now": lambda form: "today"}
    text = source.replace("{%- generation -%}", "").replace("{%- endgeneration -%}", "")
    made = [
        {"id": f"call{number:05d}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(calls)
    ]
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": made},
        *({"role": "tool", "content": "x", "name": name, "tool_call_id": f"call{number:05d}"}
          for number, (name, _) in enumerate(calls)),
    ]  # fmt: skip
    return str(environment.from_string(text).render(messages=messages, tools=make_probe_tools(calls), **TOKENS))


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_the_derived_style_writes_what_jinja_renders(name: str) -> None:
    source, style = random.Random(name), derived(name)
    nested = name not in ("lfm2", "pythonic", "olmo_3")  # these templates write objects with other quotation marks
    for _ in range(draws(12)):
        calls = drawn(source, 1 if name in ONE_CALL else 3, nested=nested)
        text = text_of(style, calls)
        assert text in rendered(TEMPLATES[name], calls)
        assert read(style, text, calls, source) == calls


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_the_derived_style_and_the_one_written_by_hand_read_the_same_calls(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, by_hand = random.Random(name), guided.tool_style(name)
    with monkeypatch.context() as patch:  # the derivation ignores existing styles
        patch.setattr("guided.frontends.structural_tag.tool_styles._FOLDER", None)
        style = guided.derive_tool_style(TEMPLATES[name], tokens=TOKENS)
    for trial in range(12):
        calls = drawn(source, 1 if name in ONE_CALL else 3)
        texts = [text_of(style, calls)]
        texts += [] if name in OWN_MESSAGES | OTHER_SPACE else [text_of(by_hand, calls)]
        if name == "mistral_v3":  # the template always writes identifiers; models of this style may leave them out
            texts[1:] = [texts[1].replace("}}, {", '}, "id": "VvODy9mT1"}, {').replace("}}]", '}, "id": "VvODy9mT1"}]')]
        for text in texts:
            for each in (style, by_hand):
                assert read(each, text, calls, source) == calls, (each.name, text)
                if trial < 3 and name not in OWN_MESSAGES:
                    tag = each.structural_tag(make_probe_tools(calls), tool_choice="required", mixed=False)
                    grammar = byte_compiler().compile_structural_tag(tag)
                    assert accepts(grammar, list(text.encode())), (each.name, text)
                    assert not accepts(grammar, list(text.replace("weather", "wether").replace("pick", "pik")
                                                     .replace("find", "fnd").encode()))  # fmt: skip


def test_there_is_a_template_for_each_style() -> None:
    assert set(TEMPLATES) == set(guided.TOOL_STYLES) - {"harmony"}
    by_hand = {name for name in TEMPLATES if guided.tool_style(name).data["source"].startswith("xgrammar")}
    assert len(by_hand) == 18  # of 19


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_generated_calls_are_read_back(name: str) -> None:
    """Walks through the grammar of the derived style."""
    source, style = random.Random(name), derived(name)
    schema = {
        "type": "object", "properties": {"city": {"type": "string", "maxLength": 4}, "days": {"type": "integer"}},
        "required": ["city"], "additionalProperties": False,
    }  # fmt: skip
    tools = [{"type": "function", "function": {"name": word, "parameters": schema}} for word in ("f", "weather")]
    for choice in ("auto", "required", {"type": "function", "function": {"name": "f"}}):
        for parallel in (True, False):
            tag = style.structural_tag(tools, tool_choice=choice, parallel_tool_calls=parallel)
            grammar = byte_compiler().compile_structural_tag(tag, numbers="plain", max_digits=9)
            text = "".join(walk(byte_compiler(), grammar, source, 150))
            reader = style.reader(tools)
            reader.read(text)
            assert all(call.complete for call in reader.calls), text
            assert len(reader.calls) >= (choice != "auto") and (parallel or len(reader.calls) <= 1)
            for call in reader.calls:
                assert isinstance(json.loads(call.arguments)["city"], str)


def test_inferred_styles() -> None:
    nemo = derived("mistral_v3").data
    assert nemo["section"] == {"begin": "[TOOL_CALLS][", "separator": ", ", "end": "]"}
    assert nemo["call"]["end"] == ', "id": "{id}"}' and nemo["call"]["id"] == "[a-zA-Z0-9]{9}"
    assert derived("kimi_k3").data["call"]["first"] == 1
    assert derived("kimi").data["call"]["begin"].startswith("<|tool_call_begin|>functions.{name}:{index}<|")
    assert derived("pythonic").data["trigger"] == "[{name}("
    assert derived("cohere").data["call"]["arguments"]["types"] == {
        "number": "json", "boolean": "json", "null": "json", "array": "list", "object": "dict"
    }  # fmt: skip
    assert derived("minimax_m3").data["call"]["arguments"]["item"] == "]<]minimax[>[<item>"
    assert derived("llama").data["notes"] == ["the template does not write several calls in one message"]
    assert any("true" in note for note in derived("qwen_3_coder").data["notes"])
    for name in TEMPLATES:
        assert json.loads(json.dumps(derived(name).data)) == derived(name).data


# --- templates that no model has


def jinja_of(form: str) -> str:
    """A template for the arguments of a call, in one form."""
    loop = "{% for k, v in c.function.arguments.items() %}"
    plain = "{{ v if v is string else v|tojson }}"
    return {
        "json": "{{ c.function.arguments|tojson }}",
        "lines": loop + "<arg={{ k }}>{{ '\\n' }}" + plain + "{{ '\\n' }}</arg>{{ '\\n' }}{% endfor %}",
        "flat": loop + "<arg name='{{ k }}'>" + plain + "</arg>{% endfor %}",
        "typed": loop + '<arg name="{{ k }}" text="{{ 1 if v is string else 0 }}">' + plain + "</arg>{% endfor %}",
        "python": "(" + loop + "{{ k }}={{ v|tojson }}{{ ', ' if not loop.last }}{% endfor %})",
    }[form]


words = st.sampled_from(["tool", "call", "invoke", "use", "x"])
markers = st.builds(str.format, st.sampled_from(["<{}>", "[{}]", "<|{}|>", "«{}»", "<{}:y>", "{{{}:"]), words)


@st.composite
def unknown_templates(draw: st.DrawFn) -> str:
    form, begin, end = draw(st.sampled_from(["json", "lines", "flat", "typed", "python"])), draw(markers), draw(markers)
    middle = draw(st.sampled_from(["", "\n", "<sep>", " : ", '", "args": '])) if form != "python" else ""
    index = draw(st.sampled_from(["", "", ":{{ loop.index0 }}:", "#{{ loop.index }}#", "#{{ c.id }}#"]))
    number = index if draw(st.booleans()) else ""
    call = f"{begin}{number}{{{{ c.function.name }}}}{index}{{{{ {middle!r} }}}}{jinja_of(form)}{end}"
    section = draw(st.one_of(st.just(("", "")), st.tuples(markers, markers), st.tuples(markers, st.just("]"))))
    return template(*section[:1], call, section[1], draw(st.sampled_from(["", "\n", ", ", "; "])))


@given(unknown_templates(), st.randoms(use_true_random=False))
@examples(25)
def test_an_unknown_template_is_derived_or_refused(source: str, draw: random.Random) -> None:
    """A derived style is never wrong: it writes what Jinja renders."""
    try:
        style = guided.derive_tool_style(source)
    except UnsupportedError as error:
        assert error.hint
        return
    for _ in range(3):
        calls = drawn(draw, 3)
        text = text_of(style, calls)
        assert text in rendered(source, calls)
        assert read(style, text, calls, draw) == calls


@pytest.mark.parametrize("form", ["json", "lines", "flat", "typed", "python"])
@pytest.mark.parametrize("group", [("", ""), ("<calls>", "</calls>"), ("\n[CALLS][", "]")])
@pytest.mark.parametrize("separator", ["", "\n", ", "])
def test_usual_markup_is_derived(form: str, group: tuple[str, str], separator: str) -> None:
    source = template(group[0], "<call>{{ c.function.name }}" + jinja_of(form) + "</call>", group[1], separator)
    if separator == ", " and not group[0]:
        with pytest.raises(UnsupportedError, match="calls are separated by ', '"):
            guided.derive_tool_style(source)
        return
    style = guided.derive_tool_style(source)
    for count in (1, 2, 3):
        text = text_of(style, CALLS[:count])
        assert text in rendered(source, CALLS[:count])
        assert read(style, text, CALLS[:count], random.Random(0)) == CALLS[:count]


# --- templates from which no style can be derived


JSON_CALL = '{"name": "{{ c.function.name }}", "args": {{ c.function.arguments|tojson }}}'
NAME = "{{ c.function.name }}"
ARGUMENTS = "{{ c.function.arguments|tojson }}"
LINES = "{% for k, v in c.function.arguments.items() %}{{ k }}: {{ v }};{% endfor %}"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}{{ tools }}", "does not show the calls"),
        ("{{ messages[0].content }}", "does not show the answers"),
        ("{% if %}", "not valid Jinja"),
        (template("", "<call>{{ c.id }}</call>", ""), "does not show the calls"),
        (template("", f"<call>{NAME}</call>", ""), "does not show an argument"),
        (template("", f"<call>{{{{ c.function.arguments|tojson }}}}{NAME}</call>", ""), "before the function's name"),
        (template("", f"<call>{NAME} {{{{ c.function.arguments|tojson|tojson }}}}</call>", ""), "JSON text in a str"),
        (template("", f"<call>{NAME}{LINES}</call>", ""), "neither JSON, an element nor a literal"),
        (template("[", JSON_CALL, "", ", "), "end of a group"),
        (template("", JSON_CALL.replace('"name": ', ""), "", "\n"), "which other text also contains"),
        (template("", f"<call>{NAME}{{{{ c.function.arguments|tojson }}}}</call>", "", " and then "), "distinguished"),
        (template("", f"<call>{NAME}{{{{ loop.index }}}}{ARGUMENTS}</call>", ""), "nothing separates name and index"),
        (PUBLISHED["gpt-oss"], "answers begin with"),
        (PUBLISHED["granite-3.3"], "does not show the calls"),
    ],
)  # fmt: skip
def test_errors_say_why_no_style_can_be_derived(source: str, message: str) -> None:
    with pytest.raises(GuidedError, match=message) as caught:
        guided.derive_tool_style(source, tokens=TOKENS)
    assert caught.value.hint


def test_rendering_is_bounded_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guided.chat.render_budget._BASE_BUDGET", 0)
    monkeypatch.setattr("guided.chat.derived_style._TOTAL_SIZE", 20_000)
    known = template("", f"<call>{NAME}{{{{ c.function.arguments|tojson }}}}</call>", "")
    assert guided.derive_tool_style(known).data["trigger"] == "<call>"
    with pytest.raises(guided.LimitExceeded, match="work of the chat template"):
        guided.derive_tool_style(known + "{% for i in range(2000) %}{% endfor %}")


def test_a_template_is_chosen_by_its_name() -> None:
    known = template("<calls>", f"<call>{NAME}{{{{ c.function.arguments|tojson }}}}</call>", "</calls>")
    for names in (["default"], ["tool_use", "default"], ["other"]):
        texts = {name: known if number == 0 else "{{ messages }}" for number, name in enumerate(names)}
        assert guided.derive_tool_style(texts, name="own").name == "own"
    with pytest.raises(GuidedError, match="there is no chat template"):
        guided.derive_tool_style({})


# --- the fallback of conversations


VOCABULARY = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
UNKNOWN = template("<<", f"<do>{NAME}{{{{ c.function.arguments|tojson }}}}</do>", ">>", ",")


def test_a_template_without_a_known_style_has_its_derived_style() -> None:
    chat = ChatTemplate(VOCABULARY, UNKNOWN)
    assert chat.tool_style is None and chat.style is not None and chat.style.name == "derived"
    assert ChatTemplate(VOCABULARY, PUBLISHED["qwen-3"], tokens=TOKENS).style == guided.tool_style("qwen_3")
    assert ChatTemplate(VOCABULARY).style is None
    function = {"name": "f", "arguments": '{"a": 1}'}
    talk: list[Any] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "x", "type": "function", "function": function}]},
        {"role": "tool", "content": "2", "tool_call_id": "x"},
    ]
    tools = make_probe_tools([("f", {"a": 1})])
    own = chat.text(Conversation(talk, tools))
    assert '<<<do>f{"a": 1}</do>>>' in own and own.startswith("<|tools|>")
    assert chat.text(Conversation(talk, tools, chat.style)) == own
    other = chat.text(Conversation(talk, tools, "qwen_3"))
    assert '<tool_call>\n{"name": "f"' in other and "<|tools|>" not in other
    assert chat.text(Conversation(talk, tools, guided.tool_style("qwen_3"))) == other


def test_published_templates_have_a_known_style_or_are_derived() -> None:
    """All except those that show no calls, and Command R7B, whose answers have other headers."""
    without = {"command-r7b-tool-use", "gemma-2", "gemma-3", "phi-3.5", "smollm-3"}
    chats = {name: ChatTemplate(VOCABULARY, source, tokens=TOKENS) for name, source in PUBLISHED.items()}
    assert {name for name, chat in chats.items() if chat.style is None} == without
    assert {name for name, chat in chats.items() if chat.style and chat.tool_style is None} == {"hunyuan-3"}
    for style, name in OF_STYLE.items():
        assert chats[name].tool_style == ("qwen_3_5" if style == "qwen_3_coder" else style)  # the same calls


# --- names that are prefixes of other names


ATTRIBUTES = (
    "{% for k, v in c.function.arguments.items() %}<p={{ k }}>{{ v if v is string else v|tojson }}</p>{% endfor %}"
)
SIMILAR: Calls = [("a", {"x": 1}), ("add", {"x": "y"}), ("add2", {}), ("add-2", {"x": 1}), ("a.dd", {})] * 3


BEGINS = [f"<call>{NAME}", f"<call {{{{ c.id }}}}>{NAME}", f"<call {{{{ loop.index }}}}>{NAME}"]
NUMBERED = [f"<call>{NAME}#{{{{ c.id }}}}", f"<call>{NAME}:{{{{ loop.index }}}}"]


@pytest.mark.parametrize(
    "call", [f"{begin}{ARGUMENTS}" for begin in BEGINS + NUMBERED] + [f"{begin}{ATTRIBUTES}" for begin in BEGINS]
)
def test_names_and_numbers_are_read_whole(call: str) -> None:
    source = template("", f"{call}</call>", "")
    style = guided.derive_tool_style(source)
    text = text_of(style, SIMILAR)
    assert text in rendered(source, SIMILAR)
    for seed in range(3):
        assert read(style, text, SIMILAR, random.Random(seed)) == SIMILAR


# --- calls without their marker


@pytest.mark.parametrize(
    "call",
    [
        f"<call>{NAME} {ARGUMENTS}</call>",
        f"<call id={{{{ c.id }}}}>{NAME} {ARGUMENTS}</call>",
        f"<call {{{{ loop.index }}}}>{NAME}: {ARGUMENTS}</call>",
        f'<call>{NAME}: {{"arguments": {ARGUMENTS}}}</call>',
        f'<call>{{"id": "{{{{ c.id }}}}", "name": "{NAME}", "arguments": {ARGUMENTS}}}</call>',
    ],
)
def test_text_before_a_call_is_not_a_call(call: str) -> None:
    """Only an object with the name of a tool is a call without its marker."""
    style, tools = guided.derive_tool_style(template("", call, "")), make_probe_tools(CALLS)
    lenient = style.with_bare_calls()
    grammar = byte_compiler().compile_structural_tag(lenient.structural_tag(tools))
    for text in ("The weather is fine.", "call00001>weather", 'weather: {"arguments": "none"}', '{"id": "a"}'):
        assert accepts(grammar, list(text.encode()))
        reader = lenient.reader(tools)
        reader.read(text)
        reader.finish()
        assert (reader.text, reader.calls) == (text, [])


def test_an_object_with_a_name_needs_no_marker() -> None:
    style = guided.derive_tool_style(template("", f"<call>{JSON_CALL}</call>", ""))
    text = '{"name": "weather", "args": {"city": "Oslo"}}</call>'
    assert read(style.with_bare_calls(), text, CALLS, random.Random(0)) == [("weather", {"city": "Oslo"})]
