"""Many triggers: the marker that ends free text determines what follows. Compared with the definition; and how many
triggers are possible.
"""

from __future__ import annotations

import itertools
import random
from functools import cache
from typing import Any

import pytest

import guided
from guided.automaton.reference.token_masks import ReferenceGrammar
from guided.frontends.common.aho_corasick import free_text
from guided.frontends.common.left_recursion import find_left_recursive, is_nullable
from guided.frontends.structural_tag.tool_styles import ToolStyle
from guided.frontends.structural_tag.tools import chosen_tools
from guided.ir.nodes import Alt, Automaton, Dispatch, Grammar, Node, Ref, Region, Repeat, Seq, Special, Text
from tests.effort import every
from tests.structural_tag_support import accepts, byte_compiler, of_format
from tests.test_aho_corasick import ends_first, occurs, random_strings
from tests.twin_support import compile_both

CONTENTS = ["", "c", "a", "ca", "b"]


def constant(value: str) -> dict[str, Any]:
    return {"type": "const_string", "value": value}


def told_apart(rules: dict[str, str], never: list[str], text: str, loop: bool) -> bool:
    """Whether a text is free text with patterns and their parts, by definition."""
    patterns = list(rules)

    @cache
    def whole(at: int) -> bool:
        rest = text[at:]
        if not occurs(rest, [*patterns, *never]):
            return True
        for stop in range(len(rest) + 1):
            for number, pattern in enumerate(patterns):
                follows = rules[pattern]
                if rest.startswith(follows, stop) and ends_first(rest[:stop], number, patterns, never):
                    after = at + stop + len(follows)
                    if after == len(text) or (loop and whole(after)):
                        return True
        return False

    return whole(0)


def texts(alphabet: str, longest: int) -> list[str]:
    return ["".join(chars) for size in range(longest + 1) for chars in itertools.product(alphabet, repeat=size)]


@pytest.mark.parametrize("seed", every(3, range(40)))
def test_dispatch_equals_its_definition(seed: int) -> None:
    """Patterns overlap, contain each other, and are suffixes or prefixes of others."""
    source = random.Random(seed)
    rules = {pattern: source.choice(CONTENTS) for pattern in random_strings(source, 5) or ["ab"]}
    never = random_strings(source, 1)
    loop = source.random() < 0.6
    form = {
        "type": "dispatch",
        "rules": [[pattern, constant(content)] for pattern, content in rules.items()],
        "excludes": never,
        "loop": loop,
    }
    try:
        grammar = byte_compiler().compile_structural_tag(of_format(form))
    except guided.SpecError as error:
        assert "can never be complete" in str(error)
        patterns = list(rules)
        assert any(
            not any(ends_first(text, number, patterns, never) for text in texts("ab", 8))
            for number in range(len(patterns))
        )
        return
    for text in texts("abc", 6):
        assert accepts(grammar, list(text.encode())) == told_apart(rules, never, text, loop), (rules, never, text)


@pytest.mark.parametrize("seed", every(3, range(25)))
def test_triggered_tags_equal_their_definition(seed: int) -> None:
    """No trigger is a prefix of another, since a tag has one trigger. They are suffixes of others, and overlap."""
    source = random.Random(seed)
    triggers: list[str] = []
    for one in random_strings(source, 6) or ["ab"]:
        if not any(one.startswith(other) or other.startswith(one) for other in triggers):
            triggers.append(one)
    begins = {trigger: [trigger + end for end in source.sample(["", "c", "a"], 2)] for trigger in triggers}
    tags = [{"begin": begin, "content": constant("c"), "end": "b"} for each in begins.values() for begin in each]
    form = {"type": "triggered_tags", "triggers": triggers, "tags": tags}
    try:
        grammar = byte_compiler().compile_structural_tag(of_format(form))
    except guided.SpecError as error:
        assert "can never be complete" in str(error)
        return
    for text in texts("abc", 6):
        expected = reads(text, triggers, begins)
        assert accepts(grammar, list(text.encode())) == expected, (triggers, text)


def reads(text: str, triggers: list[str], begins: dict[str, list[str]]) -> bool:
    if not occurs(text, triggers):
        return True
    for stop in range(len(text) + 1):
        for number, trigger in enumerate(triggers):
            if ends_first(text[:stop], number, triggers, []):
                for begin in begins[trigger]:
                    rest = begin[len(trigger) :] + "cb"
                    if text.startswith(rest, stop) and reads(text[stop + len(rest) :], triggers, begins):
                        return True
    return False


@pytest.mark.parametrize("kind", ["triggered_tags", "dispatch"])
def test_two_thousand_triggers(kind: str) -> None:
    names = [f"<{number}>" for number in range(2000)]
    if kind == "dispatch":
        form: dict[str, Any] = {"type": kind, "rules": [[name, constant(f"={name[1:-1]};")] for name in names]}
    else:
        tags = [{"begin": name, "content": constant(f"={name[1:-1]}"), "end": ";"} for name in names]
        form = {"type": kind, "triggers": names, "tags": tags}
    grammar = guided.GrammarCompiler(byte_compiler().vocabulary, cache_bytes=0).compile_structural_tag(of_format(form))
    for text in ("", "a<", "a<1999>=1999;b<7>=7;", "<2000>", "<<0>=0;"):
        assert accepts(grammar, list(text.encode())), text
    for text in ("<7>", "<7>=8;", "<1999>=199;", "a<0>=0;<1>"):
        assert not accepts(grammar, list(text.encode())), text


def test_triggers_that_all_overlap_cost_what_their_characters_cost() -> None:
    """Each begins within another one, so the text before it differs from trigger to trigger."""
    source = random.Random(1)
    triggers = sorted({"".join(source.choice("ab") for _ in range(14)) for _ in range(800)})
    form = {"type": "dispatch", "rules": [[trigger, constant(f"{number};")] for number, trigger in enumerate(triggers)]}
    grammar = byte_compiler().compile_structural_tag(of_format(form))
    for number, trigger in enumerate(triggers):
        text = trigger[:5] + "c" + trigger
        assert accepts(grammar, list(f"{text}{number};".encode()))
        assert not accepts(grammar, list(f"{text}{number + 1};".encode()))


def test_many_control_tokens_that_trigger_share_the_text_before_them() -> None:
    names = [f"<|{number}|>" for number in range(400)]
    vocabulary = guided.Vocabulary(
        [bytes([byte]) for byte in range(256)],
        eos_token_ids=[256],
        special_tokens={257 + number: name for number, name in enumerate(names)},
        size=257 + len(names),
    )
    tags = [{"begin": f"{name}x", "content": constant(str(number)), "end": ";"} for number, name in enumerate(names)]
    form = of_format({"type": "triggered_tags", "triggers": names, "tags": tags})
    grammar = guided.GrammarCompiler(vocabulary).compile_structural_tag(form, allow_special_tokens=True)
    assert accepts(grammar, [97, 257 + 399, *b"x399;", 98])
    assert not accepts(grammar, [97, 257 + 399, *b"x398;", 98])


# --- the node


def examples() -> list[Dispatch]:
    loop = Automaton(((False, ((97, 97, 1), (98, 98, 0))), (True, ((97, 97, 0),))), 1)
    empty = Automaton(((False, ()),), 0)
    return [
        Dispatch(loop, (0, 1, 1), (Text("x"), Ref("again"), Text("y"))),
        Dispatch(loop, (), ()),
        Dispatch(empty, (0,), (Seq(()),)),
        Dispatch(empty, (0, 0), (Ref("again"), Text("z"))),
    ]


@pytest.mark.parametrize("number", every(2, range(4)))
def test_the_node_is_read_alike_by_the_reference(number: int) -> None:
    rules: dict[str, Node] = {
        "start": Seq((Repeat(examples()[number], 0, 2), Text("!"))),
        "again": Alt((Seq((Text("("), Ref("start"), Text(")"))), Text("w"))),
    }
    grammar = Grammar(rules)
    compiler = byte_compiler()
    compiled = compiler.compile_grammar(grammar)
    reference = ReferenceGrammar(grammar, [bytes([byte]) for byte in range(256)], [256])
    for text in [*texts("abxw!", 5), "ab(!)!", "a(a(!)!)!", "bx(y!)!", "(!)z!"]:
        ids, state = list(text.encode()), reference.initial()
        for id in ids:
            state = state and reference.accept_token(state, id)
        assert accepts(compiled, ids) == (state is not None and reference.is_accepting(state)), text


@pytest.mark.parametrize("whole_bytes", [True, False])
@pytest.mark.parametrize("seed", every(3, range(30)))
def test_masks_and_budgets_of_random_nodes_match_the_reference(seed: int, whole_bytes: bool) -> None:
    """Random tokens. Without a token for each byte, rules are written out."""
    source = random.Random(seed)
    free = free_text(random_strings(source, 4) or ["ab"], random_strings(source, 1))
    found: list[Node] = [Text("c"), Text(""), Text("ab"), Special("<x>"), Seq((Text("c"), Ref("other")))]
    node = free.dispatch([source.choice(found) for _ in free.end_states])
    rules: dict[str, Node] = {
        "start": Seq((Repeat(node, 0, source.choice([1, None])), source.choice([free.without_markers, Text("c")]))),
        "other": Alt((Text("a"), Special("<x>"))),
    }
    tokens = {bytes(source.choices(b"abc", k=source.randint(2, 4))) for _ in range(6)}
    spelled = [*sorted(tokens | ({b"a", b"b", b"c"} if whole_bytes else {b"c"})), None, None]
    end, control = len(spelled) - 2, len(spelled) - 1
    both = compile_both(Grammar(rules), spelled, [end], {end: "<e>", control: "<x>"}, everything_supported=True)
    assert both is not None
    matcher, twin = both
    state, mask = twin.initial(), guided.allocate_token_bitmask(1, len(spelled))
    for _ in range(8):
        matcher.fill_next_token_bitmask(mask)
        allowed = set(guided.allowed_tokens(mask))
        assert allowed == twin.mask(state)
        assert matcher.min_tokens_to_finish() == twin.min_tokens(state)
        token = source.choice(sorted(allowed))
        after = twin.accept_token(state, token)
        assert matcher.accept_token(token) and after is not None
        if token == end:
            break
        state = after


def test_the_beginning_of_the_node() -> None:
    automaton = Automaton(((False, ((97, 97, 1),)), (False, ())), 0)
    for exits, recursive in (((0,), True), ((1,), False)):
        node = Dispatch(automaton, exits, (Ref("start"),))
        grammar = Grammar({"start": Alt((node, Text("b")))}, regions={"start": Region(capture="x")})
        assert bool(find_left_recursive(grammar)) == recursive
        assert not is_nullable(node)
        assert is_nullable(node, {"start"}) == recursive


@pytest.mark.parametrize("item", [Text("x"), Ref("x")])
def test_nodes_that_differ_in_their_exits_are_not_confused(item: Node) -> None:
    """Cached rules are found by their content."""
    automaton = Automaton(((False, ((97, 97, 1),)), (False, ())), 0)
    compiler = guided.GrammarCompiler(byte_compiler().vocabulary)
    for exits, text in (((0,), "x"), ((1,), "ax"), ((0,), "x")):
        grammar = compiler.compile_grammar(Grammar({"start": Dispatch(automaton, exits, (item,)), "x": Text("x")}))
        assert [one for one in ("", "a", "x", "ax") if accepts(grammar, list(one.encode()))] == [text]


def test_a_malformed_node_is_an_error() -> None:
    automaton = Automaton(((False, ()),), 0)
    compiler = byte_compiler()
    for node in (Dispatch(automaton, (0, 0), (Text("a"),)), Dispatch(automaton, (1,), (Text("a"),))):
        with pytest.raises(guided.SpecError, match="Dispatch"):
            compiler.compile_grammar(Grammar({"start": node}))


def test_dispatch_needs_a_node_for_each_end() -> None:
    with pytest.raises(ValueError, match="zip"):
        free_text(["a", "b"]).dispatch([Text("x")])


# ---- groups of calls without their own marker


LETTERS = frozenset(b"[](), abn=1'")


def tools_of(*names: str) -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {"n": {"enum": [1, "a["]}}, "additionalProperties": False}
    return [{"type": "function", "function": {"name": name, "parameters": schema}} for name in names]


def by_first_call(style: ToolStyle, tools: list[dict[str, Any]], parallel: bool) -> dict[str, Any]:
    """The definition: as soon as free text contains the beginning of a group and of a call, this is a call."""
    tags = [tag for function in chosen_tools(tools).functions for tag in style._build_call_tags(function)]
    section, out = style.data["section"], []
    for tag in tags:
        more = {"type": "star", "content": {"type": "sequence", "elements": [
            constant(section["separator"]), {"type": "or", "elements": tags}
        ]}}  # fmt: skip
        content = [tag["content"], constant(tag["end"]), *([more] if parallel else [])]
        inner = {"type": "sequence", "elements": content}
        out.append({"type": "tag", "begin": section["begin"] + tag["begin"], "content": inner, "end": section["end"]})
    triggers = style.triggers(chosen_tools(tools).functions)
    return of_format({"type": "triggered_tags", "triggers": triggers, "tags": out, "stop_after_first": not parallel})


@pytest.mark.parametrize("parallel", [True, False])
def test_a_group_begins_with_its_first_call(parallel):
    """The same masks, with and without a budget, as if each first call had a tag."""
    tools, style, rng = tools_of("a", "ab", "b"), guided.tool_style("pythonic"), random.Random(parallel)
    words = [b"[a(", b"[ab(n", b"b(", b")]", b"), ", b"[", b"[[a", b"(n=1)", b"ab(n='a[')]"]
    compiler = guided.GrammarCompiler(
        guided.Vocabulary([*(bytes([byte]) for byte in range(256)), *words], eos_token_ids=[256 + len(words)])
    )
    tags = (style.structural_tag(tools, parallel_tool_calls=parallel), by_first_call(style, tools, parallel))
    grammars = [compiler.compile_structural_tag(tag) for tag in tags]
    groups = 0
    for _ in range(40):
        pair = [guided.GrammarMatcher(grammar) for grammar in grammars]
        least = [matcher.min_tokens_to_finish() for matcher in pair]
        left = max(least) + rng.randrange(30)
        while not pair[0].is_terminated():
            rows = []
            for matcher, budget in itertools.product(pair, (None, left)):
                mask = guided.allocate_token_bitmask(1, compiler.vocabulary.size)
                matcher.fill_next_token_bitmask(mask, max_tokens=budget)
                rows.append([id for id in guided.allowed_tokens(mask) if id < compiler.vocabulary.size])
            assert rows[0] == rows[2] and rows[1] == rows[3]
            preferred = [id for id in rows[1] if id >= 256 or id in LETTERS]
            token = rng.choice(preferred if preferred and rng.random() < 0.9 else rows[1])
            groups += token == 256 + words.index(b")]")
            assert all(matcher.accept_token(token) for matcher in pair)
            left -= 1
    assert groups > 5


@pytest.mark.parametrize("call", [("{name}([", "])"), ("{name}(", ")"), ("{name}[", "]")])
def test_calls_that_end_like_the_begin_of_a_group(call):
    """If markers overlap, every answer is still one by definition, and all of its calls can be read."""
    begin, end = call
    data = dict(guided.tool_style("pythonic").data)
    data |= {"trigger": f"[{begin}", "call": {"begin": begin, "end": end, "arguments": "pythonic"}}
    style, tools, rng = ToolStyle("mine", data), tools_of("a", "b"), random.Random(5)
    grammar = byte_compiler().compile_structural_tag(style.structural_tag(tools))
    definition = byte_compiler().compile_structural_tag(by_first_call(style, tools, True))
    pieces = ["[", "[a(", begin.format(name="a"), begin.format(name="b"), end, "]", ", ", "n=1", "a", "(["]
    written = 0
    for _ in range(400):
        matcher, text = guided.GrammarMatcher(grammar), ""
        for piece in rng.choices(pieces, k=rng.randrange(2, 40)):
            text += piece * matcher.accept_string(piece)
        if matcher.is_accepting():
            assert accepts(definition, list(text.encode())), text
            reader = style.reader(tools)
            reader.parts(text)
            reader.finish()
            assert all(each.complete for each in reader.calls), text
            written += len(reader.calls)
    assert written > 20
