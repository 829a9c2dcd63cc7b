r"""Samples of the extensions of Lark's notation: name -> grammar, texts that it generates, texts that it does not.

They follow the documentation of llguidance (docs/syntax.md, docs/parametric.md) and of xgrammar (docs on Lark
grammars).
"""

from __future__ import annotations

TOOLS = r"""
start: (foo | bar)* tail
tail: TEXT
foo_head[lazy]: TEXT "<function"
foo: foo_head "=foo>" %json {"type": "object", "additionalProperties": {"type": "integer"}} "</function>"
bar_head[lazy]: TEXT "<function"
bar: bar_head "=bar>" /[0-9]+/ "</function>"
TEXT: /(.|\n)*/
"""
EDITS = r"""
start: ( step "\n" )* step ( "\n" final_comments )?
step: plan "\n" a_file
plan[lazy]: /((.|\n)*\n)?```/
final_comments: /[^`]*/
replace: "=======\n" repl_inner " REPLACE\n```"
repl_inner[lazy]: /(.|\n)*\n>>>>>>>/
SEARCH: "\n<<<<<<< SEARCH\n"
// made by a program
file_0: "a.py" SEARCH FILE_0 replace
a_file: file_0
FILE_0: %regex { "substring_chunks": ["foo\n", "bar\n", "baz\n", "line\n", "line\n"] }
"""
EDIT = "```\na.py\n<<<<<<< SEARCH\n{}=======\n{}\n>>>>>>> REPLACE\n```"
PERMUTATION = r"""
start    :  perm::0x0
perm::_  :  ""                       %if is_ones([0:3])
         |  "a" perm::set_bit(0)     %if bit_clear(0)
         |  "b" perm::set_bit(1)     %if bit_clear(1)
         |  "c" perm::set_bit(2)     %if bit_clear(2)
"""
COUNTED = r"""
start  : aa::0 "X"
aa::_  : a aa::incr(_)    %if lt(_, 6)
       | bb::_
bb::_  : b bb::incr(_)    %if lt(_, 6)
       | ""
a: "a"
b: "b"
"""
PICKED = r"""
start    :  perm::0x0
perm::_  :  "X"                      %if bit_count_ge(_, 1)
         |  "a" perm::set_bit(0)     %if and(bit_clear(0), bit_count_lt(_, 3))
         |  "b" perm::set_bit(1)     %if and(bit_clear(1), bit_count_lt(_, 3))
         |  "c" perm::set_bit(2)     %if and(bit_clear(2), bit_count_lt(_, 3))
         |  "d" perm::set_bit(3)     %if and(bit_clear(3), bit_count_lt(_, 3))
         |  "e" perm::set_bit(4)     %if and(bit_clear(4), bit_count_lt(_, 3))
"""
BOUNDED = r"""
start  : lst::0x0
lst::_ : "a" lst::incr([0:2])  %if lt([0:2], 3)
       | "b" lst::incr([2:4])  %if lt([2:4], 3)
       | "c" lst::incr([4:6])  %if lt([4:6], 2)
       | "X"
"""
OBJECT = (
    '{"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": false}'
)

SAMPLES: dict[str, tuple[str, list[str], list[str]]] = {
    # notation
    "lazy in one of two places": (
        '%llguidance {}\nstart: l | "c" t | t "x"\nl[lazy]: "ab"\nt: T\nT: /[ab]+/',
        ["ab", "cab", "caba", "bax", "cb"],
        ["abx", "abax", "c", "b"],
    ),
    "lazy in one of two places, nested": (
        '%llguidance {}\nstart: "x" l | "c" t ";" | "x" t\nl[lazy]: "ab"\nt: u | "(" t ")"\nu: T\nT: /[ab]+/',
        ["xab", "cab;", "caba;", "c(abab);", "x(ab)", "xba", "x(aba)"],
        ["xaba", "x", "c(ab)"],
    ),
    "patterns joined": ("%llguidance {}\nstart: T\nT: /x/ /ab|c/", ["xab", "xc"], ["c", "x", "ab"]),
    "patterns joined by name": (
        '%llguidance {}\nstart: T\nT: A B "!"\nA: /a|bb/\nB: /ab|c/i',
        ["aab!", "bbC!", "aAB!"],
        ["a", "c!", "bbab", "ab"],
    ),
    "braces, exact": ('start: "a"{2}', ["aa"], ["", "a", "aaa"]),
    "braces, a range": ('start: "a"{2,4} "."', ["aa.", "aaa.", "aaaa."], [".", "a.", "aaaaa."]),
    "braces, no most": ('start: "a"{2,}', ["aa", "aaaaaa"], ["", "a"]),
    "braces, no least": ('start: "a"{,2}', ["", "a", "aa"], ["aaa"]),
    "braces, none": ('start: "x" "a"{0} "y"{0,0}', ["x"], ["xa", "xy"]),
    "braces of a group": ('start: ("a" | "bc"){2,3}', ["aa", "abc", "bca", "bcbcbc"], ["", "a", "aaaa", "bcbc bcbc"]),
    "braces of a group, no most": ('start: ("a" | "b" ["c"]){2,} "!"', ["ab!", "bcbca!"], ["a!", "!", "bc!"]),
    "braces of a terminal": ('start: ITEM{2,3}\nITEM: "x" | "y"', ["xx", "xy", "yyy"], ["", "x", "xxxx"]),
    "braces of a rule": ('start: item{2,3}\nitem: "x" | "(" item ")"', ["xx", "x(x)", "(x)(x)(x)"], ["", "x", "xxxx"]),
    "braces in a terminal": ('start: NAME\nNAME: ("a".."c"){2,3} "!"', ["ab!", "abc!"], ["a!", "abca!", "!"]),
    "braces of a range": ('start: "a".."c"{2,} "."', ["ab.", "ccc."], ["a.", "ad."]),
    "a repetition with a tilde": ('start: foo-x~2..3\nfoo-x: "a"', ["aa", "aaa"], ["a", "aaaa"]),
    "hyphens": ('start: foo-bar FOO-BAR\nfoo-bar: "a"\nFOO-BAR: "b"', ["ab"], ["", "a-b", "foo-barFOO-BAR"]),
    "hyphens beside other names": ('start: a-b a_b\na-b: "1"\na_b: "2"', ["12"], ["11", "21", "22"]),
    "both comments": ('start: item "" // one\nitem: "ok" # another', ["ok"], ["", "item", "ok#"]),
    "an empty literal": ('start: "" "a" ""', ["a"], ["", "aa"]),
    "an empty alternative": ('start: "a" | ""', ["a", ""], ["aa"]),
    "escapes of JSON": (r'start: "\b" "\f\/" "\r\u03bb"', ["\b\f/\rλ"], ["bf/rλ", "\b\f/\r"]),
    "a surrogate pair": (r'start: "\ud83d\ude00" "\/"', ["\U0001f600/"], ["\ufffd\ufffd/"]),
    "one dot, one character": (
        'start: /.../ "abc" /.../ ""',
        ["abcabcabc", "aaaabcccc", "🔵🟠✅abc❌🟠🔵"],
        ["aaabcccc", "aaaaabcccc", "aaaabccc", "🔵🟠abc🟠🔵"],
    ),
    # %json
    "json: a string": ('start: %json {"type": "string"}', ['""', '"hello"', '"λ"'], ["hello", "1", '"open']),
    "json: an integer": ('start: %json {"type": "integer"}', ["0", "-12", "123"], ['"1"', "+1", "1.5"]),
    "json: a constant": ('start: %json {"const": "fixed"}', ['"fixed"'], ['"other"', "fixed"]),
    "json: a choice": ('start: %json {"enum": ["red", 3]}', ['"red"', "3"], ['"blue"', "4"]),
    "json: an object": (f"start: %json {OBJECT}", ['{"x":1}', '{ "x" : -2 }'], ["{}", '{"x":"1"}', '{"x":1,"y":2}']),
    "json: several types": (
        'start: %json {"anyOf": [{"type": "integer"}, {"type": "boolean"}]}',
        ["1", "true"],
        ["null"],
    ),
    "json: a pattern": (r'start: %json {"type": "string", "pattern": "^\\d$"}', ['"1"', '"2"'], ['"12"', '"a"', '"১"']),
    "json in a sequence": (
        'start: "values=" value (";" value)* "."\nvalue: %json {"type": "integer"}',
        ["values=1.", "values=1;-2;3."],
        ["values=.", 'values="1".', "values=1;."],
    ),
    "json beside text": (
        'start: TEXT | fun\nTEXT: /[^{](.|\\n)*/\nfun: %json {"type": "object", "required": ["name"], '
        '"properties": {"name": {"const": "f"}, "p": {"type": "integer"}}, "additionalProperties": false}',
        ["There is no function I can call", '{"name":"f"}', '{"name": "f", "p": 3}'],
        ['{"name":"g"}', "{}", '{"p": 3}', ""],
    ),
    "two schemas that begin alike": (
        'start: a | b\na: %json {"const": {"k": 1}}\nb: %json {"const": {"k": 2}}',
        ['{"k":1}', '{"k":2}'],
        ['{"k":3}', "{}"],
    ),
    # %lark
    "lark": ('start: /[ab]+/ x\nx: %lark { start: "foo" | "Bar" }', ["afoo", "abfoo", "aaaBar"], ["a", "afooa"]),
    "lark: names of its own": (
        'start: item %lark {\n  start: item\n  item: "b"\n} item\nitem: "a"',
        ["aba"],
        ["aaa", "abb", "bbb"],
    ),
    "lark: two of them": (
        'start: %lark { start: "a" | "b" } %lark { start: "1" | "2" }',
        ["a1", "a2", "b1", "b2"],
        ["", "a", "1a", "c1"],
    ),
    "lark: recursion, json and ignored text": (
        'start: "[" %lark {\n  %import common.WS\n  %ignore WS\n  start: item ":" %json {"type": "integer"}\n'
        '  item: "x" | "(" item ")"\n} "]"',
        ["[x:1]", "[(x) : -2]", "[((x)):7]"],
        ["[():1]", '[x:"1"]', "[x 1]"],
    ),
    "lark: a brace in a string": ('start: %lark { start: "}" | /\\}+x/ } "!"', ["}!", "}}x!"], ["!", "x!"]),
    "lark: nested twice": ('start: %lark { start: %lark { start: "a" } "b" } "c"', ["abc"], ["ab", "bc", "abcc"]),
    # %regex
    "words": (
        'start: "A" %regex {"substring_words": "foo bar baz"} "B"',
        ["AfooB", "Abar bazB", "AbazB", "Afoo bar bazB", "Afoo bar B", "A bar bazB", "AB"],
        ["Afoo bar baz", "AfoB", "AfoobarB"],
    ),
    "words in a terminal": (
        'start: SUB\nSUB: "A" %regex {"substring_words": "foo bar baz"} "B"',
        ["AfooB", "Abar bazB", "Afoo bar B", "AB"],
        ["Afoo bar baz", "AfoB"],
    ),
    "chunks": (
        'start: "A" %regex {"substring_chunks": ["foo", " bar", " baz"]} "B"',
        ["AfooB", "A bar bazB", "A bazB", "Afoo bar bazB", "Afoo barB", "AB"],
        ["Afoo bar baz", "AfoB", "Abar bazB"],
    ),
    "chunks that begin one another": (
        'start: %regex {"substring_chunks": ["a", "ab", "abc", "b"]} "."',
        ["a.", "ab.", "aab.", "aababcb.", "abcb.", "b.", "."],
        ["bb.", "aa.", "c."],
    ),
    "characters": (
        'start: %regex {"substring_chars": "The quick brown fox."}',
        ["The quick brown fox.", "he quick brow", "fox", "."],
        ["brown fx", "theq"],
    ),
    "characters of Korean": (
        'start: %regex {"substring_chars": "빠른 갈색 여우가"}',
        ["빠른 갈색 여우가", "른 갈색 여우", "여우"],
        ["갈색 여가", "x"],
    ),
    "words of Korean": (
        'start: %regex {"substring_words": "빠른 갈색 여우가"}',
        ["빠른 갈색 여우가", "갈색 ", "여우가"],
        ["른 갈색", "여우", "갈색 여가"],
    ),
    # & and ~
    "and, of names": ("start: ST\nST: L & ABC\nL: /[a-z]+/\nABC: /[abcABC]+/", ["abc", "a", "bbb"], ["A", "d", "1"]),
    "and binds tighter than or": ("start: ST\nST: /[ab]+/ | /[cd]+/ & /[def]+/", ["ab", "dd"], ["c", "e", "f"]),
    "and, in a group": ("start: ST\nST: ( /[abf]+/ | /[cd]+/ ) & /[def]+/", ["d", "f"], ["a", "b", "df"]),
    "and, three times": ("start: ST\nST: /[abc]/ & /[bcd]/ & /[cde]/", ["c"], ["a", "b", "d", "e"]),
    "and, with repetitions": ("start: ST\nST: /[ab]/+ | /[cd]/+ & /[def]/+", ["ab", "dd"], ["c", "e", "f"]),
    "and, without the empty text": ('start: ST "."\nST: /a*/ & /a+/', ["a.", "aa."], [".", "b."]),
    "and, that nothing satisfies": ('start: "foo" | ST\nST: /a/? & /a{2}/', ["foo"], ["", "a", "aa"]),
    "and, of a sequence": ('start: "foo" | ST\nST: /a/ /b/ & /b/', ["foo"], ["b", "a", "abb", "ab"]),
    "not": ("start: ST\nST: /[abcd]+/ & ~/(.*)[ab](.*)/", ["cd", "c"], ["x", "aa", "ca", "b"]),
    "not, of lines": (
        'start: "<" LINES ">"\nLINES: /[a-zA-Z \\n]*/ & ~/(?s:.*)\\n\\n(?s:.*)/',
        ["<foo>", "<bar\nbaz>", "<hello world\n>", "<aaa\nbbb\nccc>"],
        ["<.>", "<a\n\na>"],
    ),
    "not, before a repetition": ('start: ST "!"\nST: /[ab]{2}/ & ~"ab"+', ["aa!", "ba!", "ab!"], ["a!", "aba!"]),
    "not, of a keyword": ('start: NAME\nNAME: /[a-z]+/ & ~(IF | ELSE)\nIF: "if"\nELSE: "else"', ["iff", "i"], ["if"]),
    # lazy and suffix
    "lazy": ('start: head "x"\nhead[lazy]: /.*<end>/', ["foo<end>x", "<end>x"], ["foo<end>bar<end>x", "foo"]),
    "suffix": ('start: head "x"\nhead[suffix="<end>"]: /.*/', ["foo<end>x", "<end>x"], ["foo<end>bar<end>x", "foo"]),
    "suffix, a regular expression": (
        'start: head "x"\nhead[suffix=/[0-9]+;/]: /.*/',
        ["a12;x", "1;x"],
        ["1;2;x", ";x"],
    ),
    "suffix, a terminal": ('start: head "x"\nhead[suffix=END]: /.*/\nEND: "."', ["a.x", ".x"], ["a.b.x", "ax"]),
    "lazy numbers": ('start: d "."\nd[lazy]: /[0-9]+/', ["1.", "7."], ["12.", "."]),
    "lazy, nothing": ('start: d "."\nd[lazy]: /[0-9]*/', ["."], ["1.", "12."]),
    "tools": (
        TOOLS,
        [
            "",
            "free text",
            "partial <func",
            'a<function=foo>{"k": 1}</function>b',
            "<function=bar>12</function>",
            "<function=bar>1</function><function=foo>{}</function>\nmore",
        ],
        [
            "<function",
            "<function=baz>1</function>",
            "<function=bar>x</function>",
            "<function=bar>1",
            "<function=foo>{}</function><function=",
        ],
    ),
    "tools with marks of their own": (
        'start: (foo | bar)* tail\ntail: TEXT\nfoo_head[lazy]: TEXT "<foo>"\nfoo: foo_head /[a-z]+/ "</foo>"\n'
        'bar_head[lazy]: TEXT "<bar>"\nbar: bar_head /[0-9]+/ "</bar>"\nTEXT: /(\\n|.)*/',
        ["free text", "partial <fo remains text", "x<foo>abc</foo>y", "<bar>12</bar><foo>x</foo>"],
        ["<foo>", "<foo>12</foo>", "<bar>x</bar>", "<bar>12", "x<bar>a<foo>b</foo>"],
    ),
    "tools with a suffix": (
        'start: tool* tail\ntail: TEXT\nhead[suffix="<tool>"]: TEXT\ntool: head /[a-z]+/ "</tool>"\nTEXT: /(\\n|.)*/',
        ["free", "x<tool>abc</tool>y", "partial <too"],
        ["<tool>", "<tool>123</tool>", "<tool>abc"],
    ),
    "tools, the mark in the expression": (
        'start: tool* tail\ntail: TEXT\nhead[lazy]: /(\\n|.)*\\n>>>>>>>/\ntool: head "replacement"\nTEXT: /(\\n|.)*/',
        ["free >>>>>>> text", "before\n>>>>>>>replacementafter"],
        ["\n>>>>>>>", "before\n>>>>>>>wrong"],
    ),
    "edits": (
        EDITS,
        [
            EDIT.format("foo\nbar\n", "qux"),
            EDIT.format("foo\nbar\n", "qux") + "\n",
            "Some text\n" + EDIT.format("line\nline\n", ""),
            "Some text\nMore\n" + EDIT.format("baz\n", "a\nb") + "\nAnd then some\n",
        ],
        ["Some text\n", "Foo\n```\nbar", "Foo\n```\na.p", EDIT.format("fooz\n", "qux"), EDIT.format("foo\nbaz\n", "q")],
    ),
    # parameters
    "a permutation": (PERMUTATION, ["abc", "bca", "cba", "cab", "acb", "bac"], ["", "a", "ab", "abb", "aa", "abca"]),
    "counters": (
        COUNTED,
        ["X", "aX", "bX", "abX", "aaabX", "aaaabbX", "aaaaaaX", "bbbbbbX"],
        ["z", "baX", "aaaaaaaX", "bbbbbbbX", "aaabbbbX"],
    ),
    "one to three of five": (PICKED, ["aX", "bX", "bacX", "adeX"], ["X", "z", "aa", "abcdX", "abaX"]),
    "three counters": (
        BOUNDED,
        ["X", "aX", "abX", "aabX", "bbbaaaX", "ccaaabbbX", "abcababcX"],
        ["z", "aaaaX", "bbbbX", "cccX", "aaacccX"],
    ),
    "conditions": (
        'start: r::5\nr::_: "a" %if eq(_, 5)\n | "b" %if ne([0:3], 5)\n | "c" %if or(le([0:2], 1), gt(_, 9))\n'
        ' | "d" %if not(true)\n | "e" %if is_zeros([1:2])\n | "f" %if bit_set(0)\n | "g" %if bit_count_eq(_, 3)\n'
        ' | s::decr([0:2]) | "h" s::bit_or(0x10)\ns::_: "4" %if eq(_, 4) | "21" %if eq(_, 21) | "t" %if true()',
        ["a", "c", "e", "f", "4", "t", "h21", "ht"],
        ["b", "d", "g", "h4", "21"],
    ),
    # ignored text
    "options: no ignored text first": (
        '%llguidance {"allow_initial_skip": false}\n%ignore /[ _]+/\nstart: "a" "b"',
        ["ab", "a b", "a_ b__"],
        [" ab", "_ab", "a-b"],
    ),
    "options: ignored text first": (
        '%grammar_options {"allow_initial_skip": true}\n%ignore " "\nstart: "a" "b"',
        ["ab", "  a b"],
        ["-ab"],
    ),
    "options: ignored once": (
        '%llguidance { "skip_repetition": "once" }\n%ignore /[ \\t]{1,3}/\nstart: "A" "!"',
        ["A!", "A !", "A   !"],
        ["A    !", " A!"],
    ),
    "ignored text that has operators": ('%ignore /[a-c]+/ & ~"ab"\nstart: "<" ">"', ["<>", "<a>", "<abc>"], ["<d>"]),
    # characters counted
    "at most so many characters": ('start: t "."\nt[max_chars=3]: /[^.]*/', [".", "abc.", "é中."], ["abcd.", "ab"]),
    "until a text occurs": ('start: t "<end>"\nt[stop="<end>"]: /.*/', ["a<end>", "<end>"], ["a<end>b<end>", "a"]),
    "until the end": ('start: "a" t\nt[stop=""]: /.*/', ["a", "abc"], ["", "b"]),
}
NAMED = {
    "args": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "status": 'start: "ok" | "cancelled"',
    "pair": 'start: @item ":" @item',
    "item": "start: /[a-z]+/",
}
WITH_NAMED: dict[str, tuple[str, list[str], list[str]]] = {
    "a schema and a text": (
        'start: "<c>" @args "</c>:" @status',
        ['<c>{"city": "Rome"}</c>:ok', '<c>{"city":"","x":1}</c>:cancelled'],
        ["<c>{}</c>:ok", '<c>{"city": "Rome"}</c>:no'],
    ),
    "one that has others": ("start: @pair", ["a:b", "hello:world"], ["a:", ":b", "a:1"]),
    "in a nested grammar": ('start: "o:" %lark { start: "i:" @item }', ["o:i:x"], ["i:x", "o:x"]),
    "twice": ('start: "[" @item ("," @item)* "]"', ["[x]", "[y,x]"], ["[]", "[1]", "[x,]"]),
}
