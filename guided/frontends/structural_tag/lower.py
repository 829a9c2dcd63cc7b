"""Turns formats into parts of a specification (`guided.frontends.combinators`), which become one grammar.

A format has the same meaning as in xgrammar. The points that need care:

- *Free text* (`any_text`, and the text between tags) is any text in which the strings of `excludes` do not occur.
  Inside a tag, the strings in `end` do not occur either. This applies to all free text between begin and end, except
  in inner tags, which have their own ends, and in `dispatch` and `token_dispatch`.
- *Triggers and patterns*: as soon as one is complete in free text, its tag or format follows. Free text contains none.
- *at_least_one* of triggered tags: the output begins with a tag.
- *Control tokens*: free text contains none. In a string, the name of a control token stands for the token (`names`).

Cost: linear in the strings and schemas. All triggers share one automaton, whose exits lead to the text that follows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from guided.errors import Finding, SpecError, UnsupportedError, brief
from guided.frontends.combinators import (
    DeferredPart,
    DispatchPart,
    Expr,
    ReadPart,
    choice,
    optional,
    repeat,
    rule,
    rules,
    sequence,
    special,
    text,
)
from guided.frontends.common.aho_corasick import FreeText, free_text
from guided.frontends.composition import expr_to_grammar
from guided.frontends.json_schema.compile import json_schema_to_grammar
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.frontends.json_schema.simple import shortest_text_bound
from guided.frontends.json_schema.text.notation import Notation
from guided.frontends.structural_tag.arguments import lower_arguments, shortest_arguments_bound
from guided.frontends.structural_tag.element_forms import FORMS
from guided.frontends.structural_tag.embedded import ReadLark, lower_grammar, lower_regex
from guided.frontends.structural_tag.excluded import without_strings
from guided.frontends.structural_tag.formats import Format, relocate_error, without_pointers
from guided.ir.nodes import ANY_CHAR, And, Grammar, Length, MaxTokens, Node, OtherTokens, Repeat, Seq, Special, Text
from guided.limits import Limits

__all__ = ["Lowering"]

_ANY_TEXT = Repeat(ANY_CHAR, 0, None)


@dataclass(frozen=True, slots=True)
class _EnclosingTag:
    """What the enclosing tag forbids in free text: the strings or the token that end this tag."""

    strings: tuple[str, ...] = ()
    tokens: tuple[int | str, ...] = ()


_NO_TAG = _EnclosingTag()


class Lowering:
    """Lowers the formats of one structural tag.

    Args:
        names: the names of control tokens that strings may contain.
        end_names: the names of those that end an output. A rule with one is not deferred, since what may follow it
            depends on the whole grammar (`end_tokens.py`).
        allow_special_tokens: whether the structural tag may require control tokens.
        refuse_empty: whether a GBNF grammar that allows nothing raises an error. A schema that allows nothing always
            raises one.
        options: the JSON options of the structural tag.
        read_lark: reads Lark grammars.
    """

    def __init__(
        self, limits: Limits, names: Collection[str], end_names: Collection[str], allow_special_tokens: bool,
        refuse_empty: bool, options: JsonSchemaOptions, read_lark: ReadLark,
    ) -> None:  # fmt: skip
        self.limits, self.options, self.read_lark = limits, options, read_lark
        self.refuse_empty, self.allow_special_tokens = refuse_empty, allow_special_tokens
        self.end_names = frozenset(end_names)
        longest_first = sorted(filter(None, names), key=len, reverse=True)
        self.names = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self._continuations: dict[bytes, Expr] = {}

    def part(self, fmt: Format, outer_tag: _EnclosingTag = _NO_TAG) -> Expr:
        """The part of a specification that expresses a format."""
        match fmt.type:
            case "const_string":
                return self.string_part(fmt["value"], f"{fmt.pointer}/value")
            case "json_schema" | "qwen_xml_parameter":
                return self._lower_schema(fmt)
            case "any_text":
                return _as_part(self._any_text_node(fmt, outer_tag))
            case "token":
                return self._lower_token(fmt["token"], f"{fmt.pointer}/token")
            case "exclude_token":
                return _as_part(OtherTokens((*fmt["exclude_tokens"], *outer_tag.tokens), 1, 1))
            case "any_tokens":
                return _as_part(OtherTokens((*fmt["exclude_tokens"], *outer_tag.tokens), 0, fmt["max_tokens"]))
            case "grammar":
                return lower_grammar(
                    fmt, self.read_lark, allow_special_tokens=self.allow_special_tokens, refuse_empty=self.refuse_empty
                )
            case "regex":
                return lower_regex(fmt)
            case "sequence":
                return sequence(*[self.part(element, outer_tag) for element in fmt["elements"]])
            case "or":
                return choice(*[self.part(element, outer_tag) for element in fmt["elements"]])
            case "tag":
                return sequence(self._lower_marker(fmt, "begin"), self._lower_content_and_end(fmt))
            case "optional":
                return optional(self.part(fmt["content"], outer_tag))
            case "plus":
                return repeat(self.part(fmt["content"], outer_tag), 1)
            case "star":
                return repeat(self.part(fmt["content"], outer_tag))
            case "repeat":
                return self._lower_repeat(fmt, outer_tag)
            case "tags_with_separator":
                return self._lower_tags_with_separator(fmt)
            case "triggered_tags":
                return self._lower_triggered_tags(fmt, outer_tag)
            case "token_triggered_tags":
                return self._lower_token_triggered_tags(fmt, outer_tag)
            case "dispatch":
                return self._lower_dispatch(fmt)
            case "token_dispatch":
                return self._lower_token_dispatch(fmt)
        raise AssertionError(fmt.type)

    # --- strings and tokens

    def pieces(self, string: str, pointer: str) -> list[str | Special]:
        """A string, split at the control tokens that it names."""
        out: list[str | Special] = []
        offset = 0
        for match in self.names.finditer(string) if self.names else ():
            if not self.allow_special_tokens:
                raise SpecError(
                    f"the string contains the control token {brief(match[0])}, which this call does not allow",
                    pointer=pointer,
                    hint="if you trust the author, set allow_special_tokens=True: then the string stands for the token",
                )  # fmt: skip
            out += [string[offset : match.start()], Special(match[0])]
            offset = match.end()
        return [piece for piece in (*out, string[offset:]) if piece != ""]

    def has_end_token(self, *strings: str) -> bool:
        """Whether one of the strings contains a control token that ends an output."""
        names = [match[0] for string in strings for match in (self.names.finditer(string) if self.names else ())]
        return not self.end_names.isdisjoint(names)

    def string_part(self, string: str, pointer: str) -> Expr:
        """Exactly this string."""
        piece_parts = [
            text(piece) if isinstance(piece, str) else special(piece.token) for piece in self.pieces(string, pointer)
        ]
        return piece_parts[0] if len(piece_parts) == 1 else sequence(*piece_parts)

    def _lower_token(self, token: int | str, pointer: str) -> Expr:
        if not self.allow_special_tokens:
            raise SpecError(
                f"the structural tag refers to the token {brief(token)}, which this call does not allow",
                pointer=pointer, hint="use const_string for text, or set allow_special_tokens=True",
            )  # fmt: skip
        return special(token)

    # --- formats that are complete specifications

    def _lower_schema(self, fmt: Format) -> Expr:
        form = fmt.fields.get("style", FORMS["qwen_xml"])
        changes: dict[str, Any] = {}
        if fmt.fields.get("any_order"):
            changes["property_order"] = "any"
        max_whitespace = fmt.fields.get("max_whitespace_cnt")
        if max_whitespace is not None:
            changes["whitespace"] = f"[ \\t\\n\\r]{{0,{max_whitespace}}}"
        if form is not None:
            return lower_arguments(fmt, form, self, changes)
        schema, pointer = fmt["json_schema"], f"{fmt.pointer}/json_schema"
        part = self.json(schema, pointer, changes, fmt["excludes"])
        shortest_bound = None if changes or fmt["excludes"] else shortest_text_bound(schema, self.options)
        return part if shortest_bound is None else DeferredPart(part, pointer, repr(schema).encode(), shortest_bound)

    def json(self, schema: Any, pointer: str, changes: Mapping[str, Any], excludes: Sequence[str]) -> Expr:
        """The JSON of a schema, which is at `pointer`. Its strings do not contain the strings of `excludes`."""

        def read(limits: Limits, default_options: JsonSchemaOptions, findings: list[Finding]) -> Grammar:
            own_findings: list[Finding] = []
            try:
                options, make = default_options.with_changes(**changes), partial(Notation, excluded_strings=excludes)
                grammar = json_schema_to_grammar(schema, options, limits=limits, findings=own_findings, notation=make)
                grammar = without_strings(grammar, excludes, limits) if excludes else grammar
            except (SpecError, UnsupportedError) as error:
                raise relocate_error(error, pointer) from None
            findings += [replace(finding, pointer=pointer + finding.pointer) for finding in own_findings]
            return replace(
                grammar,
                origins={name: pointer + location for name, location in grammar.origins.items()},
                schemas={name: replace(schema, prefix=pointer) for name, schema in grammar.schemas.items()},
            )

        return ReadPart(read, "json_schema", schema)

    # --- free text

    def _any_text_node(self, fmt: Format, outer_tag: _EnclosingTag) -> Node:
        strings, max_chars = (*fmt["excludes"], *outer_tag.strings), fmt["max_chars"]
        node: Node = free_text([], strings, limits=self.limits).without_markers if strings else _ANY_TEXT
        if max_chars is not None:
            node = Length(node, 0, max_chars) if strings else Repeat(ANY_CHAR, 0, max_chars)
        return node if fmt["max_tokens"] is None else MaxTokens(node, fmt["max_tokens"])

    def _lower_repeat(self, fmt: Format, outer_tag: _EnclosingTag) -> Expr:
        low, high = fmt["min"], None if fmt["max"] == -1 else fmt["max"]
        if high is not None and high < low:
            raise SpecError(
                f'"max" is {high}, but "min" is {low}', pointer=f"{fmt.pointer}/max", hint="-1 means unbounded"
            )
        return repeat(self.part(fmt["content"], outer_tag), low, high)

    # --- tags

    def _lower_marker(self, tag: Format, side: Literal["begin", "end"]) -> Expr:
        """The begin or the end of a tag: a token, or one of some strings."""
        marker = tag[side]
        if isinstance(marker, Format):
            return self.part(marker)
        return choice(*[self.string_part(string, f"{tag.pointer}/{side}") for string in dict.fromkeys(marker)])

    def _lower_content_and_end(self, tag: Format) -> Expr:
        """The content and the end of a tag, as a separate rule. Tags whose content and end are equal share it."""
        key = repr(without_pointers((tag["content"], tag["end"], self.allow_special_tokens))).encode()
        if key not in self._continuations:
            self._continuations[key] = self._lower_new_content_and_end(tag, key)
        return self._continuations[key]

    def _lower_new_content_and_end(self, tag: Format, key: bytes) -> Expr:
        end, closing = tag["end"], self._lower_marker(tag, "end")
        if isinstance(end, Format):
            outer_tag = _EnclosingTag((), (end["token"],))
        else:
            outer_tag = _EnclosingTag(tuple(filter(None, end)))
        name, content = tag.pointer or "/", tag["content"]
        can_defer = not isinstance(end, Format) and not self.has_end_token(*end)
        shortest_bound = shortest_arguments_bound(content, self) if can_defer else None
        if shortest_bound is None:
            return rules(rule(name), **{name: sequence(self.part(content, outer_tag), closing)})

        def read(limits: Limits, default_options: JsonSchemaOptions, findings: list[Finding]) -> Grammar:
            return expr_to_grammar(
                sequence(self.part(content, outer_tag), closing), limits, findings, options=default_options
            )

        return DeferredPart(ReadPart(read), name, key, shortest_bound + sum(len(marker.encode()) for marker in end))

    def _lower_tags_with_separator(self, fmt: Format) -> Expr:
        any_tag = choice(*[self.part(tag) for tag in fmt["tags"]])
        separator = self.string_part(fmt["separator"], f"{fmt.pointer}/separator")
        tags = any_tag if fmt["stop_after_first"] else sequence(any_tag, repeat(sequence(separator, any_tag)))
        return tags if fmt["at_least_one"] else optional(tags)

    def _lower_triggered_tags(self, fmt: Format, outer_tag: _EnclosingTag) -> Expr:
        triggers: Sequence[str] = fmt["triggers"]
        tags_by_trigger: dict[str, list[tuple[str, str, Expr]]] = {trigger: [] for trigger in triggers}
        lengths = sorted({len(trigger) for trigger in triggers})
        for tag in fmt["tags"]:
            begins, pointer, continuation = tag["begin"], f"{tag.pointer}/begin", self._lower_content_and_end(tag)
            if isinstance(begins, Format):
                raise SpecError(
                    "the begin of a triggered tag must be a string", pointer=pointer, hint="use token_triggered_tags"
                )
            for begin in dict.fromkeys(begins):
                matches = [begin[:size] for size in lengths if size <= len(begin) and begin[:size] in tags_by_trigger]
                if len(matches) != 1:
                    problem = (
                        f"the triggers {matches} are all prefixes of it" if matches else "no trigger is a prefix of it"
                    )
                    raise SpecError(
                        f"{brief(begin)}: {problem}", pointer=pointer, hint="each tag begins with exactly one trigger"
                    )
                tags_by_trigger[matches[0]].append((begin, pointer, continuation))
        for number, trigger in enumerate(triggers):
            if not tags_by_trigger[trigger]:
                raise SpecError(
                    f"no tag begins with the trigger {brief(trigger)}", pointer=f"{fmt.pointer}/triggers/{number}",
                    hint="remove it; put strings that must not occur into excludes",
                )  # fmt: skip
        tag_parts = list(tags_by_trigger.items())
        excludes = (*fmt["excludes"], *outer_tag.strings)
        free_part, text_and_tag = self._free_text_and_tags(tag_parts, excludes, f"{fmt.pointer}/triggers")
        first_tag = choice(*[sequence(self.string_part(*tag[:2]), tag[2]) for _, tags in tag_parts for tag in tags])
        return _arrange(free_part, text_and_tag, first_tag, fmt)

    def _free_text_and_tags(
        self,
        tag_parts: Sequence[tuple[str, Sequence[tuple[str, str, Expr]]]],
        excluded_strings: Sequence[str],
        triggers_pointer: str,
    ) -> tuple[Expr, Expr]:
        """Free text without triggers, and free text followed by a trigger and one of its tags.

        If a control token in the begin of a tag starts within the trigger, it takes the role of the trigger.
        """
        ends: list[str] = []
        end_continuations: list[Expr] = []
        continuations_by_text: dict[str, list[Expr]] = {}  # by the text before that control token
        for trigger, tags in tag_parts:
            continuations: list[Expr] = []
            for begin, pointer, continuation in tags:
                first, *_ = (*self.pieces(begin, pointer), "")
                text_before = first if isinstance(first, str) else ""
                if len(trigger) <= len(text_before) or text_before == begin:
                    continuations.append(sequence(self.string_part(begin[len(trigger) :], pointer), continuation))
                else:
                    continuations_by_text.setdefault(text_before, []).append(
                        sequence(self.string_part(begin[len(text_before) :], pointer), continuation)
                    )
            if continuations:
                ends.append(trigger)
                end_continuations.append(choice(*continuations))
            else:
                excluded_strings = (*excluded_strings, trigger)
        texts = free_text(ends, excluded_strings, limits=self.limits)
        self._check_reachable(texts, ends, triggers_pointer)
        parts: list[Expr] = [DispatchPart(texts, tuple(end_continuations))] if ends else []
        for text_before, continuations in continuations_by_text.items():
            parts.append(sequence(_as_part(_ending_with(texts.without_markers, text_before)), choice(*continuations)))
        return _as_part(texts.without_markers), choice(*parts)

    def _check_reachable(self, texts: FreeText, ends: Sequence[str], pointer: str) -> None:
        for number in texts.unreachable:
            raise SpecError(
                f"{brief(ends[number])} can never be complete: it contains another of these strings",
                pointer=pointer, hint="change the strings so that none contains another",
            )  # fmt: skip

    def _lower_dispatch(self, fmt: Format) -> Expr:
        tag_parts = [
            (pattern, [(pattern, f"{fmt.pointer}/rules/{number}/0", self.part(content))])
            for number, (pattern, content) in enumerate(fmt["rules"])
        ]
        free_part, text_and_tag = self._free_text_and_tags(tag_parts, fmt["excludes"], f"{fmt.pointer}/rules")
        return sequence(repeat(text_and_tag), free_part) if fmt["loop"] else choice(free_part, text_and_tag)

    # --- triggers that are tokens

    def _lower_token_triggered_tags(self, fmt: Format, outer_tag: _EnclosingTag) -> Expr:
        triggers = fmt["trigger_tokens"]
        tags = []
        for tag in fmt["tags"]:
            begin, pointer = tag["begin"], f"{tag.pointer}/begin"
            if not isinstance(begin, Format):
                raise SpecError(
                    "a tag must begin with a token here", pointer=pointer, hint='write {"type": "token", "token": ...}'
                )
            if begin["token"] not in triggers:
                raise SpecError(
                    f"{brief(begin['token'])} is not a trigger token", pointer=pointer, hint="add it to trigger_tokens"
                )
            tags.append(self.part(tag))
        begin_tokens = {tag["begin"]["token"] for tag in fmt["tags"]}
        for number, trigger in enumerate(triggers):
            if trigger not in begin_tokens:
                raise SpecError(
                    f"no tag begins with the token {brief(trigger)}",
                    pointer=f"{fmt.pointer}/trigger_tokens/{number}",
                    hint="remove it, or move it to exclude_tokens",
                )
        free_part = _as_part(OtherTokens((*triggers, *fmt["exclude_tokens"], *outer_tag.tokens), 0, None))
        any_tag = choice(*tags)
        return _arrange(free_part, sequence(free_part, any_tag), any_tag, fmt)

    def _lower_token_dispatch(self, fmt: Format) -> Expr:
        patterns = [pattern for pattern, _ in fmt["rules"]]
        free_part = _as_part(OtherTokens((*patterns, *fmt["exclude_tokens"]), 0, None))
        formats = [
            sequence(self._lower_token(pattern, f"{fmt.pointer}/rules/{number}/0"), self.part(content))
            for number, (pattern, content) in enumerate(fmt["rules"])
        ]
        text_and_tag = sequence(free_part, choice(*formats))
        return sequence(repeat(text_and_tag), free_part) if fmt["loop"] else choice(free_part, text_and_tag)


def _arrange(free_part: Expr, text_and_tag: Expr, first_tag: Expr, fmt: Format) -> Expr:
    """Free text and tags, in the order that `at_least_one` and `stop_after_first` require."""
    if fmt["stop_after_first"]:
        return first_tag if fmt["at_least_one"] else choice(free_part, text_and_tag)
    repeated = sequence(repeat(text_and_tag), free_part)
    return sequence(first_tag, repeated) if fmt["at_least_one"] else repeated


def _ending_with(node: Node, end: str) -> Node:
    return And((node, Seq((_ANY_TEXT, Text(end))))) if end else node


def _as_part(node: Node) -> Expr:
    return ReadPart(lambda *_: node)
