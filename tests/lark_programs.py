"""Programming languages as grammars for Lark, with texts that Lark parses and texts that it refuses."""

from __future__ import annotations

CALCULATOR = r"""
?start: sum | NAME "=" sum -> assign_var
?sum: product | sum "+" product -> add | sum "-" product -> sub
?product: atom | product "*" atom -> mul | product "/" atom -> div
?atom: NUMBER -> number | "-" atom -> neg | NAME -> var | "(" sum ")"
%import common.CNAME -> NAME
%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE
"""
S_EXPRESSIONS = r"""
start: expr+
?expr: list | "'" expr -> quote | SYMBOL | NUMBER | STRING | "#t" -> true | "#f" -> false
list: "(" expr* ["." expr] ")"
NUMBER: /[+-]?[0-9]+(\.[0-9]+)?/
SYMBOL: /[a-z!?*+\/<=>-][a-z0-9!?*+\/<=>-]*/
STRING: /"(\\.|[^"\\])*"/
COMMENT: /;[^\n]*/
%ignore /\s+/
%ignore COMMENT
"""
DOTTED_NAMES = r"""
start: (statement ";")*
statement: "import" dotted ("as" NAME)? | "from" dots dotted? "import" (names | "*")
dots: (DOT | ELLIPSIS)*
dotted: NAME (DOT NAME)*
names: NAME ("," NAME)*
DOT: "."
ELLIPSIS: "..."
NAME: /[^\W\d]\w*/
%ignore " "
"""
KEYWORDS = r"""
start: block
block: statement*
statement: "if" expr "then" block else_part "end" | "while" expr "do" block "end" | NAME ":=" expr ";"
else_part: ("else" block)?
?expr: expr OPERATOR term | term
?term: NAME | NUMBER | "not" term | "(" expr ")"
OPERATOR: "and" | "or" | "<" | "<=" | "="
NAME: /[a-z_]+/
NUMBER: /\d+/
%ignore /[ \n]+/
"""
COMMENTS = r"""
start: (declaration ";")+
declaration: TYPE NAME ["=" value]
?value: value "/" NAME | value "*" NAME | NAME | STRING
TYPE: "int" | "char"
NAME: /[a-zA-Z_]\w*/
STRING: /"[^"\n]*"/
%import common.CPP_COMMENT
%import common.C_COMMENT
%import common.WS
%ignore CPP_COMMENT
%ignore C_COMMENT
%ignore WS
"""
OPERATORS = r"""
?start: assignment
?assignment: shift | NAME ("=" | "<<=" | ">>=" | "+=") assignment
?shift: comparison | shift ("<<" | ">>") comparison
?comparison: sum | comparison ("<" | "<=" | ">" | ">=" | "==" | "!=") sum
?sum: power | sum ("+" | "++" | "-" | "--" | "->") power
?power: NAME | NAME "**" power | NAME "*" power | "!" power
NAME: /[a-z]/
%ignore " "
"""
TEMPLATES = r"""
start: _list{entry, ";"}
entry: KEY ":" _bracketed{"[", "]"} | KEY ":" _bracketed{"<", ">"}
_list{item, separator}: item (separator item)* separator?
_bracketed{open, close}: open _list{value, ","} close
value: KEY | INT
KEY: /[a-z]+/
%import common.INT
%ignore " "
"""
PRIORITIES = r"""
start: (HEX | DECIMAL | FLOAT | WORD | VERSION)+
HEX.2: /0[xX][0-9a-f]+/
VERSION.3: /v\d+(\.\d+)*/
FLOAT.1: /\d+\.\d*/
DECIMAL: /\d+/
WORD.-1: /[a-z0-9]+/
%ignore /[ ,]/
"""
TURTLE = r"""
start: instruction+
instruction: MOVEMENT NUMBER -> movement
           | "c" COLOR [COLOR] -> change_color
           | "fill" code_block -> fill
           | "repeat" NUMBER code_block -> repeat
code_block: "{" instruction+ "}"
MOVEMENT: "f"|"b"|"l"|"r"
COLOR: LETTER+
%import common.LETTER
%import common.INT -> NUMBER
%import common.WS
%ignore WS
"""
SELECT = r"""
start: select ";"?
select: "SELECT"i ["DISTINCT"i] columns "FROM"i table ("," table)* [where] [order]
columns: "*" | column ("," column)*
column: expr ["AS"i NAME]
table: NAME [NAME] | "(" select ")" NAME
where: "WHERE"i condition
order: "ORDER"i "BY"i NAME ["ASC"i | "DESC"i]
?condition: conjunction | condition "OR"i conjunction
?conjunction: test | conjunction "AND"i test
test: expr COMPARISON expr | expr "IS"i ["NOT"i] "NULL"i | "NOT"i test
?expr: NAME | NAME "." NAME | NUMBER | STRING | NAME "(" [expr ("," expr)*] ")"
COMPARISON: "=" | "<>" | "<=" | ">=" | "<" | ">" | "LIKE"i
NAME: /[a-z_][a-z0-9_]*/i
NUMBER: /\d+(\.\d+)?/
STRING: /'(''|[^'])*'/
%ignore /\s+/
%ignore /--[^\n]*/
"""
LUA = r"""
start: chunk
chunk: (stat [";"])* [laststat [";"]]
stat: "local" NAME ["=" exp] | "do" chunk "end" | "function" NAME "(" [NAME ("," NAME)*] ")" chunk "end"
    | "for" NAME "in" exp "do" chunk "end" | call
laststat: "return" [exp] | "break"
call: NAME "(" [exp ("," exp)*] ")"
?exp: value | exp BINARY value
?value: NUMBER | STRING | LONG | NAME | call | "nil" | "#" value | "{" [exp ("," exp)*] "}"
BINARY: ".." | "+" | "==" | "~="
NAME: /[A-Za-z_]\w*/
NUMBER: /\d+(\.\d+)?|0x[0-9a-f]+/
STRING: /"[^"\n]*"/
LONG: /\[\[.*?\]\]/s
COMMENT.1: /--\[\[.*?\]\]/s | /--[^\n]*/
%ignore COMMENT
%ignore /\s+/
"""
DATALOG = r"""
start: clause*
clause: head [":-" literal ("," literal)*] "."
?head: atom
literal: ["not"] atom | VARIABLE ("=" | "!=") term
atom: NAME ["(" term ("," term)* ")"]
?term: VARIABLE | NAME | NUMBER
VARIABLE: /[A-Z_]\w*/
NAME: /[a-z]\w*/
NUMBER: /-?\d+/
%ignore /\s+|%[^\n]*/
"""
LAMBDA = r"""
?start: term
?term: application | "\\" NAME+ "." term | "let" NAME "=" term "in" term
?application: atom | application atom
?atom: NAME | "(" term ")"
NAME: /[^\W\d]['\w]*/
%ignore /\s+/
"""
LISTS = r"""
start: left ";" right ";" middle ";" nothing
left: | left "a"
right: | "b" right
middle: | "x" middle "y"
nothing: empty empty "c"?
empty:
%ignore " "
"""
CASES = r"""
start: word+
word: LOWER | UPPER | EXACT | MIXED
EXACT: "Stop"
MIXED: "halt"i
LOWER: /[a-zäöü]+/
UPPER: /[A-ZÄÖÜ][a-zäöü]*/
%ignore " "
"""
BASIC = r"""
start: line+
line: NUMBER statement (":" statement)* _EOL
statement: "PRINT" [expr (("," | ";") expr)*] | "LET"? NAME "=" expr | "GOTO" NUMBER | "IF" expr "THEN" NUMBER
         | REMARK
?expr: sum | expr RELATION sum
?sum: value | sum "+" value
?value: NUMBER | STRING | NAME
RELATION: "<" | ">" | "=" | "<>" | "<=" | ">="
NAME: /[A-Z][A-Z0-9]*[$%]?/
NUMBER: /\d+/
STRING: /"[^"\n]*"/
REMARK.1: /REM[^\n]*/
_EOL: "\n"
%ignore " "
"""

PROGRAMS = {
    "calculator": (
        CALCULATOR,
        ["1+2*3", "a=-(1.5e3 / b)", " x ", "((2))", "a = 1", "1 - -1", "5.", ".5e-3*a"],
        ["", "1+", "()", "1 2", "1=a", "a=b=c", "1e", "+1"],
    ),
    "s-expressions": (
        S_EXPRESSIONS,
        ["(define (f x) (* x -1.5))", "'(a . b)", "+ - +1 ; note", '"a\\"b" #t', "()", "a-1 -1 -a"],
        ["", "(", ")", "(a . )", '"a', "#x", "(. .)", "A"],
    ),
    "dotted names": (
        DOTTED_NAMES,
        [
            "import a.b as c;",
            "import as;",
            "from . import x, y;",
            "from ....a import *;",
            "",
            "import imports;",
            "from .. a import b;",
        ],
        [
            "import a.;",
            "import .a;",
            "from a import b;import",
            "import 1;",
            "from import;",
            "import a..b;",
            "import as as;",
        ],
    ),
    "keywords": (
        KEYWORDS,
        [
            "x := 1;",
            "x := end;",
            "if x theny := 1; end",
            "if iffy then x := nothing; end",
            "while not(a<=b) do if a then else b:=c; end end",
            "anda := orb and c;",
        ],
        ["if := 1;", "x := not;", "x := 1", "x := a b;", "while x do", "notx not x := 1;"],
    ),
    "comments": (
        COMMENTS,
        [
            "int x;",
            "intx;",
            "char int;",
            'char s = "//no"; // yes\nint y;',
            "/* a * / ; */int /**/ integer;",
            "int a = b/c*d;",
            "int a = b / /* */ c;",
        ],
        ["int x", "xint;", "int x = a//b;", "/* int x;", "int /* */ */ x;", "int x = a/**/b;"],
    ),
    "operators": (
        OPERATORS,
        ["a=b<<=c", "a<b", "a<=b>=c", "a++b--c->d", "a**b*!c", "a>>b>>c", "a << b"],
        ["a< =b", "a===b", "a<<<b", "a+++b", "a---b", "a***b", "a!b", "=a", "a-->b", "a!==b", "a<-b"],
    ),
    "templates": (
        TEMPLATES,
        ["a:[1]", "a:<b,c,>; c:[d];", "x : [ a , 1 ]"],
        ["", "a:[1>", "a:[]", "a[1]", "a:[1];;", "1:[a]", "a:[a1b]"],
    ),
    "priorities": (
        PRIORITIES,
        ["0x1f 12 1.5 v1.2.3 abc", "v1", "12.", "0xa 0b1", "1a 0xg", "v", "v1a"],
        ["", ".", "v1.", "1.5.6.", "A", "v1..2", "x.1"],
    ),
    "turtle": (
        TURTLE,
        ["f 100", "c red yellow\nfill { repeat 36 { f200 l170 } }", "cred", "f1b2l3r4", "cfill fill{f1}"],
        ["", "f", "fill {}", "c", "repeat { f1 }", "f 1 2", "fill f1", "c red 1", "c f f1"],
    ),
    "select": (
        SELECT,
        [
            "SELECT * FROM t;",
            "SELECTa FROM t",
            "select a, b.c as d from t x, (select 1 from u) v where a <= 1 and not b is not null order by a desc",
            "select selected from fromage -- note",
            "SELECT count(a, 'it''s') FROM t WHERE name like 'x%' OR a<>b",
        ],
        [
            "SELECT FROM t",
            "SELECT a FROM",
            "SELECT a b FROM t",
            "SELECT 'a FROM t",
            "SELECT * FROM t WHERE a",
            "SELECT a,FROM t",
        ],
    ),
    "lua": (
        LUA,
        [
            "local x = 1 print(x)",
            "function f(a, b) return a..b end",
            "for k in pairs(t) do print(k, [[a]b]]) end --[[ x\n]] break",
            "-- note\nlocal endx = 31",
            "local end",
            "return return",
            "do end",
        ],
        ["local = 1", "local endx = 0x1f", "x = 1", "f(", "print([[a]", "local x = 1 2", "--[[ x\n]] ]]"],
    ),
    "datalog": (
        DATALOG,
        ["p(a,1).", "q(X) :- p(X,_y), not r(X), X != -1. % note", "nothing.", "", "p:-notp.", "p :- not not_q."],
        ["p(a)", "P(a).", "p(X) :- .", "p :- a = b.", "p(.)", "p() .", "p :- q not r."],
    ),
    "lambda": (
        LAMBDA,
        ["\\x y.x y", "let letter = a in inner b'", "(\\f.f f) x", "λ é", "a b (c d)", "in", "let in = a in b"],
        ["", "\\.x", "\\x x", "let x = y", "()", "1"],
    ),
    "recursive lists": (
        LISTS,
        [";;;", "aaa;bbb;xxyy;c", "a a ; b ; xy ; "],
        ["", ";;", "b;;;", ";;xyy;", ";;xxy;", ";;;cc"],
    ),
    "letter case": (
        CASES,
        ["Stop halt HALT word Wort", "Stopp", "über Äther", "haltHalt", "StopStop", "a"],
        ["", "1", "STOP1", "a-b", "ß"],
    ),
    "basic": (
        BASIC,
        [
            '10 PRINT "A";B\n',
            "10 LET A$=1:GOTO 20\n20 REMARK\n",
            "5 IF A<>B THEN 10\n",
            "1 PRINTER=1\n",
            "10 LET LET=1\n",
            "1 REM\n",
            "1 PRINT\n",
        ],
        ["PRINT\n", "10 PRINT", "10 GOTO A\n", "10 LET 1=1\n", "10 IF A THEN B\n", '10 PRINT "A\n', "10 A=1 B=2\n"],
    ),
}
