"""Infers how a chat template writes the arguments of calls, from what it renders.

In: a `CallRenderer`. Out: the form of the arguments, and a function that finds them in a text. How: each argument has a
made-up name and value that occur nowhere else. The texts between them are compared:

    >\\n<parameter=  qza  >\\n  qzone  \\n</parameter>\\n<parameter=  qzb  >\\n  qztwo  \\n</parameter>\\n</function>
    b = the common suffix of the texts before the names; e = the common prefix of the texts after the values

Then the same texts for a number, a boolean, null, an array and an object show which types are labelled, and which
values consist of elements. If strings have delimiters that numbers do not have, the arguments are literals.

Source: the method is that of llama.cpp's `common/chat-diff-analyzer.cpp`, which compares renderings, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from guided.chat.call_probes import HINT, CallRenderer, common_prefix, common_suffix
from guided.errors import UnsupportedError, brief
from guided.frontends.structural_tag.argument_forms import ArgumentForm
from guided.frontends.structural_tag.element_forms import ElementForm
from guided.frontends.structural_tag.literal_forms import LiteralForm

__all__ = ["Shape", "infer_shape"]

_KINDS: Final[Mapping[str, Any]] = {
    "number": 90210, "boolean": True, "null": None, "array": ["qzi", "qzj"], "object": {"qzk": "qzv"},
}  # fmt: skip
_ENTITIES: Final = {"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;"}
_MAX_STARTS: Final = 100  # places at which JSON may begin


class Shape(NamedTuple):
    """The form of arguments; None: JSON."""

    form: ArgumentForm | None

    def span(self, text: str, arguments: Mapping[str, Any]) -> tuple[int, int]:
        """The span of the arguments in a text that begins after the function's name. All values are strings that occur
        once.

        Raises:
            UnsupportedError: they cannot be found.
        """
        span = _json_span(text, arguments) if self.form is None else self._form_span(text, arguments)
        if span is None:
            raise UnsupportedError(f"the arguments cannot be found in {brief(text)}", hint=HINT)
        return span

    def _form_span(self, text: str, arguments: Mapping[str, Any]) -> tuple[int, int] | None:
        (first, *_), (last, value) = arguments, list(arguments.items())[-1]
        if isinstance(self.form, LiteralForm):
            start, end = text.find(first), text.find(value)
            return None if min(start, end) < 0 else (start, end + len(value) + len(self.form.quotes[0]))
        assert self.form is not None
        form, start = self.form, text.find(self.form.begin + first)
        closing = form.end.replace("{name}", last)
        end = text.find(closing, text.find(value) + len(value))
        if start < 0 or value not in text or end < 0:
            return None
        end += len(closing)
        return start, end + len(form.last) * text.startswith(form.last, end)


def infer_shape(renderer: CallRenderer) -> Shape:
    """The shape of a template's arguments.

    Raises:
        UnsupportedError: it cannot be inferred. GuidedError: the template cannot render the calls.
    """
    arguments = {"qza": "qzone", "qzb": "qztwo"}
    text = _after_name(renderer, arguments)
    if _json_span(text, arguments) is not None:
        return Shape(None)
    if _has_json_string(text, arguments):
        raise UnsupportedError("the chat template writes arguments as a JSON text in a string", hint=HINT)
    before, assign, between, assign_again, after = _split(text, "qza", "qzone", "qzb", "qztwo")
    if assign != assign_again:
        raise UnsupportedError("the chat template writes the arguments of one call in different ways", hint=HINT)
    begin = _from_marker(common_suffix(before, between), before)
    numbers = _after_name(renderer, {"qza": "qzone", "qzb": 90210, "qzc": "qztwo"})
    _, _, _, number_assign, number_between = _split(numbers, "qza", "qzone", "qzb", "90210")
    number_between = number_between.partition("qzc")[0]
    if not begin:
        return Shape(_literal_form(renderer, assign, between, number_assign, number_between))
    tail = between[: len(between) - len(begin)]
    return Shape(_element_form(renderer, begin, assign, number_assign, (before, tail, after)))


def _after_name(renderer: CallRenderer, arguments: Mapping[str, Any]) -> str:
    text = renderer.render_calls([("qzfirst", arguments)])
    before, name, after = text.partition("qzfirst")
    if not name:
        raise UnsupportedError("the chat template does not show the names of functions", hint=HINT)
    if arguments and any(key in before for key in arguments):
        raise UnsupportedError("the chat template writes the arguments before the function's name", hint=HINT)
    return after


def _json_span(text: str, value: Any) -> tuple[int, int] | None:
    """The span of the JSON of a value in a text."""
    decoder, at = json.JSONDecoder(), -1
    for _ in range(_MAX_STARTS):
        at = text.find("{" if isinstance(value, Mapping) else '"', at + 1)
        if at < 0:
            return None
        try:
            decoded, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if decoded == value:
            return at, end
    return None


def _has_json_string(text: str, value: Mapping[str, Any]) -> bool:
    """Whether a text contains the JSON of a value as a JSON string."""
    texts = (json.dumps(value), json.dumps(value, separators=(",", ":")))
    return any(_json_span(text, expected) is not None for expected in texts)


def _split(text: str, *marks: str) -> list[str]:
    """The texts before, between and after the marks."""
    out, rest = list[str](), text
    for mark in marks:
        before, match, rest = rest.partition(mark)
        if not match:
            raise UnsupportedError(f"the chat template does not show an argument as {brief(mark)}", hint=HINT)
        out.append(before)
    return [*out, rest]


def _from_marker(end: str, text: str) -> str:
    """The part of the suffix `end` of a text from the first character that can begin a marker. "" if there is none."""
    for at in range(len(text) - len(end), len(text)):
        before = text[at - 1] if at else " "
        if text[at] in "<[{(]" and (before.isspace() or before in ">)]}"):
            return text[at:]
    return ""


# --- elements


def _element_form(
    renderer: CallRenderer, begin: str, assign: str, number_assign: str, surrounding_texts: tuple[str, str, str]
) -> ElementForm:
    """The form of elements.

    `surrounding_texts`: the texts before the first element, after the first value, and after the last value.
    """
    before, tail, after = surrounding_texts
    tail, after = tail.replace("qza", "{name}"), after.replace("qzb", "{name}")
    end = common_prefix(tail, after).rstrip()
    gap, rest = tail[len(end) :], after[len(end) :]
    if gap.strip() or not end:
        raise UnsupportedError(f"the end of an argument is not clear from {brief(tail)} and {brief(after)}", hint=HINT)
    on_own_lines = assign.endswith("\n") and end.startswith("\n")
    if on_own_lines:
        assign, number_assign, end = assign[:-1], number_assign.removesuffix("\n"), end[1:]
    quoted = '"' if assign.startswith('"') and assign != number_assign else ""
    no_arguments = _after_name(renderer, {})  # then nothing is written for a last argument
    following = rest.removeprefix(gap).partition(renderer.message_end or "\0")[0]
    is_after_last = rest.startswith(gap) and no_arguments.startswith(before[: len(before) - len(begin)] + following)
    form = ElementForm(
        begin, quoted if quoted else assign, assign[len(quoted) :] if quoted else "",
        number_assign[len(quoted) :] if quoted else "", end, lines=on_own_lines, separator=gap,
        last=gap if is_after_last else "",
    )  # fmt: skip
    if form.string == form.other == "" and assign != number_assign:
        raise UnsupportedError("the chat template labels strings in an unknown way", hint=HINT)
    return _with_types(renderer, _with_escapes(renderer, form))


def _with_escapes(renderer: CallRenderer, form: ElementForm) -> ElementForm:
    """Find out how the template escapes special characters in names."""
    if not form.has_quoted_names:
        return form
    text = renderer.render_calls_or_empty([("qzfirst", {'qza&"<>z': "qzone"})])
    name = text.partition(form.begin)[2].partition("qzone")[0]
    escapes = {char: entity for char, entity in _ENTITIES.items() if entity in name}
    return form._replace(escapes=escapes) if escapes.keys() >= {"&", '"'} else form


def _with_types(renderer: CallRenderer, form: ElementForm) -> ElementForm:
    """Find out how types are labelled, and whether objects and arrays consist of elements."""
    heads, values = dict[str, str](), dict[str, str]()
    for kind, value in _KINDS.items():
        text = renderer.render_calls_or_empty([("qzfirst", {"qza": value, "qzb": "qztwo"})])
        inside = text.partition(f"{form.begin}qza{form.after}")[2].partition(f"{form.begin}qzb")[0]
        end = inside.rfind(form.end.replace("{name}", "qza"))
        values[kind] = inside[:end] if end >= 0 else ""
    if form.is_typed:
        form, heads = _with_labels(form, values)
    nested = [values.get(kind, "").removeprefix(heads.get(kind, "")) for kind in ("array", "object")]
    if f"{form.begin}qzk" not in nested[1]:
        return form  # objects are JSON
    item, _, rest = nested[0].partition("qzi")
    item_end = rest.partition(item)[0] if item else ""
    if not item.endswith(form.string) or not item_end:
        return form
    item = item.removesuffix(form.string)
    if not form.repeats_names:
        return form._replace(item=item, item_end=item_end.rstrip(), around=False, between=True)
    never = common_prefix(form.begin, form.end.partition("{name}")[0], item, item_end)
    return form._replace(item=item, item_end=item_end.rstrip(), never=never, around=False, between=True)


def _with_labels(form: ElementForm, values: Mapping[str, str]) -> tuple[ElementForm, dict[str, str]]:
    """Find the labels of types: the text before a value, if it differs between types. Also returns these texts."""
    heads = {kind: _before_value(kind, text, form) for kind, text in values.items() if text}
    if len(set(heads.values())) <= 1:
        return form, heads
    first = common_prefix(*heads.values())
    last = common_suffix(*heads.values())
    types = {kind: head[len(first) : len(head) - len(last)] for kind, head in heads.items()}
    labels = {kind: label for kind, label in types.items() if label != kind}
    return form._replace(other=f"{first}{{type}}{last}", types=labels), heads


def _before_value(kind: str, text: str, form: ElementForm) -> str:
    """The text before the value of a type: as JSON, as a constant of Python, or as elements."""
    last = {"number": ("90210",), "boolean": ("true", "True"), "null": ("null", "None")}.get(kind)
    if last is not None:
        return next((text.removesuffix(value) for value in last if text.endswith(value)), text)
    starts = [at for begin in ("[" if kind == "array" else "{", form.begin.split()[0]) if (at := text.find(begin)) >= 0]
    return text[: min(starts)] if starts else text


# --- literals


def _literal_form(
    renderer: CallRenderer, assign: str, between: str, number_assign: str, number_between: str
) -> LiteralForm:
    quote = assign.removeprefix(number_assign)
    comma = between.removeprefix(quote)
    if not quote or not assign.startswith(number_assign) or comma != number_between or comma.strip() != ",":
        reason = f"the chat template writes an argument as {brief(f'NAME{assign}TEXT{between}')}"
        raise UnsupportedError(f"{reason}, which is neither JSON, an element nor a literal", hint=HINT)
    escapes = quote in ("'", '"')
    form = LiteralForm(
        tuple(dict.fromkeys((quote, *("\"'" if escapes else "")))), number_assign, comma=comma, escapes=escapes
    )
    literals = {kind: _literal_value(renderer, value) for kind, value in _KINDS.items() if kind in ("boolean", "null")}
    for kind, spellings in (("boolean", ("true", "True")), ("null", ("null", "None"))):
        first = literals[kind] if literals[kind] in spellings else spellings[1 if escapes else 0]
        both = (
            (first, *(other for other in spellings if other != first))
            if not escapes or first == spellings[0]
            else (first,)
        )
        if kind == "null":
            form = form._replace(null=both)
        else:
            falses = tuple("False" if literal == "True" else "false" for literal in both)
            form = form._replace(true=both, false=falses)
    inside = _literal_value(renderer, {"qzk": 90210})
    colon = inside.partition("qzk")[2].partition("90210")[0]
    bare = inside.startswith("{qzk")
    return form._replace(bare=bare and not escapes, colon=colon if bare else colon.lstrip("'\"") or form.colon)


def _literal_value(renderer: CallRenderer, value: Any) -> str:
    """A value as the template writes it as an argument. "" if the template cannot write it."""
    text = renderer.render_calls_or_empty([("qzfirst", {"qza": value, "qzb": "qztwo"})])
    inside = text.partition("qza")[2].rpartition("qzb")[0]
    return inside.strip(" =:,\n")
