"""Public notations as grammars for Lark, with texts that Lark parses and texts that it refuses.

Each is a subset, written for these tests. A comment names the complete specification.
"""

from __future__ import annotations

# Extended BNF, ISO/IEC 14977
EBNF = r"""
start: rule+
rule: NAME "=" alternatives ";"
alternatives: sequence ("|" sequence)*
sequence: term ("," term)*
term: factor ["-" factor]
factor: [INT "*"] primary
?primary: NAME | STRING | "[" alternatives "]" | "{" alternatives "}" | "(" alternatives ")" | SPECIAL |
NAME: /[A-Za-z][A-Za-z0-9_ ]*[A-Za-z0-9]|[A-Za-z]/
INT: /\d+/
STRING: /"[^"]+"|'[^']+'/
SPECIAL: /\?[^?]*\?/
%ignore /\s+/
%ignore /\(\*([^*]|\*+[^*)])*\*+\)/
"""
# Augmented BNF, RFC 5234
ABNF = r"""
start: (rule? _EOL)+
rule: NAME ("=" | "=/") alternation
alternation: concatenation ("/" concatenation)*
concatenation: repetition+
repetition: REPEAT? element
?element: NAME | STRING | RANGE | "(" alternation ")" | "[" alternation "]" | PROSE
REPEAT.1: /\d*\*\d*|\d+/
NAME: /[A-Za-z][A-Za-z0-9-]*/
STRING: /(%[si])?"[^"\n]*"/
RANGE: /%x[0-9A-F]+((-[0-9A-F]+)|(\.[0-9A-F]+)+)?/
PROSE: /<[^>\n]*>/
_EOL: /(;[^\n]*)?\n/
%ignore /[ \t]+/
"""
# Prolog, ISO/IEC 13211-1
PROLOG = r"""
start: (clause ".")*
clause: term | term ":-" goals | ":-" goals | term "-->" goals
goals: disjunction
?disjunction: conjunction | conjunction ";" disjunction
?conjunction: goal | goal "," conjunction
?goal: comparison | "\\+" goal | "!"
?comparison: sum | sum COMPARE sum
?sum: product | sum ("+" | "-") product
?product: term | product ("*" | "/" | "mod") term
?term: ATOM ["(" comparison ("," comparison)* ")"] | VARIABLE | NUMBER | STRING | list | "(" goals ")"
list: "[" [comparison ("," comparison)* ["|" comparison]] "]"
COMPARE: "=" | "\\=" | "==" | "is" | "<" | ">" | "=<" | ">=" | "=:=" | "=.."
ATOM: /[a-z][A-Za-z0-9_]*/ | /'[^'\n]*'/
VARIABLE: /[A-Z_][A-Za-z0-9_]*/
NUMBER: /[0-9]+(\.[0-9]+)?/
STRING: /"[^"\n]*"/
%ignore /\s+/
%ignore /%[^\n]*/
"""
# Extensible data notation, github.com/edn-format/edn
EDN = r"""
start: value*
?value: "nil" | "true" | "false" | NUMBER | STRING | CHARACTER | KEYWORD | SYMBOL | list | vector | map | set | tagged
list: "(" value* ")"
vector: "[" value* "]"
map: "{" (value value)* "}"
set: "#{" value* "}"
tagged: TAG value
TAG: /#[A-Za-z][A-Za-z0-9.\/-]*/
NUMBER.1: /[+-]?\d+(\.\d+)?([eE][+-]?\d+)?[NM]?/
STRING: /"(\\.|[^"\\])*"/
CHARACTER.2: /\\(newline|space|tab|[!-~])/
KEYWORD: /:[A-Za-z*+!?_.\/-][A-Za-z0-9*+!?_.\/-]*/
SYMBOL: /[A-Za-z*+!?_<>=.-][A-Za-z0-9*+!?_<>=.\/-]*/
%ignore /[\s,]+/
%ignore /;[^\n]*/
"""
# Verilog, IEEE 1364
VERILOG = r"""
start: module+
module: "module" NAME ["(" port ("," port)* ")"] ";" item* "endmodule"
port: ["input" | "output"] ["wire" | "reg"] [range] NAME
range: "[" expression ":" expression "]"
item: ("wire" | "reg") [range] NAME ("," NAME)* ";" | "assign" place "=" expression ";"
    | "always" "@" "(" event ("or" event)* ")" statement | "initial" statement
event: ("posedge" | "negedge")? NAME | "*"
statement: "begin" statement* "end" | place ("=" | "<=") expression ";" | ";"
         | "if" "(" expression ")" block ["else" block]
block: "begin" statement* "end"
place: NAME ["[" expression "]"]
?expression: binary | binary "?" expression ":" expression
?binary: unary | binary OPERATOR unary
?unary: primary | ("!" | "~" | "-") primary
?primary: NUMBER | NAME ["[" expression "]"] | "(" expression ")" | "{" expression ("," expression)* "}"
OPERATOR: "&&" | "||" | "&" | "|" | "^" | "+" | "==" | "<" | "<<" | ">>"
NUMBER: /\d+'[bdh][0-9a-fxzA-F_]+/ | /\d+/
NAME: /[A-Za-z_][A-Za-z0-9_$]*/
%ignore /\s+/
%ignore /\/\/[^\n]*/
"""
# Sequence diagrams, plantuml.com
PLANTUML = r"""
start: "@startuml" _NL (line? _NL)* "@enduml" _NL?
line: ("participant" | "actor") NAME ["as" NAME] | NAME ARROW NAME [":" TEXT] | "note" ("left" | "right") ":" TEXT
    | "alt" TEXT _NL (line? _NL)* ["else" _NL (line? _NL)*] "end"
ARROW: /-{1,2}>{1,2}|<-{1,2}/
NAME: /[A-Za-z][A-Za-z0-9]*/
TEXT: /[^:\n ][^\n]*/
_NL: /\n/
%ignore /[ \t]+/
%ignore /'[^\n]*/
"""
# Turtle, w3.org/TR/turtle
TURTLE_RDF = r"""
start: (directive | triples ".")*
directive: "@prefix" PREFIX IRI "." | "@base" IRI "."
triples: subject predicates | blank predicates?
predicates: verb objects (";" [verb objects])*
objects: object ("," object)*
?verb: iri | "a"
?subject: iri | BLANK | collection
?object: iri | BLANK | collection | blank | literal
literal: STRING [LANGUAGE | "^^" iri] | NUMBER | "true" | "false"
blank: "[" predicates? "]"
collection: "(" object* ")"
?iri: IRI | PREFIXED | PREFIX
IRI: /<[^<>" {}|^`\\]*>/
PREFIXED: /[A-Za-z]*:[A-Za-z0-9]+/
PREFIX: /[A-Za-z]*:/
BLANK.1: /_:[A-Za-z0-9]+/
STRING: /"(\\.|[^"\\\n])*"/
LANGUAGE.-1: /@[a-z]+(-[a-z0-9]+)*/
NUMBER: /[+-]?\d+(\.\d+)?/
%ignore /\s+/
%ignore /#[^\n]*/
"""
# XPath, w3.org/TR/xpath-10
XPATH = r"""
?start: or
?or: and | or "or" and
?and: equality | and "and" equality
?equality: relation | equality ("=" | "!=") relation
?relation: sum | relation ("<" | ">" | "<=" | ">=") sum
?sum: union | sum ("+" | "-") union
?union: path | union "|" path
?path: location | filter
filter: (STRING | NUMBER | VARIABLE | "(" or ")" | call) ("[" or "]")*
call: FUNCTION [or ("," or)*] ")"
location: ("/" | "//")? step (("/" | "//") step)*
step: (AXIS | "@")? test ("[" or "]")* | "." | ".."
test: NAME [":" (NAME | "*")] | "*" | TEXT_NODE
TEXT_NODE.1: "text()"
AXIS.1: /(child|parent|self|descendant)::/
FUNCTION.1: /(count|last|not|contains|position)\(/
NAME: /[A-Za-z_][A-Za-z0-9_.-]*/
VARIABLE: /\$[a-z]+/
STRING: /"[^"]*"|'[^']*'/
NUMBER: /\d+(\.\d+)?/
%ignore /\s+/
"""
# BibTeX, ctan.org/pkg/bibtex
BIBTEX = r"""
start: entry*
entry: "@" TYPE "{" KEY ("," field)* ","? "}"
field: NAME "=" value
value: piece ("#" piece)*
?piece: NUMBER | NAME | braced | "\"" (QUOTED | braced)* "\""
braced: "{" (BRACED | braced)* "}"
TYPE: "article"i | "book"i | "misc"i
KEY: /[A-Za-z0-9:_-]+/
NAME: /[A-Za-z]+/
NUMBER: /\d+/
QUOTED: /[^"{}]+/
BRACED: /[^{}]+/
%ignore /\s+/
"""
# Mathematics in LaTeX, latex-project.org
LATEX = r"""
start: item*
?item: atom | scripted | fraction | root | group | environment | left
scripted: base "_" base ["^" base] | base "^" base
?base: LETTER | NUMBER | SYMBOL | group
?atom: LETTER | NUMBER | SYMBOL | OPERATOR
group: "{" item* "}"
fraction: "\\frac" group group
root: "\\sqrt" ["[" NUMBER "]"] group
left: "\\left" DELIMITER item* "\\right" DELIMITER
environment: "\\begin{matrix}" row ("\\\\" row)* "\\end{matrix}"
row: item* ("&" item*)*
LETTER: /[A-Za-z]/
NUMBER: /\d+(\.\d+)?/
SYMBOL.-1: /\\(alpha|beta|pi|sum|int|infty|times|le|leq|in)/
OPERATOR: /[-+*=<>,!|]/
DELIMITER: /[()|.]/
%ignore /\s+/
"""
# JSONPath, RFC 9535
JSONPATH = r"""
start: "$" segment*
segment: "." NAME | ".." NAME | "." "*" | ".." "*" | "[" selector ("," selector)* "]"
?selector: STRING | "*" | slice | INT | "?" or
slice: INT? ":" INT? (":" INT?)?
?or: and ("||" and)*
?and: test ("&&" test)*
?test: query | "!" query | value COMPARE value | "(" or ")"
query: "@" segment*
?value: query | STRING | INT | "true" | "false" | "null"
COMPARE: "==" | "!=" | "<=" | ">=" | "<" | ">"
NAME: /[A-Za-z_][A-Za-z0-9_]*/
INT: /0|-?[1-9]\d*/
STRING: /'(\\.|[^'\\])*'|"(\\.|[^"\\])*"/
%ignore " "
"""

NOTATIONS = {
    "ebnf": (
        EBNF,
        [
            'letter = "a" | "b" ;',
            "a rule = 2 * b , [ c - 'd' ] , { e } ; (* note *) b = ? x ? ;",
            "nothing = ;",
            "a = | b;",
        ],
        ["", "a = b", "a b = 'c", "= a;", "a = (b;", "a = 2 b;", "a = b c - ; d"],
    ),
    "abnf": (
        ABNF,
        ['rule = *2a / 1*"b" ; note\n', '\nname =/ %x41-5A [%i"c"] 2(d <prose>)\n', "a = %x0D.0A\n"],
        ["a = b", "a = \n", "1a = b\n", "a = %x\n", 'a = "b\n', "a == b\n", "a = (b\n"],
    ),
    "prolog": (
        PROLOG,
        [
            "append([], L, L). append([H|T], L, [H|R]) :- append(T, L, R).",
            "f(X, Y) :- Y is X * 2 + 1, \\+ X =< 0 ; !. % note",
            ":- dynamic('a b'/2). s --> [a].",
            "",
        ],
        ["f(X)", "f() .", "f(X) :- .", "X :- ,.", "[a|b|c].", "f(X :- Y)).", "a --> .", "f(a b)."],
    ),
    "edn": (
        EDN,
        ['{:a [1 -2.5M], "b" #{c nil}} ; note', '(+ 1 2) #inst "x" \\newline \\a', "", "-a a/b true truer -1"],
        ["{:a}", "(", "#{", "\\", '"a', ":", "[1 2)", "# a", "#1"],
    ),
    "verilog": (
        VERILOG,
        [
            "module m(input wire [7:0] a, output b); assign b = a[0] ? ~a : {a, 8'hFF}; endmodule",
            "module t; reg r, s; always @(posedge c or d) begin if (r) begin r <= 1; end else begin end end endmodule",
        ],
        [
            "module m endmodule",
            "module m; assign a = ; endmodule",
            "module m; wire [1] a; endmodule",
            "module m; always r = 1; endmodule",
        ],
    ),
    "plantuml": (
        PLANTUML,
        [
            "@startuml\nactor A as B\nA -> B: hi: there\n' note\n@enduml\n",
            "@startuml\n\nalt x\nA<--B\nelse\nend\nnote left: x\n@enduml",
        ],
        [
            "@startuml\n@enduml\n\n",
            "@startuml\nA -> \n@enduml",
            "A -> B",
            "@startuml\nA --- B\n@enduml",
            "@startuml\nalt x\n@enduml",
        ],
    ),
    "turtle rdf": (
        TURTLE_RDF,
        [
            '@prefix : <x#>. :a a :b ; :c "d"@en-gb, 1.5 .',
            '_:x <p> [ :q (1 true "y"^^<t>) ; ] . # note',
            "[ :a :b ] . a:b c: _:d .",
        ],
        [":a :b", ":a :b .", "<a b> :c :d .", "a :b :c .", ':a :b "c .', "@prefix a <x> .", ":a :b :c ,."],
    ),
    "xpath": (
        XPATH,
        [
            "/a/b[1]/@c",
            "//x[y='z' and not(w)] | ..",
            "count(//a) + 1 <= $n",
            "child::*[position() < last()]/text()",
            "a:b/or/and",
        ],
        ["", "/", "a[", "a//", "@", "a b", "count(", "1 +", "a = = b", "a[]"],
    ),
    "bibtex": (
        BIBTEX,
        ['@article{k1, title = "A {B {c}} d", year = 1999,}', "@Book{a:b, x = jan # 3}", "", "@misc{x}"],
        [
            "@article{}",
            "@book{k, x = {y, {z}} # jan}",
            "@article{k, t = }",
            '@article{k, t = "a}',
            "@foo{k}",
            "@book{k, = 3}",
            "@misc{a, b = {c}",
            "article{k}",
        ],
    ),
    "latex": (
        LATEX,
        [
            "\\frac{1}{x^2} + \\sqrt[3]{a_i}",
            "\\left( \\sum_{i=1}^n i \\right.",
            "\\begin{matrix}a & b \\\\ c\\end{matrix}",
            "",
            "x_1^2",
        ],
        ["\\frac{1}", "{", "x^", "x^2^3", "\\foo", "\\left( x", "&", "\\sqrt[x]{y}", "^2"],
    ),
    "jsonpath": (
        JSONPATH,
        ["$.a['b'][0]", "$..*[1:-2, 'x']", "$[?@.a > 1 && !@.b || (@.c == 'd')]", "$", "$[::2]", "$[*]"],
        ["", "a", "$.", "$[", "$[]", "$[01]", "$[?@.a >]", "$[1 2]", "$['a]", "$.1"],
    ),
}
