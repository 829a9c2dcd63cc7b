"""Lark's LALR parser with its contextual lexer, as a judge of grammars with a lexer.

Two refinements make it decide by the grammar instead of its tables:
 - Lark silently resolves shift/reduce conflicts. `lalr` returns no parser for a grammar with a conflict.
 - An LALR(1) table may list a terminal that cannot follow, because states were merged. Lark's contextual lexer tries
   such a terminal, too, and then fails. `parses_in_exact_contexts` uses the same lexer and the same parser, but asks
   the parser which terminals it can really shift.

`Sequences` needs no parser: it enumerates the sequences of terminals that rules generate, for rules that LALR refuses.
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from functools import cache
from unittest.mock import patch

import lark
from lark.lexer import BasicLexer, LexerState
from lark.parsers.lalr_analysis import LALR_Analyzer
from lark.utils import TextSlice


def load(text, **options):
    """Lark's parser for a grammar.

    If interegular is installed, Lark searches for terminals that collide, only to log them. For terminals with most
    characters of Unicode this takes minutes, so it is disabled.
    """
    with patch("lark.lexer.has_interegular", False):
        return lark.Lark(text, **options)


def lalr(text, lexer="contextual", **options):
    """Lark's LALR parser with this lexer, or None if there is a conflict, or Lark refuses the grammar."""
    try:
        parser = load(text, parser="lalr", lexer=lexer, **options)
        LALR_Analyzer(parser.parser.parser_conf, strict=True).compute_lalr()
    except lark.exceptions.LarkError:
        return None
    return parser


def parses(parser, text):
    """Whether Lark parses the text. Its indenter raises other errors if brackets or newlines are misplaced."""
    try:
        parser.parse(text)
    except (lark.exceptions.LarkError, AssertionError, IndexError):
        return False
    return True


def reasons_of(grammar, relaxed):
    """A function that says why only another judge accepts a text, or None if the reason is unknown.

    `relaxed`: a reason -> replacements in the grammar that make it accept what the judge accepts.
    """

    @cache
    def parser(*reasons):
        text = grammar
        for reason in reasons:
            for old, new in relaxed[reason]:
                assert old in text, (reason, old)
                text = text.replace(old, new)
        return load(text, parser="earley", lexer="basic")

    def reason_for(text):
        for reasons in [*((reason,) for reason in relaxed), tuple(relaxed)]:
            try:
                parser(*reasons).parse(text)
            except lark.exceptions.LarkError:
                continue
            return reasons[0] if len(reasons) == 1 else "several of these"
        return None

    return reason_for


def parses_in_exact_contexts(parser, text):
    """See the head."""
    interactive, postlex = parser.parse_interactive(text), parser.options.postlex
    always = set(postlex.always_accept) if postlex else set()
    found = tokens(parser, text, lambda: interactive.accepts() | always)
    try:
        for token in postlex.process(found) if postlex else found:
            interactive.feed_token(token)
        interactive.feed_eof()
    except (lark.exceptions.LarkError, AssertionError, IndexError):
        return False
    return True


def tokens(parser, text, tried):
    """The tokens that Lark's lexer finds in the text. `tried()`: the names of the terminals that it tries next."""
    state = LexerState(TextSlice.cast_from(text))
    with suppress(EOFError):
        while True:
            names = tried() | set(parser.lexer_conf.ignore)
            conf = copy(parser.lexer_conf)
            conf.terminals = [each for each in conf.terminals if each.name in names]
            conf.skip_validation = True
            yield BasicLexer(conf).next_token(state, None)


class Sequences:
    """The sequences of at most `most` terminals that the rules of a grammar generate, and the prefixes of all
    sequences.
    """

    def __init__(self, text, most):
        self.parser, self.most = load(text, parser="earley", lexer="basic"), most
        self.whole = {rule.origin: set() for rule in self.parser.rules}
        self.begun = {rule.origin: set() for rule in self.parser.rules}
        self.alive = {rule.origin for rule in self.parser.rules} - idle_rules(self.parser)
        while self.grows(self.whole, self.wholes) or self.grows(self.begun, self.beginnings):
            pass

    def grows(self, found, of_rule):
        before = sum(map(len, found.values()))
        for rule in self.parser.rules:
            if all(symbol.is_term or symbol in self.alive for symbol in rule.expansion):
                found[rule.origin] |= of_rule(rule.expansion)
        return sum(map(len, found.values())) > before

    def wholes(self, symbols):
        out = {()}
        for symbol in symbols:
            out = self.joined(out, {(symbol.name,)} if symbol.is_term else self.whole[symbol])
        return out

    def beginnings(self, symbols):
        out = {()}
        for at, symbol in enumerate(symbols):
            out |= self.joined(self.wholes(symbols[:at]), {(symbol.name,)} if symbol.is_term else self.begun[symbol])
        return out

    def joined(self, first, second):
        return {a + b for a in first for b in second if len(a) + len(b) <= self.most}

    def parses(self, text):
        """Whether the contextual lexer and the rules accept the text, which has at most `most` characters."""
        assert len(text) <= self.most
        start = next(rule.origin for rule in self.parser.rules if rule.origin.name == "start")
        read, names = [], {each.name for each in self.parser.terminals}
        try:
            for token in tokens(self.parser, text, lambda: {n for n in names if (*read, n) in self.begun[start]}):
                read.append(token.type)
        except lark.exceptions.LarkError:
            return False
        return tuple(read) in self.whole[start]


def idle_rules(parser):
    """The rules that generate nothing. Lark's tables have their terminals, although no text can continue with them."""
    productive = set()
    while True:
        found = {
            rule.origin
            for rule in parser.rules
            if all(symbol.is_term or symbol in productive for symbol in rule.expansion)
        }
        if found <= productive:
            return {rule.origin for rule in parser.rules} - productive
        productive |= found
