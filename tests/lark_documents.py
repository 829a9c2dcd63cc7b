"""Document formats as grammars for Lark, with texts that Lark parses and texts that it refuses."""

from __future__ import annotations

JSON = r"""
?start: value
?value: object | array | string | SIGNED_NUMBER -> number | "true" -> true | "false" -> false | "null" -> null
array: "[" [value ("," value)*] "]"
object: "{" [pair ("," pair)*] "}"
pair: string ":" value
string: ESCAPED_STRING
%import common.ESCAPED_STRING
%import common.SIGNED_NUMBER
%import common.WS
%ignore WS
"""
INI = r"""
start: _NL? section+
section: "[" NAME "]" _NL item+
item: NAME "=" VALUE? _NL
NAME: /\w/+
VALUE: /./+
%import common.NEWLINE -> _NL
%import common.WS_INLINE
%ignore WS_INLINE
"""
CSV = r"""
start: header row+
header: "#" " "? (WORD _SEPARATOR?)+ _NL
row: (_anything _SEPARATOR?)+ _NL
_anything: INT | WORD | NON_SEPARATOR_STRING | FLOAT
NON_SEPARATOR_STRING: /[a-zA-z.;\\\/]+/
_SEPARATOR: /[ ]+/ | "\t" | ","
%import common.NEWLINE -> _NL
%import common.WORD
%import common.INT
%import common.FLOAT
"""
QUOTED_CSV = r"""
start: row (_EOL row)*
row: field ("," field)*
field: PLAIN? | QUOTED
PLAIN: /[^,"\r\n]+/
QUOTED: /"(""|[^"])*"/
_EOL: /\r?\n/
"""
URL = r"""
start: SCHEME "://" [USER "@"] host [":" PORT] path ["?" query] ["#" FRAGMENT]
SCHEME: "http" | "https" | "ftp"
host: LABEL ("." LABEL)*
path: ("/" SEGMENT?)*
query: KEY ["=" KEY] ("&" KEY ["=" KEY])*
USER.1: /u_[a-z]+/
LABEL: /[a-z0-9-]+/
PORT: /[0-9]{1,5}/
SEGMENT: /[a-zA-Z0-9._~%-]+/
KEY: /[a-zA-Z0-9._~%-]+/
FRAGMENT: /[^ #]+/
"""
REGEX = r"""
start: alternation
alternation: sequence ("|" sequence)*
sequence: repeated*
repeated: atom QUANTIFIER?
?atom: CHAR | ESCAPE | CLASS | "." | "(" alternation ")" | "(?:" alternation ")" | "^" | "$"
QUANTIFIER: /([*+?]|\{\d+(,\d*)?\})\??/
ESCAPE: /\\./
CLASS: /\[\^?(\\.|[^\]\\])+\]/
CHAR: /[^\\.()|\[*+?{^$]/
"""
TOML = r"""
start: _NL* (line _NL+)*
line: "[" key "]" | "[[" key "]]" | key "=" value
key: KEY ("." KEY)*
?value: STRING | DATE | INTEGER | FLOAT | "true" | "false" | "[" [value ("," value)* ","?] "]"
KEY: /[A-Za-z0-9_-]+/
STRING: /"(\\.|[^"\\\n])*"|'[^'\n]*'/
DATE.2: /\d{4}-\d\d-\d\d/
FLOAT.1: /[+-]?\d+\.\d+/
INTEGER: /[+-]?\d+/
_NL: /(#[^\n]*)?\n/
%ignore " "
"""
PGN = r"""
start: tag* moves RESULT
tag: "[" TAG_NAME STRING "]"
moves: move_pair*
move_pair: MOVE_NUMBER SAN [NAG] [SAN [NAG]]
MOVE_NUMBER: /\d+\./
SAN: /([KQRBN]?[a-h]?[1-8]?x?[a-h][1-8](=[QRBN])?|O-O(-O)?)[+#]?/
NAG: /[!?]{1,2}/
RESULT.2: "1-0" | "0-1" | "1/2-1/2" | "*"
TAG_NAME: /[A-Z][A-Za-z]*/
STRING: /"[^"]*"/
%ignore /\s+/
%ignore /\{[^}]*\}/
"""
SMILES = r"""
start: chain
chain: branched_atom (bond? branched_atom)*
branched_atom: atom ring* branch*
branch: "(" bond? chain ")"
ring: DIGIT | "%" DIGIT DIGIT
bond: "=" | "#" | "-" | ":" | "/"
?atom: ORGANIC | AROMATIC | "[" ISOTOPE? symbol CHIRAL? HCOUNT? CHARGE? "]"
symbol: ORGANIC | AROMATIC | ELEMENT
ISOTOPE: /\d+/
CHIRAL: "@" | "@@"
HCOUNT: /H\d?/
CHARGE: /[+-]\d?/
ORGANIC: "B" | "C" | "N" | "O" | "S" | "P" | "F" | "Cl" | "Br" | "I"
AROMATIC: "b" | "c" | "n" | "o" | "s" | "p"
ELEMENT.1: "Na" | "Fe" | "Si" | "Ca"
DIGIT: /\d/
"""
GRAPHQL = r"""
start: operation+
operation: ["query" [NAME] [variables]] selection | "fragment" NAME "on" NAME selection
variables: "(" ("$" NAME ":" NAME ["!"])+ ")"
selection: "{" item+ "}"
item: NAME [":" NAME] [arguments] [selection] | "..." "on" NAME selection
arguments: "(" (NAME ":" value)+ ")"
?value: "$" NAME | INT | STRING | "true" | "null" | NAME | "[" value* "]"
NAME: /[_A-Za-z][_0-9A-Za-z]*/
INT: /-?\d+/
STRING: /"(\\.|[^"\\\n])*"/
%ignore /[\s,]+/
%ignore /#[^\n]*/
"""
INTERPOLATED = r"""
start: "\"" part* "\""
part: TEXT | ESCAPE | "${" expr "}"
?expr: NAME | NAME "." NAME | start | expr "+" NAME
TEXT: /([^"$\\]|\$[^"{$\\])+/
ESCAPE: /\\./
NAME: /[a-z]+/
"""
MARKUP = r"""
start: element
element: "<" NAME attribute* ">" content* "</" NAME ">" | "<" NAME attribute* "/>"
content: element | TEXT | COMMENT | ENTITY
attribute: NAME "=" VALUE
TEXT: /[^<&]+/
ENTITY: /&[a-z]+;/
COMMENT: /<!--.*?-->/s
VALUE: /"[^"]*"/
NAME: /[a-z][a-z0-9]*/
WS: /\s+/
%ignore WS
"""
DATES = r"""
start: entry ("," entry)*
entry: DATE [TIME] | INT | RANGE
DATE.2: /\d{4}-\d{2}-\d{2}/
TIME.2: /\d{2}:\d{2}(:\d{2})?/
RANGE.1: /\d+\.\.\d+/
INT: /\d+/
%ignore " "
"""

DOCUMENTS = {
    "json": (
        JSON,
        ['{"a": [1, -2.5, null]}', "[]", ' "x\\"y" ', '{"k" : {"l": true}}', "[true,false]", '""', "+1", "1.5E+3"],
        ["", "{a: 1}", "[1,]", "nul", '["a" "b"]', '"a"b"', "truefalse", "[1 2]", "{}{}"],
    ),
    "ini": (
        INI,
        ["[a]\nb=c\n", "\n[one]\nx = some value\ny=\n[two]\nz==[\n", "[a]\nb=[c]=d\n\n"],
        ["[a]\n", "[a]\nb=c", "[a b]\nc=d\n", "a=b\n", "[a]\n=b\n", "[a]\nb c=d\n"],
    ),
    "csv": (
        CSV,
        ["# a b\n1 2\n", "#file name\n1.5,x;y\tz\n", "# a\n.\\ab\n"],
        ["a b\n1\n", "# a b\n", "# a b\n1 2", "# a\n,\n", "#\n1\n"],
    ),
    "quoted csv": (
        QUOTED_CSV,
        ["", "a,b\nc", ',"x, ""y""\n",\r\n', '"",""', "é,ü"],
        ['"a', 'a"b', '"a"b', "a\rb", 'a,"b""'],
    ),
    "addresses": (
        URL,
        ["http://a.b", "https://u_me@a-b.c:80/x/y//?k=v&l#frag?", "ftp://1.2/%20", "http://a?a=b", "http://a#x/y"],
        ["http:/a", "http://", "http://a..b", "http://a:b", "gopher://a", "http://a?=b", "http://a##", "http://me@a"],
    ),
    "regex": (
        REGEX,
        ["", "a|b*", "(?:x[^\\]]){2,3}?", "\\(a\\)+", "^$", "()|", "[a-z]+?", "}a,"],
        ["(", ")", "*", "a**", "[", "a{", "\\", "(?a)", "[]"],
    ),
    "toml": (
        TOML,
        [
            "a = 1\n",
            "# x\n[t.u]\nk.v = 1979-05-27 # d\n[[l]]\n",
            'a = [1.5, \'x\', "y\\"",]\n',
            "1 = 2\n",
            "\n\n",
            "true = true\n",
        ],
        ["a = 1", "a =\n", "= 1\n", "[a\n", "a = 1979-05\n", "a = 1.\n", "[[a]\n", "a b = 1\n"],
    ),
    "pgn": (
        PGN,
        ['[Event "x"] 1. e4 e5 2. Nf3! Nc6?? 1-0', "*", "1. O-O {castles} O-O-O+ 1/2-1/2", "1. exd8=Q# 1-0"],
        ["", "1. e4", "1. e9 *", "e4 *", "1. e4 e5 e6 *", "1 e4 *", "1. e4 1-", '[event "x"] *'],
    ),
    "smiles": (
        SMILES,
        ["CCO", "C1=CC=CC=C1", "[Na+]", "CC(=O)Oc1ccccc1", "[13CH4]", "N[C@@H](C)O", "ClCBr", "C%12"],
        ["", "(C)", "C(", "[C", "C==O", "Q", "[Xx]", "C(=)", "[H]", "[Fe"],
    ),
    "graphql": (
        GRAPHQL,
        [
            "{ a }",
            "query q($x: Int!) { a: b(c: $x) { d ... on T { e } } }",
            "fragment f on fragment { on query }",
            "{a,b#x\n}",
        ],
        ["", "{}", "query", "{ a( }", "{ ... }", "fragment on { a }", '{ a(b: "c) }', "{ ..a }"],
    ),
    "interpolated strings": (
        INTERPOLATED,
        ['""', '"a ${b.c} $d"', '"${"x${y}"+z}"', '"\\$\\""', '"}"'],
        ['"', '"${}"', '"${a"', '"$"', '"\\"', '"${A}"', '"a" "b"', '"${ a}"'],
    ),
    "markup": (
        MARKUP,
        ["<a/>", '<a b="c"><d>x y</d>&amp;</a>', "<a><!-- - > --></a>", '<a b="1"\nc="2"></a>', "<a> </a>", "< a />"],
        ["", "<a>", "<a b></a>", "<a>&</a>", "<a><!-- </a>", "x<a/>", "<a b='c'/>", "<A/>", "<a/>\n"],
    ),
    "dates": (
        DATES,
        ["2024-01-02", "2024-01-02 12:30, 5, 1..2", "12, 12", "2024-01-02 12:30:59"],
        ["", "2024-1-2", "12:30", "1.2", "2024-01-02 1", "1..", ",", "20240-01-02"],
    ),
}
