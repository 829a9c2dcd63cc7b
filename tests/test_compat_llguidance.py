"""Examples from llguidance's documentation of matchers, tokenizers and executors. Each runs with guided's interface
and, if it is installed, with the package itself, so that both check each other.
"""

from __future__ import annotations

import json
import random
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

PACKAGES = ["guided.compat.llguidance", "llguidance"]
END = 261


@pytest.fixture(params=PACKAGES)
def ll(request):
    if find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return import_module(request.param)


@pytest.fixture
def tokenizer(ll):
    return ll.LLTokenizer("byte")


def matcher(ll, grammar, **options):
    return ll.LLMatcher(ll.LLTokenizer("byte"), grammar, log_level=0, **options)


def allowed(one):
    return [number for number, value in enumerate(one.compute_logit_bias()) if value]


def accepts(ll, grammar, text):
    one = matcher(ll, grammar)
    assert not one.is_error(), one.get_error()
    tokens = list(text.encode())
    return one.try_consume_tokens(tokens) == len(tokens) and one.is_accepting()


def state(one):
    return one.is_accepting(), one.is_stopped(), one.stop_reason(), bool(one.get_error())


def test_a_matcher_step_by_step(ll):
    one = matcher(ll, "start: /ab?/")
    assert (allowed(one), state(one)) == ([97], (False, False, "NotStopped", False))
    assert one.consume_token(97)
    assert (allowed(one), state(one)) == ([98, END], (True, False, "NotStopped", False))
    assert one.consume_token(98)
    assert (allowed(one), state(one)) == ([END], (True, True, "NoExtension", False))
    assert one.consume_token(END) and state(one) == (True, True, "NoExtension", False)
    assert one.try_consume_tokens([END]) == one.validate_tokens([END]) == 0


def test_an_end_token_stops_a_text_that_could_continue(ll):
    one = matcher(ll, "start: /ab?/")
    assert one.consume_tokens([97, END]) and state(one) == (True, True, "EndOfSentence", False)
    assert allowed(one) == [END] and one.try_consume_tokens([98]) == 0
    assert one.rollback(1) and state(one) == (True, False, "NotStopped", False) and allowed(one) == [98, END]
    assert one.reset() and allowed(one) == [97]


def test_masks_have_the_sizes_of_the_vocabulary(ll, tokenizer):
    one = matcher(ll, "start: /[a-c]/")
    bits = np.unpackbits(np.frombuffer(one.compute_bitmask(), np.uint8), bitorder="little")
    assert tokenizer.vocab_size == 262 and len(one.compute_logit_bias()) == 262 and len(bits) == 9 * 32
    assert np.flatnonzero(bits).tolist() == allowed(one) == [97, 98, 99]


def test_errors_are_reported_and_remain(ll):
    one = matcher(ll, "start: /ab/")
    copy = one.deep_copy()
    assert not one.consume_token(120) and state(one) == (False, True, "InternalError", True)
    assert "doesn't satisfy the grammar" in one.get_error()
    assert not one.consume_token(97) and one.try_consume_tokens([97]) == 0 and one.validate_tokens([97]) == 0
    assert not one.rollback(0 + 1) and not one.reset() and allowed(one) == [END]
    assert one.compute_ff_tokens() == [] and one.compute_ff_bytes() == b"" and one.get_captures() == []
    assert not copy.is_error() and copy.consume_token(97)
    assert copy.validate_tokens([400]) == 0 and "out of range" in copy.get_error()
    back = matcher(ll, "start: /ab/")
    assert not back.rollback(1) and "rollback: 1 > 0" in back.get_error()


@pytest.mark.parametrize(
    "grammar", ["start: nothing", "", '{"grammars": []}', '{"grammars": [{}, {"x": 1}]}', "start: /(/"]
)
def test_a_wrong_grammar_never_raises(ll, tokenizer, grammar):
    assert matcher(ll, grammar).is_error() and ll.LLMatcher.validate_grammar(grammar, tokenizer)
    assert ll.LLMatcher.validate_grammar_with_warnings(grammar, tokenizer)[0]


def test_drafts(ll):
    one = matcher(ll, "start: /ab?/")
    assert [one.validate_tokens(tokens) for tokens in ([97, 98, END, END], [97, END], [97, 98, 98], [])] == [3, 2, 2, 0]
    assert one.try_consume_tokens([97, 98, END]) == 2 and one.is_stopped() and not one.is_error()


def test_forced_text(ll):
    one = matcher(ll, "start: /(foo[12]23|bar)/")
    found = []
    for token in b"foo123":
        found.append((one.compute_ff_bytes(), bytes(one.compute_ff_tokens())))
        one.consume_token(token)
    forced = [b"", b"oo", b"o", b"", b"23", b"3"]
    assert found == [(data, data) for data in forced] and one.compute_ff_tokens() == []


def test_forced_control_tokens(ll):
    one = matcher(ll, 'start: "ab" <|user|> "c"')
    assert one.compute_ff_bytes() == b"ab\xff[258]c" and one.compute_ff_tokens() == [97, 98, 258, 99]


class Pairs:
    """A tokenizer with a token of two letters."""

    eos_token_id, bos_token_id = 4, None
    tokens = (b"a", b"ab", b"b", b"\xff<x>", b"</s>")
    special_token_ids = (4,)

    def __call__(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        out = []
        while data:
            token = next((number for number in (1, 0, 2) if data.startswith(self.tokens[number])), None)
            if token is None:
                raise ValueError(data)
            out.append(token)
            data = data[len(self.tokens[token]) :]
        return out


def test_forced_text_is_written_as_the_tokenizer_does(ll):
    wrapped = ll.LLTokenizer(ll.TokenizerWrapper(Pairs()))
    for grammar, ids in (('start: "abab" /[ab]/', [1]), ('start: "a" /[ab]/', [0, 1]), ('start: "ab" "b"', [1])):
        assert allowed(ll.LLMatcher(wrapped, grammar)) == ids
    assert ll.LLMatcher(wrapped, 'start: "abab" /[ab]/').compute_ff_tokens() == [1, 1]
    free = ll.LLMatcher(wrapped, '%llguidance {"no_forcing": true}\nstart: "ab" "b"')
    assert allowed(free) == [0, 1] and free.compute_ff_tokens() == [] and free.compute_ff_bytes() == b"abb"
    assert free.consume_tokens([0, 2, 2]) and free.is_accepting()


def test_tokenizers(ll, tokenizer):
    assert (tokenizer.eos_token, tokenizer.eos_tokens, tokenizer.is_canonical) == (END, [END], True)
    assert tokenizer.tokenize_str("h\u00e9") == tokenizer.greedy_tokenize("h\u00e9") == [104, 195, 169]
    assert tokenizer.tokenize_bytes(b"\xff<|tool|>b") == [256, 98]
    assert tokenizer.tokenize_partial(b"ab\xff[13]") == ([97, 98, 13], b"")
    assert tokenizer.decode_str([65, 0xE9, 300, 256]) == "A\ufffd<[300]><|tool|>"
    assert tokenizer.decode_bytes([65, 0xE9]) == b"A\xe9"
    assert tokenizer.dbg_tokens([65, 256, 10, END]) == "\u27e6A\u2027<|tool|>\u2027\\n\u2027\u227aEOS\u227b\u27e7"
    assert [tokenizer.is_special_token(number) for number in (65, 256, END, 999)] == [False, True, True, False]
    wrapped = ll.LLTokenizer(ll.TokenizerWrapper(Pairs()), eos_token=[4, 2])
    assert (wrapped.eos_token, wrapped.eos_tokens) == (4, [4, 2])
    for wrong in ({"tokenizer": "there/is/none"}, {"tokenizer": "byte", "eos_token": []}):
        with pytest.raises(ValueError):
            ll.LLTokenizer(**wrong)


def test_wrapped_tokenizers(ll):
    wrapped = ll.LLTokenizer(ll.TokenizerWrapper(Pairs()), eos_token=[4])
    assert wrapped.tokenize_str("abb") == [1, 2] and wrapped.greedy_tokenize("aab") == [0, 1]
    assert wrapped.tokenize_partial(b"aba") == ([1], b"a") and wrapped.tokenize_partial(b"abb") == ([1, 2], b"")
    assert wrapped.decode_bytes([1, 3, 4]) == b"ab<x></s>"


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
JSON = [
    (SCHEMA, None, ['{"a":1}', '{ "a" : 1 }', '{"a":1,"b":[]}', '{"a":-0}'],
     ["{}", ' {"a":1}', '{"a":1.0}', '{"a":01}']),
    (SCHEMA, {"whitespace_flexible": False}, ['{"a":1}'], ['{"a": 1}']),
    (SCHEMA, {"whitespace_pattern": " "}, ['{"a": 1}', '{ "a":1 }'], ['{"a":  1}']),
    (SCHEMA, {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False},
     ['{"a": 1}', '{"a": 1, "b": 2}'], ['{"a":1}', '{ "a": 1}']),
    (SCHEMA, {"item_separator": ", ", "key_separator": ": "}, ['{"a": 1, "b": 2}', '{"a" : 1}'], ['{"a":1}']),
    (SCHEMA, {"item_separator": r"\s{0,2},\s{0,2}", "key_separator": r"\s{0,2}:\s{0,2}", "whitespace_flexible": False},
     ['{"a"  :  1 , "b":2}', '{"a":1,"b":2}'], ['{"a":1,   "b":2}']),
    ({"type": "string"}, None, ['"\\n"', '"\\u000b"', '"\\u001F"', '"\\u007f"', '"\u00e9"'],
     ['"\\/"', '"\\u0041"', '"\x7f"']),
    ({"type": "string"}, {"json_allowed_escapes": "n"}, ['"\\n"'], ['"\\t"', '"\\u000b"']),
    ({"type": "string"}, {"json_allow_general_unicode_escapes": True},
     ['"\\u0041"', '"\\uD83D\\uDE00"'], ['"\\/"', '"\\uD83D"']),
    ({"type": "string"}, {"json_allow_general_unicode_escapes": True, "json_allowed_escapes": "nt"},
     ['"\\n"', '"\u00e9"'], ['"\\b"', '"\\u001e"', '"\\u00e9"']),
    ({"type": "number"}, None, ["1", "-1.5", "1e5", "1E+5"], ["01", "1.", ".5"]),
    ({"const": 1}, None, ["1"], ["1.0", "1e0"]),
    ({"type": "string", "pattern": "b"}, None, ['"abc"'], ['"ac"']),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "options", "passing", "failing"), JSON)
def test_json(ll, schema, options, passing, failing):
    inside = json.dumps({**schema, "x-guidance": options} if options else schema)
    for grammar in (ll.LLMatcher.grammar_from_json_schema(schema, overrides=options), f"start: %json {inside}"):
        assert [text for text in passing if not accepts(ll, grammar, text)] == []
        assert [text for text in failing if accepts(ll, grammar, text)] == []


LARK = [
    ('start: /.../ "abc" /.../', ["abcabcabc", "\u2705xyabc123"], ["aaabcccc", "aaaabccccc"]),
    ("start: a{2,3}\na: /[ab]/", ["ab", "aba"], ["a", "abab"]),
    ('start: "x" | %json {"type": "null"}', ["x", "null"], ["y"]),
    ('start: %regex {"substring_chunks": ["abc", "de", "fg"]}', ["", "abc", "abcde", "defg"], ["ab", "cde"]),
    ("start: LINES\nLINES: /[a-z\\n]*/ & ~/(?s:.*)\\n\\n(?s:.*)/", ["a\nb\n"], ["a\n\nb"]),
    ('start: head "!"\nhead[lazy]: /[a-z]*x/', ["abx!"], ["abxx!", "ab!"]),
    ('start: w "!"\nw[suffix="."]: /[a-z]*/', ["ab.!"], ["ab!"]),
    ('start: "a" "b"*\n%ignore " "', ["a b b", "ab "], [" ab"]),
    ('%llguidance {"ignore_once": true}\n%ignore /[ \\t]{1,3}/\nstart: "A" "!"', ["A!", "A   !"], ["A    !", " A!"]),
    (r"start: /[\w&&[^\d]]\p{Lu}a(?i)b[[:digit:]]\x{41}/", ["xÉaB7A", "xZab0a"], ["1Éab7A", "xéab7A"]),
    (r"start: /^a\z|^(?<n>b|\$)$/", ["a", "b", "$"], ["c", "^a"]),
]  # fmt: skip


@pytest.mark.parametrize(("grammar", "passing", "failing"), LARK)
def test_lark(ll, grammar, passing, failing):
    assert [text for text in passing if not accepts(ll, grammar, text)] == []
    assert [text for text in failing if accepts(ll, grammar, text)] == []


LOOKING = {
    r"a(?<!b)c": "ac",
    r"[ab]+(?<=a)c": "bac",
    r"a(?=b)b": "ab",
    r"a\b-b": "a-b",
    r"\bab\b": None,
    r"(?<!x)a": None,
}


@pytest.mark.parametrize("pattern", LOOKING)
def test_lookarounds_are_enforced_or_refused(ll, pattern):
    """Lookarounds inside a terminal are enforced; others, and all in JSON, are refused. llguidance refuses all."""
    ours, text = ll.__name__ != "llguidance", LOOKING[pattern]
    one = matcher(ll, f"start: /{pattern}/")
    assert one.is_error() == (text is None or not ours)
    if not one.is_error():
        assert accepts(ll, f"start: /{pattern}/", text) and not accepts(ll, f"start: /{pattern}/", "bbc")
    in_json = matcher(ll, ll.LLMatcher.grammar_from_json_schema({"type": "string", "pattern": pattern}))
    assert in_json.is_error() != ours


def test_bounds_on_the_number_of_members(ll):
    """llguidance has no bounds if members may be left out."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "minProperties": 1}
    open_, closed = (ll.LLMatcher.grammar_from_json_schema(each) for each in (schema, schema | {"required": ["a"]}))
    ours = ll.__name__ != "llguidance"
    assert accepts(ll, closed, '{"a":1}') and matcher(ll, open_).is_error() != ours
    if ours:
        assert accepts(ll, open_, '{"a":1}') and not accepts(ll, open_, "{}")


def test_tokens_in_grammars(ll):
    assert allowed(matcher(ll, "start: <|tool|> | <[65,97-99]>")) == [65, 97, 98, 99, 256]
    every = allowed(matcher(ll, "start: <[*]>*"))
    assert set(range(262)) - set(every) <= {255}  # a byte that never occurs in UTF-8
    others = allowed(matcher(ll, 'start: <[^65,256-257]> "!"'))
    assert {64, 66, 258} <= set(others) and not {65, 256, 257} & set(others)


def test_ignored_text_ends_where_nothing_follows(ll):
    for grammar, text, stops in (
        ('start: "a" "b"', "a b", True),
        ('start: "a" "b"*', "a b ", False),
        ('start: x "d"\nx: "a" "b"?', "a d", True),
    ):
        one = matcher(ll, grammar + '\n%ignore " "')
        tokens = list(text.encode())
        assert one.validate_tokens([*tokens, 32, 32, END]) == (len(tokens) if stops else len(tokens) + 3)
        assert one.consume_tokens(tokens) and one.is_accepting()
        assert (one.is_stopped(), allowed(one)) == (stops, [END] if stops else [32, 98, END])
        copy = one.deep_copy()
        assert one.consume_token(END) and one.is_stopped() and copy.consume_token(32) != stops
        assert stops or (copy.rollback(2) and allowed(copy) == [32, 98, END])


def test_captures(ll):
    one = matcher(ll, 'start: a b\na[capture]: "x" c\nc[capture]: /[0-9]+/\nb[capture="b"]: /y+/')
    assert one.get_captures() == [] and one.get_capture("b") is None
    one.consume_tokens(list(b"x12yy"))
    one.consume_token(END)
    assert one.get_captures() == [("c", b"12"), ("a", b"x12"), ("b", b"yy")] and one.get_capture("a") == b"x12"


def test_several_grammars(ll):
    grammar = {"grammars": [{"lark_grammar": 'start: "<" @b ">"'}, {"name": "b", "json_schema": {"type": "boolean"}}]}
    assert accepts(ll, json.dumps(grammar), "<true>") and not accepts(ll, json.dumps(grammar), "<1>")


def test_the_texts_of_grammars(ll):
    texts = [
        ll.LLMatcher.grammar_from_json_schema({"type": "object"}, {"lenient": True}, {"whitespace_flexible": False}),
        ll.LLMatcher.grammar_from_json_schema({"x-guidance": {"lenient": True}}, {"whitespace_flexible": False}),
        ll.LLMatcher.grammar_from_regex(r"\d+/x"),
        ll.LLMatcher.grammar_from_lark("start: /a/"),
        ll.grammar_from("choice", '["a", "b\\"c"]'),
        ll.grammar_from("llguidance", "x"),
        ll.JsonCompiler((",", ":"), True).compile('{"type": "object"}'),
        ll.LarkCompiler().compile("start: /a/"),
        ll.RegexCompiler().compile("a+"),
        ll.regex_to_lark(r"\d\w/\s\D", "dws"),
        ll.regex_to_lark(r"\d\D[\d\w]/\/\s"),
    ]
    assert texts == TEXTS
    for compiler, wrong in ((ll.RegexCompiler(), "a("), (ll.LarkCompiler(), "start: x")):
        assert compiler.compile(wrong, check=False)
        with pytest.raises(ValueError):
            compiler.compile(wrong)
    with pytest.raises(ValueError, match="Unknown grammar type"):
        ll.grammar_from("other", "x")


def _top(name, schema, lark):
    return json.dumps(
        {"grammars": [{"name": name, "json_schema": schema, "lark_grammar": lark}], "max_tokens": None},
        separators=(",", ":"),
    )  # fmt: skip


OPTIONS = {
    "item_separator": ",", "key_separator": ":", "whitespace_flexible": True, "whitespace_pattern": None,
    "coerce_one_of": False, "lenient": False, "json_allowed_escapes": None, "json_allow_general_unicode_escapes": False,
}  # fmt: skip
TEXTS = [
    _top("json_schema", {"type": "object", "x-guidance": {"lenient": True, "whitespace_flexible": False}}, None),
    _top("json_schema", {"x-guidance": {"whitespace_flexible": False, "lenient": True}}, None),
    _top("regex", None, r"start: /\d+\/x/"),
    "start: /a/",
    'start: "a" | "b\\"c"',
    "x",
    _top("json_schema", {"type": "object", "x-guidance": OPTIONS}, None),
    _top("lark_grammar", None, "start: /a/"),
    _top("regex", None, "start: /a+/"),
    r"[0-9][0-9a-zA-Z_]\/[ \t\n\r\f\v][^0-9]",
    r"\d\D[\d\w]\/\/\s",
]


@pytest.mark.parametrize("kind", ["gbnf", "ebnf", "cfg", "grammar"])
def test_gbnf(ll, kind):
    text = ll.grammar_from(kind, 'root ::= item+ # twice\nitem ::= [a-c]{2} | "\\"" \' \'?'.replace("' '?", '"-"'))
    assert [accepts(ll, text, each) for each in ("ab", "abba", '"-', "a", "abd")] == [True, True, True, False, False]
    assert accepts(ll, ll.grammar_from(kind, 'start: "x"'), "x")
    convert = import_module(f"{ll.__name__}.gbnf_to_lark").gbnf_to_lark
    lark = convert('root ::= a-b " * x"\na-b ::= [^x\\n"] | . "y"')
    assert [accepts(ll, lark, each) for each in ("a * x", "xy * x", "x * x", "\n * x")] == [True, True, False, False]


def test_rows_of_a_batch(ll, tokenizer):
    arrays = import_module(f"{ll.__name__}.numpy")
    assert arrays.get_bitmask_shape(3, 262) == (3, 9)
    mask = arrays.allocate_token_bitmask(7, tokenizer.vocab_size)
    executor = ll.LLExecutor(2)
    arrays.fill_next_token_bitmask_par(executor, [(matcher(ll, "start: /a/"), 0), (matcher(ll, "start: /b/"), 2)], mask)
    assert [_ids(row) for row in mask[[0, 2]]] == [[97], [98]] and (mask[1] == -1).all()
    arrays.fill_next_token_bitmask(matcher(ll, "start: /c/"), mask, 1)
    assert _ids(mask[1]) == [99]
    one = matcher(ll, "start: /ab[cd]/")
    arrays.fill_next_token_bitmask_par_with_draft_tokens(executor, [(one, 3, list(b"abx"))], mask)
    assert [_ids(row) for row in mask[3:6]] == [[97], [98], [99, 100]] and (mask[6] == -1).all()
    assert allowed(one) == [97]
    assert arrays.consume_token_par(executor, [(one, 97), (matcher(ll, "start: /c/"), 97)]) == [True, False]
    logits = np.zeros((1, 270), np.float32)
    arrays.apply_token_bitmask_inplace(logits, mask[3:4])
    assert np.flatnonzero(np.isfinite(logits[0])).tolist() == [97]
    for wrong, error in (([(one, 9)], ValueError), ([(one, 0), (one, 1)], RuntimeError), ([1], TypeError)):
        with pytest.raises(error):
            arrays.fill_next_token_bitmask_par(executor, wrong, mask)


def _ids(row):
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()


@pytest.mark.filterwarnings("ignore")  # warnings of torch.compile, which the package uses
def test_rows_of_tensors(ll, tokenizer):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    arrays = import_module(f"{ll.__name__}.torch")
    mask = arrays.allocate_token_bitmask(2, tokenizer.vocab_size)
    arrays.fill_next_token_bitmask(matcher(ll, "start: /[ab]/"), mask, 1)
    assert mask.dtype == torch.int32 and _ids(mask[1].numpy()) == [97, 98] and (mask[0] == -1).all()
    arrays.fill_next_token_bitmask_par(ll.LLExecutor(), [(matcher(ll, "start: /c/"), 0)], mask)
    assert _ids(mask[0].numpy()) == [99]


def test_an_interpreter(ll, tokenizer):
    one = ll.LLInterpreter(tokenizer, 'start: "h" /[a-c]/ "hello" /c/', log_level=0)
    assert one.process_prompt([1, 2]) in (
        [1, 2],
        [1, 2, 104],
    )  # whether a single forced token is appended to the prompt
    told = []
    if (mask := one.compute_mask()[0])[104]:
        assert one.commit_token(104) == (0, [104])
        mask, text = one.compute_mask()
        told.append(json.loads(text))
    assert [number for number, value in enumerate(mask) if value] == [97, 98, 99] and not one.has_pending_stop()
    assert one.validate_tokens_raw([97, 104, 120]) == 2
    assert one.commit_token(97) == (0, [97, *b"helloc"])
    mask, text = one.compute_mask()
    last = json.loads(text)
    assert mask is None and last["stop"] and one.has_pending_stop() and one.is_accepting()
    assert last["progress"][-1]["object"] == "final_text" and last["progress"][-1]["stop_reason"] == one.stop_reason()
    assert last["progress"][-1]["str"] == "hahelloc"
    with pytest.raises(ValueError):
        ll.LLInterpreter(tokenizer, "start: nothing")


def test_a_tag_in_running_text(ll):
    tags = [
        ll.StructTag(trigger="<f", begin="<f=a>", grammar={"type": "boolean"}, end="</f>"),
        ll.StructTag(trigger="<|tool|>", begin="<|tool|>b(", grammar="start: /[0-9]+/", end=")"),
    ]
    grammar = ll.StructTag.to_grammar(tags)
    assert [accepts(ll, grammar, text) for text in ("x", "x<f=a>true</f>y", "<f=a>1</f>", "<f=b>")] == [
        True,
        True,
        False,
        False,
    ]
    one = matcher(ll, grammar)
    assert one.consume_tokens([*b"x", 256, *b"b(12)", *b"y"]) and one.is_accepting()
    for wrong in ({"trigger": ""}, {"begin": "x"}):
        with pytest.raises(AssertionError):
            ll.StructTag(**{"trigger": "<f", "begin": "<f", "grammar": {}, "end": "", **wrong})


def test_warnings_and_data_that_no_tokenizer_has(ll, tokenizer):
    wrong, told = ll.LLMatcher.validate_grammar_with_warnings("start: <[128]>* <[123]>", None)
    assert not wrong and "no tokenizer" in told[0]
    for lenient in (True, False):
        grammar = ll.LLMatcher.grammar_from_json_schema(
            {"type": "string", "format": "mine"}, None, {"lenient": lenient}
        )
        wrong, told = ll.LLMatcher.validate_grammar_with_warnings(grammar, tokenizer)
        assert wrong != lenient and "Unknown format" in told[0]
    number = ll.LLMatcher.grammar_from_json_schema({"items": {"type": ["integer"], "format": "mine"}})
    assert ll.LLMatcher.validate_grammar(number, tokenizer) == ""  # formats apply to strings only
    grammar = ll.LLMatcher.grammar_from_json_schema({"type": "string", "format": "mine"}, None, {"lenient": False})
    assert "Unknown format" in matcher(ll, grammar.replace("false", "true")).get_grammar_warnings()[0]


def test_limits(ll):
    small = ll.LLParserLimits(initial_lexer_fuel=5)
    assert "grammar) too big" in matcher(ll, "start: /(foo[12]23|bar)/", limits=small).get_error()
    assert (small.initial_lexer_fuel, small.max_grammar_size, small.verbose_errors) == (5, 500_000, True)


WALKS = [
    *((grammar, 40) for grammar, _, _ in LARK),
    ('start: stmt+\nstmt: NAME "=" sum ";" | "if" sum "{" stmt* "}"\nsum: sum "+" NAME | NAME\nNAME: /[a-c]+/\n'
     "%ignore /[ \\n]+/", 60),
    ('start: TEXT ("<f>" %json {"type": "object"} "</f>" TEXT)*\nTEXT: /[a-z]*/', 60),
    *((json.dumps({"grammars": [{"json_schema": schema}]}), 60) for schema, _, _, _ in JSON),
    *(
        (json.dumps({"grammars": [{"json_schema": schema}]}), 60)
        for schema in (
            {"type": "array", "items": {"type": "integer", "minimum": 3, "maximum": 120}, "minItems": 2},
            {"type": "object", "properties": {"x": {"$ref": "#"}, "y": {"enum": ["a", 1, None]}}, "required": ["y"]},
            {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "number", "minimum": 0, "multipleOf": 0.5}]},
            {"type": "string", "format": "date"},
            {"allOf": [{"properties": {"a": {"type": "string"}}}, {"required": ["a", "b"], "minProperties": 2}]},
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("grammar", "steps"), WALKS)
def test_everything_that_llguidance_allows_is_allowed(grammar, steps):
    """Random walks through llguidance's masks. guided's masks have the same tokens, and more where llguidance's are too
    narrow. Escapes are left out, because llguidance allows more of them in names of additional members than in other
    strings.
    """
    theirs = pytest.importorskip("llguidance", reason="llguidance is not installed")
    ours = import_module("guided.compat.llguidance")
    for seed in range(6):
        draw = random.Random(seed)
        one, other = matcher(ours, grammar), matcher(theirs, grammar)
        assert (one.is_error(), other.is_error()) == (False, False), (one.get_error(), other.get_error())
        for _ in range(steps):
            found, wanted = allowed(one), allowed(other)
            assert set(wanted) - {255} <= set(found)
            assert one.is_accepting() == other.is_accepting()
            assert one.is_stopped() == other.is_stopped() or found != wanted
            going = [token for token in wanted if token not in (END, 92) and (token < 128 or len(wanted) < 100)]
            if not going:
                break
            token = draw.choice(going)
            assert one.consume_token(token) and other.consume_token(token)
