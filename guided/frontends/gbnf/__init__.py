"""The front end for GBNF, the grammar notation of llama.cpp, and for xgrammar's EBNF. In: a text. Out: an IR grammar.

    root  ::= item+
    item  ::= "- " [^\\r\\n]+ "\\n"

How: `tokens.py` splits the text into tokens, and `rules.py` reads the rules. `characters.py` interprets literals and
classes, `macros.py` xgrammar's macros, and `options.py` its rule options. The translation is direct: a literal becomes
a `Text`, a class a `Chars`, and a rule a rule of the IR, which may be recursive. `why_empty.py` explains why a grammar
generates nothing.

One reader accepts both dialects. A construct that only one dialect accepts has the same meaning as there. Where the
dialects conflict:

- `\\x` takes two digits, as in llama.cpp; a third digit causes a warning.
- `[^]` is any character, as in xgrammar; `[]` is an error.
- `{m,n}` is exact; llama.cpp treats every n above 2000 as unbounded.
- A rule must not be defined twice, as in xgrammar; in llama.cpp, the last definition counts.

Not supported: left recursion through a long counted repetition (`root ::= root{2,300} "a" | "b"`), because the core
does not support it, and rule options that occur only in grammars that xgrammar prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from guided.close_names import find_closest_name
from guided.errors import Finding, LimitExceeded, SpecError, UnsupportedError, warn_about
from guided.frontends.common.lint_finding import LintFinding
from guided.frontends.common.rule_lint import lint_rules, reachable_rules, unused_finding
from guided.ir.nodes import ANY_CHAR, And, Grammar, Length, MaxTokens, Node, Not, Repeat, Seq
from guided.limits import Limits
from guided.meter import limit_compilation, spend

from .rules import Rule, read_rules
from .why_empty import check_not_empty

__all__ = ["gbnf_to_grammar", "is_gbnf", "lint_gbnf"]

_LARK_RULE: Final = re.compile(r"^[^\S\n]*[?!]*[A-Za-z_]\w*(?:\.-?\d+)?\s*(?:\{[^{}]*\}\s*)?:(?![:=])", re.MULTILINE)


def is_gbnf(text: str) -> bool:
    """Whether a grammar in an unknown notation is GBNF or EBNF: it contains `::=` but no Lark rule (`name: ...`).

    `::=` alone does not decide, because a Lark grammar may contain it in a literal. Cost: linear in the text.
    """
    return "::=" in text and not _LARK_RULE.search(text)


def gbnf_to_grammar(
    text: str,
    *,
    root: str = "root",
    allow_special_tokens: bool = False,
    xgrammar: bool = False,
    limits: Limits | None = None,
    findings: list[Finding] | None = None,
    refuse_empty: bool = False,
) -> Grammar:
    """The IR grammar of a GBNF text.

    Args:
        root: the start rule.
        allow_special_tokens: whether the grammar may require tokens by name or id, such as `<|call|>`. Set it to False
            for untrusted input. The grammar may exclude tokens (`!<name>`) in any case.
        xgrammar: where the dialects conflict, follow xgrammar: `\\x` takes all digits that follow, `[]` is a class
            without characters, and the flag i of `Regex` folds only ASCII letters.
        findings: receives the parts that are read but not enforced. Without it, they cause a warning.
        refuse_empty: raise an error if the grammar generates nothing.

    Raises:
        SpecError: the text is malformed, a rule is missing, or the grammar requires a token without permission.
        UnsupportedError: an option or pattern is not supported. LimitExceeded: the text, its nesting or a pattern is
            too large.
    """
    new_findings: list[Finding] = []
    limits = Limits() if limits is None else limits
    if not isinstance(text, str):
        hint = "decode it" if isinstance(text, bytes) else 'write it as text, such as root ::= "yes" | "no"'
        raise SpecError(f"a grammar is a string, not a {type(text).__name__}", hint=hint)
    if len(text) > limits.spec_length:
        raise LimitExceeded("spec_length", len(text), limits.spec_length)
    with limit_compilation(limits, work=False):
        rules = read_rules(text, limits, allow_special_tokens, new_findings, xgrammar)
    if root not in rules:
        raise _make_missing_root_error(text, root, rules)
    if refuse_empty:
        check_not_empty(text, root, rules)
    with limit_compilation(limits, work=False):
        regular_rules = set[str]()
        nodes = {name: _apply_options(text, rule, rules, regular_rules) for name, rule in rules.items()}
    origins = {name: f"{name} (line {line})" for name, line in _find_lines(text, rules)}
    if findings is None:
        warn_about(new_findings)
    else:
        findings += new_findings
    regions = {name: region for name, rule in rules.items() if (region := rule.options.region) is not None}
    return Grammar(nodes, root, origins, regions=regions)


def _make_missing_root_error(text: str, root: str, rules: Mapping[str, Rule]) -> SpecError:
    if not isinstance(root, str):
        return SpecError(f"the root is the name of a rule, not a {type(root).__name__}", hint='write root="root"')
    close = find_closest_name(root, rules)
    first = next(iter(rules.values()))
    rule = rules[close] if close else first
    hint = f"did you mean {close!r}?" if close else "root= names the start rule"
    return SpecError(f"the start rule, {root!r}, is not defined", text=text, span=rule.span, hint=hint)


def _find_lines(text: str, rules: Mapping[str, Rule]) -> list[tuple[str, int]]:
    """(name, line) of each rule. `rules` must be in the order of the text."""
    out, line, pos = [], 1, 0
    for rule in rules.values():
        line += text.count("\n", pos, rule.span[0])
        pos = rule.span[0]
        out.append((rule.name, line))
    return out


def _apply_options(text: str, rule: Rule, rules: Mapping[str, Rule], regular_rules: set[str]) -> Node:
    options, node = rule.options, rule.node
    if not options.is_regular:
        return node
    if reason := _why_not_regular(rule, rules, regular_rules):
        raise UnsupportedError(
            f"max_chars, max_tokens and lazy need a regular language, but {reason}",
            text=text, span=options.span, hint="write the repetition with * or {m,n}, without recursion",
        )  # fmt: skip
    if options.lazy:  # remove the strings that have a proper prefix in the language
        node = And((node, Not(Seq((node, Repeat(ANY_CHAR, 1, None))))))
    if options.max_chars is not None:
        node = Length(node, 0, options.max_chars)
    return node if options.max_tokens is None else MaxTokens(node, options.max_tokens)


def _why_not_regular(rule: Rule, rules: Mapping[str, Rule], regular_rules: set[str]) -> str:
    """Why the language of a rule is not regular, or "". A depth-first walk over the rules that it refers to.

    `regular_rules`: the rules that earlier walks found to be regular. They are not examined again, and this walk adds
    those that it finds.
    """
    if rule.name in regular_rules:
        return ""
    path, on_path = [rule.name], {rule.name}
    pending_references = [iter(dict.fromkeys(rule.references))]
    while path:
        spend()
        if rules[path[-1]].has_tokens:
            return f"{path[-1]!r} names tokens"
        next_rule = next(pending_references[-1], None)
        if next_rule is None:
            pending_references.pop()
            on_path.discard(path[-1])
            regular_rules.add(path.pop())
        elif next_rule in on_path:
            return f"{next_rule!r} is recursive"
        elif next_rule not in regular_rules:
            path.append(next_rule)
            on_path.add(next_rule)
            pending_references.append(iter(dict.fromkeys(rules[next_rule].references)))
    return ""


def lint_gbnf(grammar: Grammar) -> Iterator[LintFinding]:
    """Findings on the rules that generate nothing, that derive themselves, or that no output uses."""
    yield from lint_rules(grammar.rules, grammar.start, grammar.origins.__getitem__)
    used_rules = set(reachable_rules(grammar.rules, grammar.start))
    for name in grammar.rules:
        if name not in used_rules:
            yield unused_finding("rule", grammar.origins[name])
