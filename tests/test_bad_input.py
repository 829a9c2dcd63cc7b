"""Refused input and its messages: one row for each kind of mistake, for all entry points.

Syntax errors of regular expressions and errors inside schemas have their own tables (test_regex_errors.py,
test_json_schema_errors.py). test_vocabulary_readers.py covers damaged tokenizer files.
"""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeVar

import numpy as np
import pytest

import guided
from guided.errors import (
    BudgetError,
    GuidedError,
    LimitExceeded,
    OptionError,
    SpecError,
    UnsupportedError,
    VocabularyError,
)
from guided.ir import (
    UTF8,
    Alt,
    And,
    Chars,
    Encoded,
    Encoding,
    Grammar,
    Length,
    Member,
    Not,
    Permutation,
    Ref,
    Repeat,
    Seq,
    Special,
    Text,
)
from guided.vocabulary import Vocabulary

BYTES = [bytes((byte,)) for byte in range(256)]
VOCABULARY = Vocabulary([*BYTES, None, None], eos_token_ids=[256], special_tokens={257: "<tool>"})
COMPILER = guided.GrammarCompiler(VOCABULARY)
PARTIAL = guided.GrammarCompiler(Vocabulary([b"a", b"bc"], eos_token_ids=[2]))


class Empty(enum.Enum):
    pass


@dataclass
class Unresolved:
    member: Missing  # noqa: F821


def regex(pattern: Any, **options: Any) -> Any:
    return lambda: COMPILER.compile_regex(pattern, **options)


def choice(*given: Any) -> Any:
    return lambda: COMPILER.compile_choice(*given)


def pattern(*given: Any) -> Any:
    return lambda: COMPILER.compile_pattern(*given)


def schema(given: Any, **options: Any) -> Any:
    return lambda: COMPILER.compile_json_schema(given, **options)


def typed(tp: Any, **options: Any) -> Any:
    return lambda: COMPILER.compile_type(tp, **options)


def grammar(given: Any, compiler: guided.GrammarCompiler = COMPILER) -> Any:
    return lambda: compiler.compile_grammar(given)


def rule(node: Any, compiler: guided.GrammarCompiler = COMPILER, **others: Any) -> Any:
    return grammar(Grammar({"start": node, **others}), compiler)


def vocabulary(tokens: Any, ends: Any = (1,), **options: Any) -> Any:
    return lambda: Vocabulary(tokens, eos_token_ids=ends, **options)


def matcher() -> guided.GrammarMatcher:
    return guided.GrammarMatcher(COMPILER.compile_regex("ab*"))


def bitmask(rows: int = 1) -> Any:
    return guided.allocate_token_bitmask(rows, VOCABULARY.size)


def freed_bitmask():
    """A tensor without memory, as frameworks leave it when they move parameters to another device."""
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(bitmask()).clone()
    tensor.untyped_storage().resize_(0)
    return tensor


def fill(*given: Any, **options: Any) -> Any:
    return lambda: matcher().fill_next_token_bitmask(*given, **options)


NODES = "nodes are Text, Chars, Seq, Alt, Repeat, Ref, ..."
RULES = 'write Grammar({"start": node})'
REGULAR = "apply And, Not and Length to regular parts only, without Special, Permutation or recursion"
NO_OUTPUT = "the specification allows no output at all"
EMPTY_GRAMMAR = "look for an empty Alt or Chars, contradictory bounds, or recursion that never ends"
EMPTY_REGEX = "its parts contradict each other: check lookarounds, empty sets and lone surrogates"
CHARS = "One code point of `ranges`, which are inclusive pairs."
TEXT = "Exactly this text. Contains no surrogates."
REPEAT = "`item` concatenated `min` to `max` times (None: unbounded)."
SEQ = "Concatenation; `Seq(())` is the empty string."
SPECIAL = "One control token, by id or by name in the vocabulary. Text that spells the name does not match."
MEMBERS = (
    "`min` to `max` members in any order, separated by `separator`. Each member occurs at most once unless repeatable."
)
ENCODED = "The strings of the regular `item`, with each code point spelled by `encoding` instead of UTF-8."
PAIR = 'write ("UPPER", "+") or (":", "1")'
CLASSES = 'write {"VOWEL": "aeiou"}'
TYPES = "pass a type: int, list[str], Literal['a', 'b'], a dataclass, ..."
CLASS = "use a dataclass, a TypedDict or a pydantic model"
REGISTRY = 'write {"https://example.org/part": {...}}'
URI = "https://example.org/a"
NESTED = Alt((Text("a"), Seq((Text("("), Ref("nested"), Text(")")))))

# (call, error, message or reason, JSON Pointer or location, hint, the text under the carets; None: there is no text)
# fmt: off
SPECIFICATIONS = [
    (regex(b"a"), SpecError, "a pattern is a string, not a bytes", "", "decode it", None),
    (regex(None), SpecError, "a pattern is a string, not a NoneType", "", "write it as text, such as r'[a-z]+'", None),
    (regex("a(?!b)b"), SpecError, NO_OUTPUT, "", EMPTY_REGEX, "a(?!b)b"),
    (regex(r"x[^\s\S]"), SpecError, NO_OUTPUT, "", EMPTY_REGEX, r"x[^\s\S]"),
    (regex("a\ud800"), SpecError, NO_OUTPUT, "", EMPTY_REGEX, "a\ud800"),
    (regex("(?=a)b", dialect="ecma"), SpecError, NO_OUTPUT, "", EMPTY_REGEX, "(?=a)b"),

    (choice(None), SpecError, "a choice is a list of strings, not a NoneType", "", "write ['yes', 'no']", None),
    (choice(7), SpecError, "a choice is a list of strings, not a int", "", "write ['yes', 'no']", None),
    (choice("yes"), SpecError, "a choice is a list of strings, not one string", "", "write ['yes', 'no']", None),
    (choice(b"yes"), SpecError, "a choice is a list of strings, not one string", "", "write ['yes', 'no']", None),
    (choice({"a": 1}), SpecError, "a choice is a list of strings, not a mapping", "",
     "write list(mapping) for its keys", None),
    (choice([]), SpecError, "there is nothing to choose from", "", "give at least one string", None),
    (choice(["a", 1]), SpecError, "choice 1 is a int, not a string", "/1", "write '1'", None),
    (choice(["a", "b", b"c"]), SpecError, "choice 2 is a bytes, not a string", "/2", "decode it", None),
    (choice([["a"]]), SpecError, "choice 0 is a list, not a string", "/0", "", None),
    (choice(["\udfff"]), SpecError, "choice 0 contains a lone surrogate, which cannot occur in a text", "/0",
     "in Python, a character above U+FFFF is a single character", None),

    (pattern(None), SpecError, "a pattern is a list of pairs, not a NoneType", "", 'write [("UPPER", "+")]', None),
    (pattern("UPPER"), SpecError, "element 0 is not a pair of strings", "/0", PAIR, None),
    (pattern([("a", "1"), ("b",)]), SpecError, "element 1 is not a pair of strings", "/1", PAIR, None),
    (pattern([("DIGITS", "+")]), SpecError, "element 0: 'DIGITS' is neither a class nor one character", "/0/0",
     "did you mean 'DIGIT'?", None),
    (pattern([("a", "1"), ("UPPER", "2")]), SpecError, "element 1: the quantifier '2' is unknown", "/1/1",
     'write "1" or "+"', None),
    (pattern([("a", "1")], "vowels"), SpecError, "char_classes is a mapping from names to characters", "", CLASSES,
     None),
    (pattern([("a", "1")], {"A": 3}), SpecError, "char_classes is a mapping from names to characters", "", CLASSES,
     None),
    (pattern([("a", "1")], {3: "a"}), SpecError, "the class name 3 is not a string", "", CLASSES, None),
    (pattern([("A", "1")], {"A": b"ab"}), SpecError, "class 'A': 97 is not one character", "",
     "give a string or a set of characters", None),
    (pattern([("A", "1")], {"A": "\ud800"}), SpecError, "class 'A' has no characters", "",
     "give at least one; lone surrogates do not count", None),

    (schema(b"{}"), SpecError, "a bytes is not a JSON value", "", "decode it", None),
    (schema({"enum": [datetime.date(2000, 1, 1)]}), SpecError, "a date is not a JSON value", "/enum/0",
     "JSON has dict, list, str, int, float, bool and None", None),
    (schema({"properties": {"a": {1: 2}}}), SpecError, "the key 1 is not a string", "/properties/a",
     "the keys of a JSON object must be strings", None),
    (schema('{"a":'), SpecError, "the schema is not JSON: expecting value", "", "", ""),
    (schema({"$ref": URI}, registry=[URI]), SpecError, "registry must be a mapping from URIs to schemas, not a list",
     "", REGISTRY, None),
    (schema({"$ref": URI}, registry={3: True}), SpecError, "registry: the URI 3 is not a string", "", REGISTRY, None),
    (schema({"$ref": URI}, registry={URI: '{"type" 3}'}), SpecError, "the schema is not JSON: expecting ':' delimiter",
     f"{URI}#", "", "3"),
    (schema({"$ref": URI}, registry={URI: {"items": {"type": "list"}}}), SpecError, "'list' is not a type",
     f"{URI}#/items/type", "one of null, boolean, number, string, array, object, integer", None),
    (schema(True, whitespace="a("), SpecError, "option whitespace: missing ), unterminated subpattern", "",
     "close the group, or write \\(", "("),
    (schema(True, whitespace=r"(\s+)\1"), UnsupportedError,
     "option whitespace: this back-reference is not supported: its group may match more than 1,024 texts, or very long "
     "ones", "", "list the possible texts in the group, such as (a|b|c), or repeat the group's pattern", "\\1"),

    (typed("int"), UnsupportedError, "int has no JSON Schema", "", "pass the type itself, not its name", None),
    (typed({"type": "string"}), UnsupportedError, "{'type': 'string'} has no JSON Schema", "",
     "pass a schema to compile_json_schema", None),
    (typed(complex), UnsupportedError, "complex has no JSON Schema", "", CLASS, None),
    (typed(list[complex]), UnsupportedError, "complex has no JSON Schema", "", CLASS, None),
    (typed(3), UnsupportedError, "3 has no JSON Schema", "", TYPES, None),
    (typed(NoReturn), UnsupportedError, "NoReturn has no JSON Schema", "", TYPES, None),
    (typed(list[TypeVar("T")]), UnsupportedError, "T has no JSON Schema", "",
     "replace the type variable with a concrete type", None),
    (typed(dict[int, str]), UnsupportedError, "dict: the keys of a JSON object must be strings", "",
     "write dict[str, ...]", None),
    (typed(Literal[b"a"]), UnsupportedError, "Literal: the value b'a' is not a JSON scalar", "",
     "use strings, numbers, True, False and None", None),
    (typed(Empty), SpecError, "Empty has no members, so no value satisfies it", "", "", None),
    (typed(Unresolved), SpecError,
     "Unresolved: an annotation cannot be resolved: name 'Missing' is not defined", "",
     "string annotations are looked up in the module of the class", None),

    (grammar("start: a"), SpecError, "a grammar must be a guided.ir.Grammar, not a str", "",
     f"{RULES[:-1]}); text and schemas have their own compile functions", None),
    (grammar(Grammar([("start", Text("a"))])), SpecError,
     "the rules of a grammar must be a mapping from names to nodes, not a list", "", RULES, None),
    (grammar(Grammar({"strat": Text("a")})), SpecError, "the start rule 'start' is not defined", "",
     "did you mean 'strat'?", None),
    (grammar(Grammar({"start": Text("a"), 3: Text("b")})), SpecError,
     "the rule name 3 is not a string", "", RULES, None),
    (rule(Ref("nested"), nest=NESTED), SpecError, "rule 'start' refers to 'nested', which is not defined", "",
     "did you mean 'nest'?", None),
    (rule(Ref("other")), SpecError, "rule 'start' refers to 'other', which is not defined", "",
     "the rules are start", None),
    (rule("a"), SpecError, "rule 'start': 'a' is not a node of guided.ir", "", "write Text('a')", None),
    (rule(Seq((Text("a"), None))), SpecError, "rule 'start': None is not a node of guided.ir", "", NODES, None),
    (rule(Seq(Text("a"))), SpecError, "rule 'start': Seq(items=..) is malformed", "", SEQ, None),
    (rule(Text(b"a")), SpecError, "rule 'start': Text(text=b'a') is malformed", "", TEXT, None),
    (rule(Text("\ud800")), SpecError, "rule 'start': Text(text='\\ud800'): the text contains a surrogate", "", TEXT,
     None),
    (rule(Chars("az")), SpecError, "rule 'start': Chars(ranges='az'): 'a' is not a pair of code points", "", CHARS,
     None),
    (rule(Chars(((98, 97),))), SpecError, "rule 'start': Chars(ranges=..): 98 to 97 is not a range within 0 to 1114111",
     "", CHARS, None),
    (rule(Repeat(Text("a"), -1, 2)), SpecError,
     "rule 'start': Repeat(item=.., min=-1, max=2): a count must be at least 0", "", REPEAT, None),
    (rule(Repeat(Text("a"), 0, "2")), SpecError, "rule 'start': Repeat(item=.., min=0, max='2') is malformed", "",
     REPEAT, None),
    (rule(Repeat(Text("a"), 2, 1)), SpecError, NO_OUTPUT, "", EMPTY_GRAMMAR, None),
    (rule(Alt(())), SpecError, NO_OUTPUT, "", EMPTY_GRAMMAR, None),
    (rule(Seq((Text("a"), Ref("start")))), SpecError, NO_OUTPUT, "", EMPTY_GRAMMAR, None),
    (rule(And((Text("a"), Text("b")))), SpecError, NO_OUTPUT, "", EMPTY_GRAMMAR, None),
    (rule(Special(1.5)), SpecError, "rule 'start': Special(token=1.5) is malformed", "", SPECIAL, None),
    (rule(Permutation((Text("a"),), Text(","))), SpecError,
     "rule 'start': Permutation(members=.., separator=.., min=0, max=None, slots=.., ordered=False, condition=None)"
     " is malformed", "", MEMBERS, None),
    (rule(Encoded(Text("a"), None)), SpecError, "rule 'start': Encoded(item=.., encoding=None) is malformed", "",
     ENCODED, None),
    (rule(Encoded(Text("a"), Encoding("none", ()))), SpecError, NO_OUTPUT, "", EMPTY_GRAMMAR, None),
    (rule(Not(Special("<tool>"))), UnsupportedError, "a special token inside And, Not or Length", "", REGULAR, None),
    (rule(Length(Ref("nested"), 0, 9), nested=NESTED), UnsupportedError,
     "a recursive rule inside And, Not or Length", "", REGULAR, None),
    (rule(And((Permutation((Member(Text("a")),), Text(",")),))), UnsupportedError,
     "a permutation inside And, Not or Length", "", REGULAR, None),
    (rule(Not(Encoded(Text("a"), UTF8))), UnsupportedError,
     "Encoded inside And, Not, Length or another Encoded has no meaning", "",
     "apply Encoded to the result of the operation instead", None),
    (rule(Permutation((Member(Repeat(Text("a"), 0, 1)),), Text(","))), UnsupportedError,
     "a member of a permutation that may be empty", "",
     "exclude the empty text from the member; required=False makes a member optional", None),
    (rule(Alt((Text("a"), Seq((Repeat(Ref("start"), 0, 300), Text("b")))))), UnsupportedError,
     "left recursion through a counted repetition or a permutation", "",
     "use right recursion, or remove the count", None),
    (rule(Ref("nested"), PARTIAL, nested=Alt((Text("a"), Seq((Text("bc"), Ref("nested"), Text("a")))))),
     UnsupportedError,
     "a recursive grammar needs a vocabulary in which every byte that occurs in a token is also a token by itself", "",
     "use a vocabulary with a token for each single byte, or a specification without recursion", None),
]

# (call, error, message)
ARGUMENTS = [
    (rule(Special("<tol>")), VocabularyError, "the vocabulary has no control token '<tol>' (it has: <tool>)\n"
     "hint: did you mean <tool>?"),
    (rule(Special(999)), VocabularyError, "999 is not a token id of this vocabulary (0 to 257)\n"
     "hint: ids differ between models; name the token instead"),
    (rule(Not(Special(256))), UnsupportedError, "256 ends the output, and cannot be in a Not (at start)\n"
     "hint: put it after this part, or leave it out: it may follow every complete output"),
    (rule(Text("d"), PARTIAL), VocabularyError,
     "the vocabulary's tokens cannot write any output of the specification"),
    (rule(Text("ab"), PARTIAL), VocabularyError,
     "the vocabulary's tokens cannot write any output of the specification"),
    (regex("a", dialect="pcre"), ValueError, "dialect must be 'python' or 'ecma', not 'pcre'"),
    (schema(True, surrounding_whitespace="yes"), OptionError,
     "option surrounding_whitespace='yes' is not True or False"),
    (schema(True, additional_properties=0), OptionError,
     "option additional_properties=0 is not True, False, None or 'minimal'"),
    (schema(True, max_string=-1), OptionError, "option max_string=-1 is not an integer of at least 0"),
    (schema(True, max_digits=1.5), OptionError, "option max_digits=1.5 is not an integer of at least 1"),
    (schema(True, whitespace="single"), OptionError, "option whitespace='single' is unknown\nhint: "
     "one of json, single_space, compact, or a regular expression that matches whitespace"),
    (schema(True, draft="x"), OptionError,
     "option draft='x' is unknown\nhint: one of draft4, draft6, draft7, 2019-09, 2020-12"),
    (regex("a", search="no"), TypeError, "search must be True or False, not 'no'"),
    (schema(True, whitspace="json"), TypeError,
     "compile_json_schema() has no option 'whitspace': did you mean 'whitespace'? "
     "The options are additional_properties, classes, constants, documents, draft, escapes, format, indent, "
     "max_digits, max_items, max_string, numbers, property_order, registry, "
     "separators, strict, surrounding_whitespace, unknown_format, whitespace."),

    (lambda: guided.GrammarCompiler("gpt2"), TypeError, "vocabulary must be a guided.Vocabulary, not a str"),
    (lambda: guided.GrammarCompiler(VOCABULARY, limits={"depth": 3}), TypeError,
     "limits must be guided.Limits, not a dict"),
    (lambda: guided.GrammarCompiler(VOCABULARY, cache_bytes=-1), ValueError,
     "cache_bytes must be an integer of at least 0, not -1"),
    (lambda: guided.Limits(depth=-1), ValueError, "Limits(depth=-1): it must be an integer from 0 to 2**62"),
    (lambda: guided.Limits(memory=1e9), ValueError,
     "Limits(memory=1000000000.0): it must be an integer from 0 to 2**62"),
    (lambda: guided.Limits(seconds=float("nan")), ValueError,
     "Limits(seconds=nan): it must be a number of at least 0"),

    (vocabulary(b"ab"), VocabularyError, "tokens is a sequence of bytes, one for each id, not one string"),
    (vocabulary({b"a": 0}), VocabularyError, "tokens is a sequence of bytes, one for each id, not a dict"),
    (vocabulary(None), VocabularyError, "tokens is a sequence of bytes, one for each id, not a NoneType"),
    (vocabulary([b"a", "b"]), VocabularyError, "token 1 is 'b': tokens are bytes (or None), not text"),
    (vocabulary([b"a"], 1), VocabularyError, "eos_token_ids are a collection of integers, not 1"),
    (vocabulary([b"a"], "1"), VocabularyError, "eos_token_ids are integers, not '1'"),
    (vocabulary([b"a"], [-1]), VocabularyError, "eos_token_ids: -1 is not an id (0 to 16777215)"),
    (vocabulary([b"a"], special_tokens=["<x>"]), VocabularyError,
     "special_tokens is a mapping from ids to names, not a list"),
    (vocabulary([b"a"], special_tokens={"<x>": 2}), VocabularyError,
     "special_tokens maps ids to names, but contains '<x>': 2"),
    (vocabulary([b"a"], size=1), VocabularyError, "size 1 does not cover the ids: it must be from 2 to 16777216"),
    (vocabulary([b"a"], size=4.0), VocabularyError, "size is an integer, not 4.0"),
    (lambda: VOCABULARY.token_bytes(258), VocabularyError, "258 is not a token id of this vocabulary (0 to 257)"),
    (lambda: VOCABULARY.token_bytes("a"), TypeError, "a token id is an integer, not 'a'"),
    (lambda: VOCABULARY.decode([97, -1]), VocabularyError, "-1 is not a token id of this vocabulary (0 to 257)"),
    (lambda: VOCABULARY.encode(b"a"), TypeError, "the text to encode is a str, not a bytes"),
    (lambda: VOCABULARY.encode("a\ud800"), VocabularyError, "the text contains a lone surrogate at character 1"),
    (lambda: PARTIAL.vocabulary.encode("ab"), VocabularyError,
     "no tokens of this vocabulary spell the bytes 0x62 at byte 1 of the text"),
    (lambda: Vocabulary.from_characters(b"ab"), TypeError, "the characters are a str, not a bytes"),
    (lambda: Vocabulary.from_characters("\ud800"), VocabularyError,
     "the text contains a lone surrogate, which UTF-8 cannot encode"),
    (lambda: Vocabulary.from_tiktoken(3), VocabularyError,
     "from_tiktoken takes a tiktoken.Encoding or the path of a ranks file, not int"),
    (lambda: Vocabulary.from_huggingface(b"x"), VocabularyError,
     "from_huggingface takes a fast tokenizer, a tokenizers.Tokenizer or a path, not bytes; for a SentencePiece .model "
     "file use from_sentencepiece"),
    (lambda: Vocabulary.from_huggingface("nofile.json"), VocabularyError,
     "nofile.json does not exist: a tokenizer is an object of transformers or tokenizers, the path of a tokenizer.json "
     'or of a folder with one, or "org/model" on the Hugging Face hub'),
    (lambda: Vocabulary.from_gguf(None), OptionError, "path is None, but must be the path of a GGUF file"),
    (lambda: Vocabulary.from_tekken(3), OptionError, "path is 3, but must be the path of a tekken.json"),
    (lambda: Vocabulary.from_sentencepiece(b"x"), OptionError,
     "path is b'x', but must be the path of a SentencePiece .model file"),

    (lambda: guided.GrammarMatcher(VOCABULARY), TypeError,
     "a matcher is made from a CompiledGrammar, not from a Vocabulary"),
    (lambda: matcher().accept_string(3), TypeError, "text is a str or bytes, not a int"),
    (lambda: matcher().explain(999), VocabularyError, "999 is not a token id of this vocabulary (0 to 257)"),
    (lambda: matcher().explain(1.5), TypeError, "text is a str or bytes, not a float"),
    (lambda: matcher().rollback(1), ValueError, "rollback(1): only 0 steps were taken"),
    (lambda: matcher().rollback(-1), ValueError, "rollback(-1): the number of steps must be at least 0"),
    (fill(np.zeros((1, 8), np.int32)), ValueError, "bitmask has 8 words in a row, but the vocabulary needs 9"),
    (fill(bitmask(), 1), IndexError, "row outside the bitmask"),
    (fill(bitmask(), -1), IndexError, "row outside the bitmask"),
    (lambda: fill(freed_bitmask())(), ValueError, "the bitmask has no memory: its storage has been freed"),
    (fill(bitmask(), max_tokens="9"), TypeError, "max_tokens must be an integer or None"),
    (fill(bitmask(), max_tokens=1), BudgetError, "the shortest known completion has 2 tokens, but the budget is 1"),
    (fill(bitmask(), max_tokens=-5), BudgetError, "the shortest known completion has 2 tokens, but the budget is -5"),
    (lambda: matcher().accept_token(10**9), ValueError,
     "1000000000 is not a token id of this vocabulary (0 to 257)"),
    (lambda: guided.fill_batch([matcher()], bitmask(), max_tokens=-1), BudgetError,
     "the shortest known completion has 2 tokens, but the budget is -1"),
    (lambda: guided.fill_batch([matcher(), matcher()], bitmask(2), [0, 0]), ValueError,
     "rows: a row occurs twice"),
    (lambda: guided.fill_batch([matcher()] * 2, bitmask(2)), ValueError,
     "matchers: a matcher occurs twice; fork() it"),
    (lambda: guided.fill_batch([matcher()], bitmask(2), [0, 1]), ValueError,
     "rows and matchers must have the same length"),
    (lambda: guided.fill_batch([matcher(), matcher()], bitmask(1)), IndexError, "row outside the bitmask"),
    (lambda: guided.fill_batch([None], bitmask()), TypeError, "a matcher is None"),
    (lambda: guided.fill_batch([matcher()], bitmask(), max_tokens=1.5), TypeError,
     "max_tokens must be an integer or None, not 1.5"),
    (lambda: guided.fill_batch([matcher()], bitmask(), threads=0), ValueError, "threads must be at least 1, not 0"),
    (lambda: guided.allocate_token_bitmask(0, 5), ValueError,
     "batch_size and vocab_size must be positive, got 0 and 5"),
    (lambda: guided.allocate_token_bitmask(1, 5.0), TypeError,
     "batch_size and vocab_size must be integers, not 1 and 5.0"),
    (lambda: guided.allowed_tokens(np.zeros((1, 9), np.float32)), TypeError,
     "a token bitmask is an int32 array, not float32"),
    (lambda: guided.apply_token_bitmask_inplace([0.0], bitmask()), TypeError,
     "expected numpy arrays or torch tensors, got list and ndarray"),
]
# fmt: on


NAMES = [f"{at} {row[2][:40]}" for at, row in enumerate(SPECIFICATIONS)]


def refused(act: Any, error: type[Exception]) -> Any:
    with pytest.raises(error) as caught:
        act()
    assert type(caught.value) is error
    return caught.value


@pytest.mark.parametrize(("act", "error", "message", "pointer", "hint", "shown"), SPECIFICATIONS, ids=NAMES)
def test_specifications(act, error, message, pointer, hint, shown):
    found = refused(act, error)
    said = found.message if isinstance(found, SpecError) else found.reason
    assert (said, found.pointer, found.hint) == (message, pointer, hint)
    assert (found.text[slice(*found.span)] if found.text else None) == shown
    assert str(found).startswith(message) and (not hint or str(found).endswith(f"hint: {hint}"))


@pytest.mark.parametrize(("act", "error"), [row[:2] for row in SPECIFICATIONS], ids=NAMES)
def test_locations_are_within_the_text_and_messages_are_not_empty(act, error):
    found = refused(act, error)
    assert isinstance(found, GuidedError) and found.args[0].strip() and found.hint.strip() == found.hint
    assert 0 <= found.span[0] <= found.span[1] <= len(found.text)


@pytest.mark.parametrize(("act", "error", "message"), ARGUMENTS, ids=[row[2][:40] for row in ARGUMENTS])
def test_arguments(act, error, message):
    assert str(refused(act, error)) == message


@pytest.mark.parametrize(
    "act",
    [
        *(lambda id=id: matcher().accept_token(id) for id in ("a", 1.5, None, 2**70)),
        *(lambda ids=ids: matcher().validate_tokens(ids) for ids in (3, None, "ab", [1.5], [None])),
        *(lambda n=n: matcher().rollback(n) for n in ("1", 1.0, None)),
        fill(None),
        fill([1]),
        fill(np.zeros((1, 9), np.int64)),
        fill(np.zeros(9, np.int32)),
        fill(np.zeros((1, 18), np.int32)[:, ::2]),
        fill(bitmask(), "0"),
    ],
)
def test_types_that_the_core_does_not_take(act):
    """The error lists the accepted types."""
    assert "The following argument types are supported" in str(refused(act, TypeError))


def test_errors_leave_no_trace():
    """A matcher and a bitmask work as before after a refused call."""
    at, mask = matcher(), bitmask()
    before = mask.copy()
    for act in (lambda: at.fill_next_token_bitmask(mask, max_tokens=1), lambda: at.rollback(3)):
        with pytest.raises(ValueError):
            act()
    assert (mask == before).all() and at.steps == 0 and at.accept_string("abb") and at.is_accepting()


def test_a_count_past_every_output_is_a_limit():
    found = refused(rule(Repeat(Text("a"), 2**40, None)), LimitExceeded)
    assert (found.limit, found.given, found.allowed) == ("states", 2**40, 2**30 - 1)


class Unspeakable:
    def __repr__(self) -> NoReturn:
        raise OSError("no words")


def nested(depth: int) -> dict[str, Any]:
    outer: dict[str, Any] = {}
    for _ in range(depth):
        outer = {"properties": outer}
    return outer


ARGUMENT: dict[str, Any] = {
    "compile_type": COMPILER.compile_type,
    "choice": lambda value: guided.choice(value),
    "optional": guided.optional,
    "python_type": lambda value: COMPILER.compile(guided.python_type(value)),
    "repeat": guided.repeat,
    "rules": guided.rules,
    "sequence": guided.sequence,
    "special": guided.special,
    "Limits": guided.Limits,
    "JsonSchemaOptions": guided.JsonSchemaOptions,
    "property_order": lambda value: COMPILER.compile_json_schema(True, property_order=value),
}


UNSPEAKABLE: dict[str, Any] = {"deep": nested(100_000), "no repr": Unspeakable(), "long integer": 10**5000}


@pytest.mark.parametrize(
    ("name", "what"),
    [(name, what) for name in ARGUMENT for what in UNSPEAKABLE if (name, what) != ("special", "long integer")],
)
def test_values_that_cannot_be_shown_have_an_error_like_others(name, what):
    """They nest too deeply for `repr`, have too many digits, or have a `repr` that fails: messages name their types."""
    with pytest.raises((GuidedError, TypeError, ValueError), match=r"that cannot be shown|is no"):
        ARGUMENT[name](UNSPEAKABLE[what])
