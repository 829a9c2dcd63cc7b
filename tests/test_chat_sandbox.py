"""Operations that a chat template may not use; and texts that track their origin, compared with plain strings."""

from __future__ import annotations

import json
import random
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from guided.chat import ChatTemplate, Conversation
from guided.chat.compiled import CompiledTemplate
from guided.chat.render_budget import STEP, _compute_cost
from guided.chat.tagged_text import TaggedText, get_spans, join_tagged, tag_text
from guided.errors import GuidedError, LimitExceeded, UnsupportedError
from guided.vocabulary import Vocabulary
from tests.effort import every

pytest.importorskip("jinja2", minversion="3.1.6")
VOCABULARY = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256], special_tokens={256: "<|im_end|>"})
SAY = [{"role": "user", "content": "a"}]
GROW = "{{% set ns = namespace(x={}) %}}{{% for i in range(200) %}}{{% set ns.x = {} %}}{{% endfor %}}{}"
BIG = "{% set x = 'ab' * 1000000 %}{% for i in range(99999) %}"


def shown(text: str, **more: Any) -> str:
    return str.__str__(ChatTemplate(VOCABULARY, text + "{{ messages[0].content }}").text(Conversation(SAY, **more)))


@pytest.mark.parametrize(
    "text",
    [
        "{% for i in range(10 ** 9) %}a{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}a{% endfor %}{% endfor %}",
        "{{ 'a' * 10 ** 9 }}",
        "{{ ([0] * 10 ** 9)|length }}",
        "{{ 'a'|center(10 ** 9) }}",
        "{{ 'a'.center(10 ** 9) }}",
        "{{ 'a'.zfill(10 ** 9) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '%*d' % (10 ** 9, 1) }}",
        "{{ '%.*f' % (10 ** 9, 1) }}",
        "{{ '%999999999d'|format(1) }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ '{:{}}'.format(1, 10 ** 9) }}",
        "{{ '{a:999999999}'.format_map({'a': 1}) }}",
        "{% set x = '{0}' * 100000 %}{{ x.format('a' * 1000000) }}",
        "{% set x = '%(a)s' * 100000 %}{{ x|format(a='a' * 1000000) }}",
        "{{ 9 ** (9 ** 9) }}",
        GROW.format("2", "ns.x * ns.x", "{{ ns.x }}"),
        GROW.format("'a'", "ns.x + ns.x", ""),
        GROW.format("'a'", "ns.x ~ ns.x", ""),
        GROW.format("'a'", "ns.x.replace('a', 'aa')", ""),
        GROW.format("'a'", "ns.x|replace('a', 'aa')", ""),
        GROW.format("'a'", "'%s%s' % (ns.x, ns.x)", ""),
        GROW.format("'a'", "'{0}{0}'.format(ns.x)", ""),
        GROW.format("['a']", "ns.x + ns.x", ""),
        GROW.format("['a']", "[ns.x, ns.x]", "{{ ns.x }}"),
        GROW.format("['a']", "[ns.x, ns.x]", "{{ ns.x|tojson }}"),
        GROW.format("['a']", "[ns.x, ns.x]", "{{ ns.x ~ 'a' }}"),
        GROW.format("['a']", "[ns.x, ns.x]", "{{ [ns.x]|join }}"),
        GROW.format("('a',)", "(ns.x, ns.x)", "{{ {ns.x: 1}|length }}"),
        GROW.format("('a',)", "(ns.x, ns.x)", "{{ {'a': 1}[ns.x] }}"),
        GROW.format("('a',)", "(ns.x, ns.x)", "{{ ns.x == ns.x }}"),
        GROW.format("('a',)", "(ns.x, ns.x)", "{{ [ns.x]|unique|list|length }}"),
        "{% set x = 'a' * 1000000 %}{{ x.replace('a', x) }}",
        "{% set x = 'a' * 1000000 %}{{ ([x] * 100000)|join }}",
        "{% set x = 'a' * 1000000 %}{{ x.join(['a'] * 100000) }}",
        "{% set x = 'a' * 1000000 %}{{ ([x] * 100000)|tojson }}",
        "{{ (['a'] * 100000)|tojson(indent=99999) }}",
        "{% set x = 'a\n' * 1000000 %}{{ x|indent(99999) }}",
        "{{ range(99999)|map('center', 99999)|list|length }}",
        "{{ ([[0] * 1000] * 10000)|sum(start=[])|length }}",
        "{{ strftime_now('%99999999d') }}",
        GROW.format("'a'|safe", "ns.x + ns.x", ""),
        GROW.format("'a'|safe", "'<' + ns.x", "") * 40 + GROW.format("'a'|safe", "ns.x.replace('a', 'aa')", ""),
        "{% set x = ('a' * 1000000)|safe %}{{ x.replace('a', x) }}",
        "{{ 'a'['center'](10 ** 9) }}",
        "{{ ('a'|attr('center'))(10 ** 9) }}",
        "{{ ('{:999999999}'|attr('format'))(1) }}",
        "{{ '{:999999999}'['format'](1) }}",
        "{{ (['{:999999999}']|map(attribute='format')|first)(1) }}",
        "{% set x = 'a' * 1000000 %}{{ x['replace']('a', x) }}",
        "{% set x = 'a' * 1000000 %}{{ (x|attr('replace'))('a', x) }}",
        "{% set x = 'a' * 1000000 %}{{ (messages[0].content|attr('replace'))('a', x * 10)|length }}",
        "{% set x = ('a' * 1000000)|lower %}{{ ([x]|map(attribute='replace')|first)('a', x) }}",
        "{% set x = 'a\t' * 100000 %}{{ x['expandtabs'](99999) }}",
        "{% set x = ('a' * 1000000)|lower %}{{ (x|attr('translate'))({97: x}) }}",
        "{% set x = ('a' * 1000000)|lower %}{{ (x|attr('join'))(['b'] * 100000) }}",
        GROW.format("('a',)", "(ns.x, ns.x)", "{{ [ns.x].count(ns.x) }}"),
        GROW.format("('a',)", "(ns.x, ns.x)", "{{ [ns.x].index('a') }}"),
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for i in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
        BIG + "{% if 'zz' in x %}{% endif %}{% endfor %}",
        BIG + "{% set y = x[::-1] %}{% endfor %}",
        BIG + "{% set y = x|upper %}{% endfor %}",
        BIG + "{% set y = x.upper() %}{% endfor %}",
        BIG + "{% set y = x.split('a') %}{% endfor %}",
        BIG + "{% set y = x|trim %}{% endfor %}",
        BIG + "{% if x is eq(x) %}{% endif %}{% endfor %}",
    ],
)
def test_templates_that_would_hang_or_fill_the_memory_are_refused(text: str):
    with pytest.raises((LimitExceeded, UnsupportedError)):
        shown(text)


KEEP = "{{% set ns = namespace(x=()) %}}{{% for i in range(700) %}}{{% set ns.x = (ns.x, {}) %}}{{% endfor %}}"
NEST = "{% set ns = namespace(x=0) %}{% for i in range(23) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}"


@pytest.mark.parametrize(
    "text",
    [
        "{{ ('%(a)9999d' * 7000 % {'a': 1})|length }}",
        "{{ (('%(a)9999d' * 7000)|format(a=1))|length }}",
        "{{ ('%(a).9999f' * 7000 % {'a': 1})|length }}",
        "{{ ('%(a)f' * 250000 % {'a': 1e308})|length }}",
        "{{ ('%(a)a' * 7000 % {'a': '\U0001f600' * 1000})|length }}",
        "{{ (('{0:9999}' * 7000).format(1))|length }}",
        "{{ (('{0:.9999f}' * 7000).format(1))|length }}",
        "{{ (('{0[0]:f}' * 250000).format([1e308]))|length }}",
        "{{ (('{a:9999}' * 7000).format_map({'a': 1}))|length }}",
        "{{ ((('{0:9999}' * 7000)|safe).format(1))|length }}",
        "{{ '{:١٠٠٠٠٠٠٠}'.format(1) }}",
        "{{ (('{0.sep}' * 7000).format(joiner('a' * 10000)))|length }}",
        "{{ (('{0[0][sep]}' * 7000).format([joiner('a' * 10000)]))|length }}",
        "{{ ((('a' * 100000)|safe).join(range(700)|map('string')))|length }}",
        KEEP.format("'a'.center(100000)"),
        KEEP.format("'a'.ljust(100000)"),
        KEEP.format("'a'.rjust(100000)"),
        KEEP.format("'a'.zfill(100000)"),
        KEEP.format("('a'|safe).center(100000)"),
        KEEP.format("[1]|batch(100000, 0)|list"),
        KEEP.format("[1]|slice(100000)|list"),
        KEEP.format("dict.fromkeys(range(100000))"),
        KEEP.format("1|round(99999, 'ceil')"),
        "{{ [0] * 10000000 }}",
        NEST + "{{ ns }}",
        NEST + "{{ [ns] }}",
        NEST + "{{ '%s' % ns }}",
        NEST + "{{ '{}'.format(ns) }}",
        NEST + "{{ {'a': ns.x}.values() }}",
        "{% set f = ('a' * 1000000).join %}{{ [f] * 100 }}",
    ],
)
def test_the_size_of_results_is_charged(text: str):
    with pytest.raises((LimitExceeded, UnsupportedError), match=r"work of the chat template|width of a field"):
        shown(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ '{:>3}{!r}{a[x]}{b.real:04}'.format(1, 'c', a={'x': 2}, b=3) }}", "  1'c'20003"),
        ("{{ '{x}{y:.2f}'.format_map({'x': 1, 'y': 2.0}) }}", "12.00"),
        ("{{ ('{}'|safe).format('<') }}{{ '{}'.format('<'|safe) }}", "&lt;<"),
        ("{{ '%s %d %.1f %x %%' % ('a', 5, 2.5, 255) }}{{ '%r'|format('b') }}", "a 5 2.5 ff %'b'"),
        ("{{ 'a'.center(5, '.') }}{{ '7'.zfill(3) }}{{ [1]|batch(2, 0)|list }}", "..a..007[[1, 0]]"),
        ("{{ ', '.join([1, 2]|map('string')) }}{{ dict.fromkeys(range(2), 3) }}", "1, 2{0: 3, 1: 3}"),
        ("{{ namespace(a=1) }}{{ {'a': 1}.values() }}", "<Namespace {'a': 1}>dict_values([1])"),
    ],
)
def test_formats_are_as_in_python(text: str, expected: str):
    assert shown(text) == expected + "a"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ ''.__class__.__mro__ }}", "uses a forbidden operation: .*__class__"),
        ("{{ cycler.__init__.__globals__ }}", "uses a forbidden operation"),
        ("{{ messages.append(1) }}", "access to attribute 'append'"),
        ("{{ namespace(__class__=1) }}", "may not set the attribute '__class__'"),
        ("{% set ns = namespace() %}{% set ns['__x'] = 1 %}", "not valid Jinja|may not set the attribute"),
        ("{{ 'a'.encode() }}", "strings have no method encode"),
        ("{{ 'a'|random }}", "No filter named 'random'"),
        ("{{ lipsum(5) }}", "'lipsum' is undefined"),
        ("{% include 'x' %}", "no loader for this environment"),
        ("{% if %}", "not valid Jinja: .*line 1"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "cannot be compiled: RecursionError"),
        ("{{ a" + " < a" * 15_000 + " }}", "has 30007 nodes, more than 20000"),
        ("a" * 70_000, "has 700.. characters, more than 65536"),
        ("{{ raise_exception('no ' ~ messages|length) }}", "refuses this conversation: no 1"),
        ("{{ 1 + 'a' }}", "cannot render this conversation: TypeError"),
    ],
)
def test_refusals_have_reasons(text: str, message: str):
    with pytest.raises(GuidedError, match=message):
        shown(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ ''|attr('__class__') }}", ""),
        ("{% generation %}x{% endgeneration %}", "x"),
        (
            "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 3 %}{% break %}{% endif %}"
            "{{ i }}{% endfor %}",
            "013",
        ),
        ("{{ {'b': '<é>', 'a': [1, none]}|tojson }}", '{"b": "<é>", "a": [1, null]}'),
        ("{{ {'a': [1]}|tojson(indent=2) }}", json.dumps({"a": [1]}, indent=2)),
        ("{{ strftime_now('%%') }}", "%"),
        ("{{ dict(a=1).items()|list }}", "[('a', 1)]"),
        (
            "{{ [1, 2]|sum }}{{ [{'a': 2}]|sum('a') }}{{ ['a', 'b']|join('-') }}{{ [{'a': 'x'}]|join('', 'a') }}",
            "32a-bx",
        ),
        (
            "{{ 'a%sb' % 1 }}{{ '%03d' % 7 }}{{ '%s-%s'|format(1, 2) }}{{ '{}{}'.format(1, 'x') }}",
            "a1b0071-21x",
        ),
        ("{{ '<' + 'a<'|safe }}{{ ('a<'|safe).replace('a', 'b') }}{{ '<' ~ 'a'|safe }}", "&lt;a<b<<a"),
        ("{{ 'b' ~ 1 ~ [2] }}{{ 2 ** 10 }}{{ 'ab' * 2 }}{{ [1] * 2 }}", "b1[2]1024abab[1, 1]"),
        ("  {% if true %}\nx\n  {% endif %}\ny", "x\ny"),
    ],
)
def test_as_jinja_and_transformers_have_it(text: str, expected: str):
    assert shown(text) == expected + "a"


def test_values_that_share_parts_are_measured_once():
    """Each part counts wherever it occurs: 200 steps of `x = [x, x]` make a value of 2^200 parts."""
    value, expected = ["a"], 2 * STEP + 1
    for _ in range(200):
        value, expected = [value, value], STEP + 2 * expected
    assert _compute_cost(value, expected) == expected < 1 << 210
    value = {"a": (1, "bc", {3})}
    assert _compute_cost(value, 1000) == 7 * STEP + 3
    own: list[Any] = [1]
    own.append(own)
    assert _compute_cost(own, 1000) > 1000 and _compute_cost([0] * 1000, 1000) > 1000


INNER_LOOP = "{{% set r = range(1000)|list %}}{{% for i in r %}}{{% for j in r %}}{}{{% endfor %}}{{% endfor %}}"


@pytest.mark.parametrize(
    "text",
    [
        "{% macro f(n) %}{% if n %}{{ f(n-1) ~ f(n-1) }}{% endif %}{% endmacro %}{{ f(40) }}",
        "{% for i in [1, 2] recursive %}{{ loop([1, 2]) if loop.depth < 40 }}{% endfor %}",
        "{% for i in range(9) %}" * 12 + "{% endfor %}" * 12,
        INNER_LOOP.format("{% set ns.a = ns.a %}" * 1000),
        INNER_LOOP.format("{% if i is defined %}{% endif %}" * 1000),
        INNER_LOOP.format("{% set x = r[0] %}" * 1000),
        INNER_LOOP.format("{% macro f(n) %}{% endmacro %}" * 300),
        INNER_LOOP.format("{{ '' if i is odd }}" * 1000),
        "{% set r = range(1000)|list %}{% for i in r %}{% for j in r if " + "j is defined and " * 50 + "0 %}"
        "{% endfor %}{% endfor %}",
        "{% set r = range(1000)|list %}{% for i in r %}{% set x = r|select('odd')|list %}{% endfor %}",
        "{% set r = range(1000)|list %}{% for i in r %}{% set x = r|map('string')|list %}{% endfor %}",
        "{% set r = range(1000)|list %}{% for i in r %}{% set x = r|groupby('real') %}{% endfor %}",
        "{% for i in range(1000) %}{% for j in range(1000) %}{% set x = {'a': 1}.get('a') %}{% endfor %}{% endfor %}",
    ],
)
def test_all_work_is_charged(text: str, monkeypatch: pytest.MonkeyPatch):
    """A call of a function costs at least one unit on average, whatever the template does."""
    budget, count = 1_000_000, 0
    monkeypatch.setattr("guided.chat.render_budget._BASE_BUDGET", budget)
    template = CompiledTemplate("{% set ns = namespace(a=1) %}" + text)

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")
        assert count < budget

    with pytest.raises(LimitExceeded, match="work of the chat template"):
        sys.setprofile(note)
        try:
            template.render(messages=[])
        finally:
            sys.setprofile(None)


@pytest.mark.parametrize("name", ["qwen-3", "glm-4.6", "mistral-nemo"])
def test_ten_thousand_messages_fit(name: str):
    source = (Path(__file__).parent / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")
    messages = [{"role": ("user", "assistant")[number % 2], "content": "Hi."} for number in range(9_999)]
    variables = {"messages": messages, "bos_token": "", "eos_token": "", "add_generation_prompt": True}
    assert CompiledTemplate(source).render(**variables).count("Hi.") == len(messages)


def test_a_long_conversation_has_room():
    """The budget grows with the input."""
    messages = [{"role": role, "content": "word " * 2000} for role in ("user", "assistant") * 400]
    text = (
        "{% for m in messages %}{% if m != messages[-1] or '</x>' in m.content or messages|length > loop.index %}"
        "{{ m.content|trim + '\n' }}{% else %}{{ m.content|trim }}{% endif %}{% endfor %}"
    )
    assert len(ChatTemplate(VOCABULARY, text).text(messages)) == 800 * 10_000 - 1


# Capitals and underscores come from the template; other letters do not.
def is_own(letter: str) -> bool:
    return letter.isupper() or letter == "_"


def check(text: str, plain: str) -> None:
    assert str.__str__(text) == plain
    assert all(is_own(letter) for start, end in get_spans(text) for letter in plain[start:end])
    runs, at = [], 0
    for own, letters in groupby(plain, is_own):
        size = len(list(letters))
        runs += [(at, at + size)] if own else []
        at += size
    assert list(get_spans(text)) == runs


def step(source: random.Random, texts: list[tuple[str, str]]) -> None:
    """One operation on tracked texts and on plain texts."""
    (one, plain), (other, plain_other), (third, plain_third) = (source.choice(texts) for _ in range(3))
    start, end = sorted(source.choices(range(-3, len(plain) + 3), k=2))
    chars, sep, most = (
        source.choice(["_ ", "Aa", "b", None]),
        source.choice(["_", "A", "ab", "aB", " "]),
        source.choice([-1, 1, 2]),
    )
    pairs: list[tuple[str, str]] = []
    match source.randrange(12):
        case 0:
            pairs = [(one + other, plain + plain_other)]
        case 1:
            pairs = [(one[start:end], plain[start:end]), (one[-2:], plain[-2:])]
        case 2:
            pairs = [
                (one.strip(chars), plain.strip(chars)),
                (one.lstrip(chars), plain.lstrip(chars)),
                (one.rstrip(chars), plain.rstrip(chars)),
            ]
        case 3:
            pairs = list(zip(one.split(sep, most), plain.split(sep, most), strict=True))
        case 4:
            pairs = list(zip(one.rsplit(sep, most), plain.rsplit(sep, most), strict=True))
        case 5:
            pairs = list(zip(one.split(None, most), plain.split(None, most), strict=True))
        case 6 if isinstance(one, TaggedText):
            pairs = [(one.replace(sep, other, most), plain.replace(sep, plain_other, most))]
        case 7 if isinstance(one, TaggedText):
            pairs = [(one.join([other, third]), plain.join([plain_other, plain_third])), (one.join([]), "")]
        case 8:
            pairs = [
                *zip(one.partition(sep), plain.partition(sep), strict=True),
                *zip(one.rpartition(sep), plain.rpartition(sep), strict=True),
            ]
        case 9:
            pairs = [
                (one.removeprefix(sep), plain.removeprefix(sep)),
                (one.removesuffix(sep), plain.removesuffix(sep)),
                (one * 2, plain * 2),
            ]
        case 10:
            pairs = list(zip(one.splitlines(), plain.splitlines(), strict=True)) + list(
                zip(one.splitlines(True), plain.splitlines(True), strict=True)
            )
        case 11 if isinstance(one, TaggedText) and plain:
            at = source.randrange(-len(plain), len(plain))
            pairs = [(one[at], plain[at])]
            check(tag_text("A%s_%s") % (one, other), f"A{plain}_{plain_other}")
    for tracked, text in pairs:
        check(tracked, text)
    texts += [(tracked, text) for tracked, text in pairs if len(text) < 60]


@pytest.mark.parametrize("seed", every(3, range(60)))
def test_who_wrote_a_character_is_known_after_any_operation(seed: int):
    source = random.Random(seed)
    texts: list[tuple[str, str]] = [("a b\nab", "a b\nab"), ("", "")]
    for literal in ("A_B", "_", "AB", "A"):
        texts.append((tag_text(literal), literal))
    mixed = join_tagged(["ab ", tag_text("A_"), "a", tag_text("B"), " _"[:1], "\n"])
    texts.append((mixed, str.__str__(mixed)))
    for _ in range(200):
        step(source, texts)
        texts = texts[:6] + texts[-30:]


def test_operations_that_lose_the_origin_of_a_text():
    for text in (tag_text("AB").lower(), tag_text("ab").upper(), tag_text("AB").center(9), f"{tag_text('AB'):>5}"):
        assert get_spans(text) == ()
