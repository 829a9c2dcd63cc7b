"""Public formats as grammars for Lark, with texts that Lark parses and texts that it refuses.

Each is a subset, written for these tests. A comment names the complete specification.
"""

from __future__ import annotations

# The DOT language, graphviz.org/doc/info/lang.html
DOT = r"""
start: ["strict"i] ("graph"i | "digraph"i) [id] "{" (statement ";"?)* "}"
statement: node attributes* | node (EDGE node)+ attributes* | ("graph"i | "node"i | "edge"i) attributes+ | id "=" id
         | ["subgraph"i id] "{" (statement ";"?)* "}"
node: id [":" id]
attributes: "[" (id "=" id (";" | ",")?)* "]"
?id: NAME | NUMBER | STRING
EDGE: "->" | "--"
NAME: /[A-Za-z_][A-Za-z0-9_]*/
NUMBER: /-?(\.\d+|\d+(\.\d*)?)/
STRING: /"(\\.|[^"\\])*"/
%ignore /\s+/
%ignore /\/\/[^\n]*/
"""
# Protocol buffers, protobuf.dev/reference/protobuf/proto3-spec
PROTOBUF = r"""
start: "syntax" "=" STRING ";" (import_ | "package" full ";" | message | enum | option)*
import_: "import" ("weak" | "public")? STRING ";"
message: "message" NAME "{" (field | message | enum | oneof | option | reserved)* "}"
field: ("repeated" | "optional")? type NAME "=" INT options? ";" | "map" "<" type "," type ">" NAME "=" INT ";"
oneof: "oneof" NAME "{" (type NAME "=" INT ";")* "}"
enum: "enum" NAME "{" (NAME "=" SIGN? INT options? ";")* "}"
option: "option" full "=" constant ";"
options: "[" full "=" constant ("," full "=" constant)* "]"
reserved: "reserved" INT ("," INT)* ";"
type: "."? full
full: NAME ("." NAME)*
?constant: SIGN? INT | STRING | NAME
SIGN: "-" | "+"
NAME: /[A-Za-z][A-Za-z0-9_]*/
INT: /0|[1-9][0-9]*/
STRING: /"[^"\n]*"/
%ignore /[ \n]+/
%ignore /\/\/[^\n]*/
"""
# HTTP/1.1 messages, RFC 9112
HTTP = r"""
start: request _CRLF (header _CRLF)* _CRLF
request: METHOD _SP target _SP VERSION
target: PATH [QUERY] | "*"
header: FIELD ":" _SP? [VALUE]
METHOD: "GET" | "HEAD" | "POST" | "PUT" | "DELETE"
PATH: /(\/[A-Za-z0-9._~%-]*)+/
QUERY: /\?[A-Za-z0-9=&._~%-]*/
VERSION: /HTTP\/1\.[01]/
FIELD: /[A-Za-z0-9!#$%&'*+.^_`|~-]+/
VALUE: /[!-~]([ \t!-~]*[!-~])?/
_SP: " "
_CRLF: /\r?\n/
"""
# crontab(5)
CRON = r"""
start: minute _SP hour _SP field _SP month _SP weekday _SP COMMAND | AT _SP COMMAND
minute: field
hour: field
?month: field | MONTH ("," MONTH)*
?weekday: field | DAY ("-" DAY)?
field: part ("," part)*
part: ("*" | INT ("-" INT)?) ("/" INT)?
MONTH: "jan" | "feb" | "mar" | "dec"
DAY: "mon" | "tue" | "sun"
AT: "@daily" | "@reboot"
INT: /\d{1,2}/
COMMAND.-1: /[a-z\/][^\n]*/
_SP: /[ \t]+/
"""
# Semantic versioning, semver.org
SEMVER = r"""
start: core ["-" dotted] ["+" dotted]
core: NUMERIC "." NUMERIC "." NUMERIC
dotted: (NUMERIC | WORD | DIGITS) ("." (NUMERIC | WORD | DIGITS))*
NUMERIC.2: /0|[1-9][0-9]*/
WORD.3: /[0-9]*[A-Za-z-][0-9A-Za-z-]*/
DIGITS.3: /0[0-9]+/
"""
# iCalendar, RFC 5545
ICALENDAR = r"""
start: "BEGIN:VCALENDAR" _NL property* event+ "END:VCALENDAR" _NL
event: "BEGIN:VEVENT" _NL property+ "END:VEVENT" _NL
property: NAME parameter* ":" (DATE_TIME | VALUE)? _NL
parameter: ";" NAME "=" (QUOTED | PLAIN) ("," (QUOTED | PLAIN))*
NAME.-1: /[A-Z-]+/
DATE_TIME.1: /\d{8}(T\d{6}Z?)?/
QUOTED: /"[^"\n]*"/
PLAIN: /[^",:;\n]+/
VALUE: /[^\n]+/
_NL: /\r?\n/
"""
# HCL, github.com/hashicorp/hcl, hclsyntax/spec.md
HCL = r"""
start: body
body: (attribute | block)*
attribute: NAME "=" expression _NL
block: NAME (STRING | NAME)* "{" _NL body "}" _NL
?expression: operation ["?" expression ":" expression]
?operation: term | operation OPERATOR term
?term: NUMBER | STRING | "true" | "false" | "null" | list | object | path | "!" term | "(" expression ")"
path: NAME ("." NAME | "[" (NUMBER | STRING | "*") "]")* ["(" [expression ("," expression)*] ")"]
list: "[" [expression ("," expression)* ","?] "]"
object: "{" [NAME ("=" | ":") expression ("," NAME ("=" | ":") expression)*] "}"
OPERATOR: "==" | "!=" | "<" | "<=" | ">" | ">=" | "&&" | "||" | "+" | "-" | "*" | "/" | "%"
NAME: /[A-Za-z][A-Za-z0-9_-]*/
NUMBER: /\d+(\.\d+)?/
STRING: /"(\\.|[^"\\\n])*"/
_NL: /([ \t]*((#|\/\/)[^\n]*)?\n)+/
%ignore /[ \t]+/
"""
# Flow style of YAML, yaml.org/spec/1.2.2
YAML_FLOW = r"""
start: node
?node: [TAG] [ANCHOR] content | ALIAS
?content: mapping | sequence | PLAIN | SINGLE | DOUBLE
mapping: "{" [entry ("," entry)* ","?] "}"
sequence: "[" [item ("," item)* ","?] "]"
?item: node | node ":" node
entry: node [":" node]
TAG: /!!?[a-z]*/
ANCHOR: /&[a-z]+/
ALIAS: /\*[a-z]+/
PLAIN: /[A-Za-z0-9.-]([A-Za-z0-9._ -]*[A-Za-z0-9._-])?/
SINGLE: /'([^']|'')*'/
DOUBLE: /"(\\.|[^"\\])*"/
%ignore /\s+/
"""
# Cascading style sheets, w3.org/TR/CSS2/grammar.html
CSS = r"""
start: (import_ | ruleset | media)*
import_: "@import" (STRING | URI) ";"
media: "@media" NAME ("," NAME)* "{" ruleset* "}"
ruleset: selector ("," selector)* "{" [declaration] (";" [declaration])* "}"
selector: simple (COMBINATOR simple)*
simple: (NAME | "*") part* | part+
?part: HASH | "." NAME | "[" NAME [("=" | "~=") (NAME | STRING)] "]" | ":" NAME
declaration: NAME ":" value (("," | "/")? value)* IMPORTANT?
?value: LENGTH | NAME | STRING | URI | HASH | NAME "(" value ("," value)* ")"
COMBINATOR: />|\+|~/
HASH: /#[A-Za-z0-9_-]+/
NAME: /-?[A-Za-z_][A-Za-z0-9_-]*/
LENGTH: /[+-]?(\d+(\.\d+)?|\.\d+)(px|em|%|s)?/
STRING: /"[^"\n]*"|'[^'\n]*'/
URI: /url\([^)\n ]*\)/
IMPORTANT: /! *important/
%ignore /[ \t\n]+/
%ignore /\/\*([^*]|\*+[^*\/])*\*+\//
"""
# Makefiles, gnu.org/software/make/manual
MAKEFILE = r"""
start: (rule | assignment | _NL)*
rule: target+ ":" target* ["|" target+] _NL (RECIPE _NL)*
assignment: NAME (":=" | "=" | "?=" | "+=") [TEXT] _NL
?target: NAME | PATTERN | variable
variable: "$(" NAME ")"
NAME: /[A-Za-z_.\/][A-Za-z0-9_.\/-]*/
PATTERN: /[A-Za-z_.\/-]*%[A-Za-z0-9_.\/-]*/
RECIPE.2: /\t[^\n]+/
TEXT: /[^ \n#=][^\n#]*/
_NL: /(#[^\n]*)?\n/
%ignore / +/
"""
# Dockerfiles, docs.docker.com/reference/dockerfile
DOCKERFILE = r"""
start: (_NL* instruction)+ _NL*
instruction: "FROM"i IMAGE ["AS"i NAME] _NL | "RUN"i (exec | COMMAND) _NL | ("COPY"i | "ADD"i) PATH+ _NL
           | "ENV"i (NAME "=" VALUE)+ _NL | "EXPOSE"i PORT+ _NL | ("CMD"i | "ENTRYPOINT"i) (exec | COMMAND) _NL
exec: "[" [STRING ("," STRING)*] "]"
IMAGE: /[a-z0-9.\/_-]+(:[A-Za-z0-9._-]+)?/
NAME: /[A-Za-z_][A-Za-z0-9_]*/
COMMAND: /[^\[ \n]([^\\\n]|\\.|\\\n)*/
PATH: /[A-Za-z0-9.\/*_-]+/
VALUE: /"[^"\n]*"|[^\s"]+/
PORT: /\d+(\/(tcp|udp))?/
STRING: /"(\\.|[^"\\\n])*"/
_NL: /(#[^\n]*)?\n/
%ignore /[ \t]+/
"""
# Messages of Internet Relay Chat, RFC 2812
IRC = r"""
start: (message _EOL)+
message: [":" prefix _SP] COMMAND parameters
prefix: NICK ["!" USER] ["@" HOST]
parameters: (_SP MIDDLE)* [_SP ":" [TRAILING]]
NICK: /[A-Za-z\[\]`_^{|}][A-Za-z0-9\[\]`_^{|}-]*/
USER: /[^\s@!]+/
HOST: /[A-Za-z0-9.-]+/
COMMAND: /[A-Z]+|\d{3}/
MIDDLE: /[^: \r\n][^ \r\n]*/
TRAILING: /[^\r\n]+/
_SP: / +/
_EOL: /\r?\n/
"""

FORMATS = {
    "dot": (
        DOT,
        [
            'digraph g { a -> b -> c [label="x\\"", w=1.5]; node [s=box]; }',
            "strict graph { a -- b; subgraph s { c } x = -.5 }",
        ],
        ["graph", "graph { a - b }", "graph { -> }", "graph { a [b] }", "digraph a b { }", 'graph { "a }', "graph {;}"],
    ),
    "protobuf": (
        PROTOBUF,
        [
            'syntax = "proto3"; package a.b; import public "c.proto";',
            'syntax="proto3"; message M { repeated .a.B xs = 1 [packed = true]; map<string, int32> m = 2; }',
            'syntax="proto3"; message M { oneof o { int32 i = 3; } }',
            'syntax = "proto3"; // note\nenum E { A = 0; B = -1; } option java_package = "x";',
        ],
        [
            "message M {}",
            'syntax = "proto3"; message M { int32 x; }',
            'syntax = "proto3"; enum { A = 0; }',
            'syntax = "p"; import;',
        ],
    ),
    "http": (
        HTTP,
        ["GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "POST /a/b?c=d HTTP/1.0\nX-Y:z\n\n", "HEAD * HTTP/1.1\n\n"],
        [
            "GET / HTTP/1.1\n",
            "get / HTTP/1.1\n\n",
            "GET  / HTTP/1.1\n\n",
            "GET / HTTP/2.0\n\n",
            "GET / HTTP/1.1\nA b\n\n",
            "",
        ],
    ),
    "cron": (
        CRON,
        ["*/5 0-23/2 1,15 * mon-tue /usr/bin/true", "0 12 * jan,feb * echo hi", "@daily backup", "59 23 31 12 7 x"],
        ["* * * * *", "60 * * mon * x", "@hourly x", "* * * * * ", "1-2-3 * * * * x", "*,, * * * * x"],
    ),
    "semver": (
        SEMVER,
        ["1.0.0", "0.10.20-alpha.1+build.007", "1.2.3+01", "1.2.3--x"],
        ["1.0", "01.0.0", "1.0.0-", "1.0.0-a..b", "v1.0.0", "1.0.0+a+b", ""],
    ),
    "icalendar": (
        ICALENDAR,
        [
            "BEGIN:VCALENDAR\nV:2.0\nBEGIN:VEVENT\nX;TZID=UTC:20240101T120000Z\nY:a:\nEND:VEVENT\nEND:VCALENDAR\n",
            'BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nX;A="b;c",d:\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n',
        ],
        [
            "BEGIN:VCALENDAR\nEND:VCALENDAR\n",
            "BEGIN:VEVENT\nX:1\nEND:VEVENT\n",
            "BEGIN:VCALENDAR\nBEGIN:VEVENT\nx:1\nEND:VEVENT\nEND:VCALENDAR\n",
        ],
    ),
    "hcl": (
        HCL,
        [
            'a = 1 # note\nresource "x" "y" {\n  b = [true, !c.d[0], e("f")]\n}\n',
            'x = a == 1 && b ? { c = 2, d: "e" } : null\n\n',
            "",
        ],
        ["a = 1", "a = \n", "a {}\n", "a = [1 2]\n", 'a "b" {\n', "a = b ? c\n", "= 1\n", "a = b..c\n"],
    ),
    "yaml flow": (
        YAML_FLOW,
        ["{a: 1, b: [c d, 'it''s', \"x\\n\"], e}", "[!!str x, &a b, *a, {}, a: b,]", "- plain.1", "!t &u {v}"],
        ["{a: 1", "[a,, b]", "'a", "{: a}", "a: b", "[*a b]", "{a b: }"],
    ),
    "css": (
        CSS,
        [
            "a, b > c.d { color: red; margin: 0 -1.5em; }",
            '@import url(x.css); @media print, screen { #a[b~="c"]:d { background: rgb(1, 2, 3) / 4 ! important } }',
            "* { } /* note */ p + *.q{font:12px/1 x;;}",
        ],
        ["a { b }", "a { b: }", "a b { }", "{ a: b }", "@media { }", "a { b: c d: e }", "a > { }", "/* a"],
    ),
    "makefile": (
        MAKEFILE,
        ["all: a.o $(DEPS) | out # note\n\tcc -o all\n\n", "CC := gcc -O2\n%.o: %.c\n\techo $@\n", "A ?=\n"],
        ["all", "all: b", ": a\n", "\tcc\n", "a = b", "a: b\n cc\n", "$(a: b\n", "a:: b\n"],
    ),
    "dockerfile": (
        DOCKERFILE,
        [
            'FROM a/b:1.0 AS x\nRUN make \\\n install\nCMD ["a", "b"]\n',
            '# note\nfrom x\nENV A=1 B="c d"\nEXPOSE 80/tcp 90\nCOPY a b/\n',
        ],
        ["FROM\n", "FROM a", "RUN\n", "CMD [a]\n", "ENV A\n", "EXPOSE x\n", "FOO a\n", "", "COPY\n"],
    ),
    "irc": (
        IRC,
        [":n!u@h.org PRIVMSG #c :hello all\r\n", "PING\n", "001 me :\nJOIN #a  b\n"],
        ["PING", ":n\n", "ping\n", ": PING\n", "PRIVMSG a :\r", "NICK  \n"],
    ),
}
