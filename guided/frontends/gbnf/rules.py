"""Turns a GBNF grammar into rules of the IR. In: the text. Out: for each rule, its node and its references.

How: a first pass collects the names that the grammar defines, because a rule may be used before it is defined. Then the
body of each rule is read in one pass, with an explicit stack of open groups: nesting costs only memory, and
`Limits.depth` bounds it.

Two constructs depend on the names. A dot is part of a name in xgrammar, but stands for any character in llama.cpp.
`a.b` is a name if the grammar defines `a.b`, which only xgrammar allows. Otherwise it is the rule a, any character, and
the rule b. `Token`, `Regex` and similar names are macros unless the grammar defines a rule with that name.

A rule continues until the next `name ::=` at the beginning of a line. So line ends separate rules, as llama.cpp
requires, and may occur within a rule, as xgrammar allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from guided.close_names import find_closest_name
from guided.errors import Finding, LimitExceeded, SpecError, UnsupportedError
from guided.frontends.common.digits import is_number
from guided.frontends.common.line_table import LineTable
from guided.frontends.regex.algebra import alt, chars, repeat, seq
from guided.frontends.regex.algebra import text as literal_text
from guided.ir.nodes import ANY_CHAR, EPSILON, Node, OtherTokens, Ref, Special
from guided.limits import Limits
from guided.meter import spend

from .characters import Characters
from .macros import MACROS, Macros
from .options import RuleOptions, read_options
from .tokens import MAX_DIGITS, Token, parse_number, tokenize

__all__ = ["Rule", "read_rules"]


@dataclass(slots=True)
class Rule:
    """One rule.

    Attributes:
        name, span: its name and the span of its definition.
        node: the language of its body, before its options apply.
        options: the options in brackets after its name.
        references: the names of the rules that it refers to, in order.
        has_tokens: whether it refers to tokens of the vocabulary.
    """

    name: str
    span: tuple[int, int]
    options: RuleOptions
    node: Node = EPSILON
    references: list[str] = field(default_factory=list)
    has_tokens: bool = False


@dataclass(slots=True)
class _Group:
    """An open group, or the body of a rule: its finished alternatives, and the items of the current alternative."""

    opening: Token
    alternatives: list[Node] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)
    can_be_repeated: bool = False

    def add(self, node: Node) -> None:
        """Add an item. A repetition operator may follow it."""
        self.items.append(node)
        self.can_be_repeated = True

    def close_alternative(self) -> None:
        """End the current alternative."""
        self.alternatives.append(seq(self.items))
        self.items, self.can_be_repeated = [], False

    def close(self) -> Node:
        """Close the group, and return the union of its alternatives."""
        self.close_alternative()
        return self.alternatives[0] if len(self.alternatives) == 1 else alt(self.alternatives)


def read_rules(
    text: str, limits: Limits, allow_special_tokens: bool, findings: list[Finding], xgrammar: bool = False
) -> dict[str, Rule]:
    """The rules of a grammar, by name, in source order. `xgrammar`: see `gbnf_to_grammar`.

    Raises:
        SpecError: the text is malformed, a name is undefined, or the grammar requires a token without permission.
        UnsupportedError: the text is valid, but not supported.
        LimitExceeded: groups nest deeper than `limits.depth`.
    """
    return Reader(text, limits, allow_special_tokens, findings, xgrammar).read()


class Reader:
    """The cursor over the tokens of one grammar, and the rule that is being read."""

    def __init__(
        self, text: str, limits: Limits, allow_special_tokens: bool, findings: list[Finding], xgrammar: bool
    ) -> None:
        self.text, self.limits, self.allow_special_tokens, self.findings = text, limits, allow_special_tokens, findings
        self.characters, self.is_xgrammar = Characters(text, findings, xgrammar), xgrammar
        self.tokens = tokenize(text)
        self.index = 0
        self.definitions: dict[str, Token] = {}
        self.rule = Rule("", (0, 0), RuleOptions())
        self.macros = Macros(self)

    # --- the definitions

    def read(self) -> dict[str, Rule]:
        definitions = self._find_definitions()
        out: dict[str, Rule] = {}
        for number, (name_index, body_index) in enumerate(definitions):
            bracket = self.tokens[name_index + 1] if body_index == name_index + 3 else None
            token = self.tokens[name_index]
            options = RuleOptions() if bracket is None else read_options(self.text, token.text, bracket)
            self.rule = out[token.text] = Rule(token.text, token.span, options)
            self.index = body_index
            self._read_body(definitions[number + 1][0] if number + 1 < len(definitions) else len(self.tokens) - 1)
        return out

    def _find_definitions(self) -> list[tuple[int, int]]:
        """For each rule, the indices of the token that names it and of the first token of its body."""
        out: list[tuple[int, int]] = []
        tokens = self.tokens
        for index, operator in enumerate(tokens):
            if operator.kind != "::=":
                continue
            name_index = index - 2 if index > 1 and tokens[index - 1].kind == "class" else index - 1
            token = tokens[name_index]
            if name_index < 0 or token.kind != "name" or not token.text.strip("."):
                raise self.error("::= must follow the name of a rule", operator, "write name ::= ...")
            if not token.begins_line:
                raise self.error("a rule must begin on a new line", token, "put a line break before it")
            if token.text in self.definitions:
                raise self.error(
                    f"rule {token.text!r} is defined twice",
                    token,
                    "write all its alternatives in one rule, separated by |",
                )
            self.definitions[token.text] = token
            out.append((name_index, index + 1))
        first_name_index = out[0][0] if out else 0
        if first_name_index or not out:
            self._refuse_start(tokens[0], tokens[1] if len(tokens) > 1 else tokens[0])
        return out

    def _refuse_start(self, token: Token, next_token: Token) -> None:
        """Raise the error for a grammar that begins with `token`, which does not begin a rule."""
        if token.kind == "end":
            raise self.error("the grammar has no rules", token, 'write root ::= "text"')
        hint = "define a rule with ::=" if next_token.kind == "=" else 'write root ::= "text"'
        raise self.error("a grammar begins with a rule", token, hint)

    # --- a body

    def _read_body(self, end: int) -> None:
        """Read the body of a rule. `end`: the index of the first token after it."""
        groups = [_Group(self.tokens[self.index - 1])]
        assertion_depth = 0  # the number of open groups at the beginning of the current assertion; 0: none
        while self.index < end:
            spend()
            token = self.tokens[self.index]
            self.index += 1
            if token.kind in ("(", "(="):
                if len(groups) > self.limits.depth:
                    raise LimitExceeded("depth", len(groups), self.limits.depth, place=self.location(token))
                if token.kind == "(=":
                    assertion_depth = self._begin_assertion(token, groups)
                groups.append(_Group(token))
            elif token.kind == ")":
                if len(groups) == 1:
                    raise self.error("no group is open here", token, 'write ")" to match it literally')
                node = groups.pop().close()
                if assertion_depth and len(groups) == assertion_depth:  # the node of an assertion is dropped
                    self._check_nothing_follows(end)
                else:
                    groups[-1].add(node)
            elif token.kind == "|":
                groups[-1].close_alternative()
            else:
                self._read_item(token, groups[-1])
        if len(groups) > 1:
            raise self.error("the group is never closed", groups[-1].opening, "end it with )")
        self._check_last_alternative(groups[0], end)
        self.rule.node = groups[0].close()

    def _check_last_alternative(self, group: _Group, end: int) -> None:
        """Check that the last alternative of a rule is not missing. It may be empty at the end of the grammar. Before
        another rule, an empty alternative is an error, because the name of that rule could be meant as the alternative.
        """
        last_token = self.tokens[end - 1]
        next_token = self.tokens[end]
        if next_token.kind != "end" and (last_token.kind == "|" or last_token is group.opening):
            raise self.error(
                f"{last_token.text} must be followed by an alternative before the next rule begins",
                last_token,
                'write "" for the empty text',
            )

    def _read_item(self, token: Token, group: _Group) -> None:
        match token.kind:
            case "literal":
                group.add(literal_text(self.characters.read_literal(token)))
            case "class":
                group.add(chars(self.characters.read_class(token)))
            case "name":
                self._read_name(token, group)
            case "vocabulary":
                group.add(self._read_vocabulary_token(token))
            case "*" | "+" | "?":
                self._add_repetition(token, group, *{"*": (0, None), "+": (1, None), "?": (0, 1)}[token.kind])
            case "{":
                self._add_repetition(token, group, *self._read_bounds())
            case _:
                hint = "define a rule with ::=" if token.kind == "=" else f'write "{token.text}" to match it literally'
                raise self.error(f"{token.text} has no meaning here", token, hint)

    def _add_repetition(self, token: Token, group: _Group, low: int, high: int | None) -> None:
        if not group.can_be_repeated:
            raise self.error("there is nothing to repeat", token, "write it after an item: item" + token.text)
        item = group.items.pop()
        if isinstance(item, OtherTokens) and item.min == item.max == 1:
            group.items.append(OtherTokens(item.but, low, high))
        else:
            group.items.append(repeat(item, low, high))

    def _read_bounds(self) -> tuple[int, int | None]:
        """Read the bounds between { and }. In xgrammar, -1 means no upper bound."""
        opening = self.tokens[self.index - 1]
        lower = self.take_token()
        if lower.kind == "," or not is_number(lower.text):
            raise self.error("a repetition needs a lower bound", lower, "write {0,n} for at most n")
        low = high = parse_number(lower.text)
        is_unbounded = False
        closing = self.take_token()
        if closing.kind == ",":
            upper = self.take_token()
            if upper.kind == "}" or upper.text == "-1":
                is_unbounded = True
            elif is_number(upper.text):
                high = parse_number(upper.text)
            else:
                raise self.error("the upper bound must be a number", upper, "write {m}, {m,} or {m,n}")
            closing = upper if upper.kind == "}" else self.take_token()
        if closing.kind != "}":
            raise self.error("the repetition is never closed", opening, "write {m}, {m,} or {m,n}")
        if not is_unbounded and high < low:
            span = (opening.start, closing.end)
            raise SpecError(
                "the upper bound is less than the lower bound", text=self.text, span=span, hint="write {lower,upper}"
            )
        return low, None if is_unbounded else high

    def _begin_assertion(self, token: Token, groups: Sequence[_Group]) -> int:
        """Report that the assertion has no effect. Returns the number of open groups."""
        if len(groups) > 1:
            raise self.error("an assertion is allowed only at the end of a rule, outside of groups", token)
        self.findings.append(
            Finding(
                self.location(token), "(=", "a lookahead assertion has no effect; in xgrammar it only improves speed",
                "write the following text where the rule is used",
            )
        )  # fmt: skip
        return len(groups)

    def _check_nothing_follows(self, end: int) -> None:
        if self.index < end:
            raise self.error(
                "nothing may follow an assertion in its rule", self.tokens[self.index], "write it before (="
            )

    # --- names

    def _read_name(self, token: Token, group: _Group) -> None:
        if token.text in self.definitions:
            group.add(self.make_reference(token))
        elif token.text in MACROS and self.tokens[self.index].kind == "(":
            group.add(self.macros.read(token))
        elif "." in token.text:
            self._add_dotted(token, group)
        else:
            raise self._make_undefined_error(token)

    def _add_dotted(self, token: Token, group: _Group) -> None:
        """Add names separated by dots. Each dot stands for any character."""
        pos = token.start
        for number, name in enumerate(token.text.split(".")):
            if number:
                group.add(ANY_CHAR)
            if name:
                group.add(self.make_reference(Token("name", pos, pos + len(name), name, False)))
            pos += len(name) + 1

    def make_reference(self, token: Token) -> Ref:
        """A reference to the rule that `token` names."""
        if token.text not in self.definitions:
            raise self._make_undefined_error(token)
        self.rule.references.append(token.text)
        return Ref(token.text)

    def _make_undefined_error(self, token: Token) -> SpecError:
        is_call = self.tokens[self.index].kind == "("
        close = find_closest_name(token.text, [*self.definitions, *(MACROS if is_call else ())])
        hint = f"did you mean {close!r}?" if close else f'write "{token.text}" to match it literally'
        return self.error(f"rule {token.text!r} is not defined", token, hint)

    # --- tokens of the vocabulary

    def _read_vocabulary_token(self, token: Token) -> Node:
        is_negated = token.text.startswith("!")
        name = token.text.removeprefix("!")
        content = name[1:-1]
        reference: int | str = name
        if content.startswith("["):
            digits = content[1:].removesuffix("]")
            if not content.endswith("]") or not is_number(digits) or len(digits) > MAX_DIGITS:
                raise self.error("an id is a number in brackets", token, "write <[128000]>; one token has one id")
            reference = int(digits)
        elif not content:
            raise self.error("the token has no name", token, "write <name> or <[id]>")
        return self.make_other_tokens((reference,)) if is_negated else self.make_special((reference,), token)

    def make_special(self, references: Sequence[int | str], token: Token) -> Node:
        """One of the tokens in `references`, which are names or ids. `token`: the location for errors."""
        if not self.allow_special_tokens:
            raise self.error(
                "references to tokens by name or id are not allowed in this call", token,
                "put text in quotes to match it literally; allow_special_tokens=True allows control tokens",
            )  # fmt: skip
        self.rule.has_tokens = True
        return alt([Special(reference) for reference in dict.fromkeys(references)])

    def make_other_tokens(self, references: Sequence[int | str]) -> Node:
        """One token that has text and is not in `references`."""
        self.rule.has_tokens = True
        return OtherTokens(tuple(dict.fromkeys(references)), 1, 1)

    # --- common helpers

    def take_token(self) -> Token:
        """Return the next token and move past it, but not past the end."""
        token = self.tokens[self.index]
        self.index = min(self.index + 1, len(self.tokens) - 1)
        return token

    def location(self, token: Token) -> str:
        """The line and column of a token, for messages."""
        return f"line {self._lines.line(token.start)}, column {self._lines.column(token.start)}"

    @cached_property
    def _lines(self) -> LineTable:
        return LineTable(self.text)

    def error(self, message: str, token: Token, hint: str = "") -> SpecError:
        """An error at a token."""
        return SpecError(message, text=self.text, span=token.span, hint=hint)

    def unsupported_error(self, reason: str, token: Token, hint: str = "") -> UnsupportedError:
        """The error for an unsupported part at a token."""
        return UnsupportedError(reason, pointer=self.location(token), text=self.text, span=token.span, hint=hint)
