"""Infers how a chat template writes the arguments of calls, from renderings of made-up calls.

In: a `CallRenderer`. Out: the form of the arguments, and a function that finds the arguments in a text. How: each
argument has a made-up name and value that occur nowhere else. The texts between them are compared:

    >\\n<parameter=  qza  >\\n  qzone  \\n</parameter>\\n<parameter=  qzb  >\\n  qztwo  \\n</parameter>\\n</function>

An argument begins with the common suffix of the texts before the names, and ends with the common prefix of the texts
after the values. Then the same comparison with a number, a boolean, null, an array and an object shows which types are
labelled, and which values consist of elements (element_forms.py). If strings have delimiters that numbers do not have,
the arguments are literals (literal_forms.py).

Source: the method of llama.cpp's `common/chat-diff-analyzer.cpp`, which also compares renderings.
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
_MAX_STARTS: Final = 100  # positions at which JSON may begin


class Shape(NamedTuple):
    """The form of arguments. `form` is None if they are JSON."""

    form: ArgumentForm | None

    def find_span(self, text: str, arguments: Mapping[str, Any]) -> tuple[int, int]:
        """The span of the arguments in a text that begins after the function's name.

        All values of `arguments` must be strings that occur only once in the text.

        Raises:
            UnsupportedError: the arguments cannot be found.
        """
        span = _find_json_span(text, arguments) if self.form is None else self._find_form_span(text, arguments)
        if span is None:
            raise UnsupportedError(f"the arguments cannot be found in {brief(text)}", hint=HINT)
        return span

    def _find_form_span(self, text: str, arguments: Mapping[str, Any]) -> tuple[int, int] | None:
        (first_name, *_), (last_name, last_value) = arguments, list(arguments.items())[-1]
        if isinstance(self.form, LiteralForm):
            start, end = text.find(first_name), text.find(last_value)
            return None if min(start, end) < 0 else (start, end + len(last_value) + len(self.form.quotes[0]))
        assert self.form is not None
        form, start = self.form, text.find(self.form.begin + first_name)
        closing = form.end.replace("{name}", last_name)
        end = text.find(closing, text.find(last_value) + len(last_value))
        if start < 0 or last_value not in text or end < 0:
            return None
        end += len(closing)
        return start, end + len(form.last) * text.startswith(form.last, end)


def infer_shape(renderer: CallRenderer) -> Shape:
    """The shape of a template's arguments.

    Raises:
        UnsupportedError: it cannot be inferred. GuidedError: the template cannot render the calls.
    """
    arguments = {"qza": "qzone", "qzb": "qztwo"}
    text = _render_after_name(renderer, arguments)
    if _find_json_span(text, arguments) is not None:
        return Shape(None)
    if _contains_json_string(text, arguments):
        raise UnsupportedError("the chat template writes arguments as a JSON text in a string", hint=HINT)
    text_before, assignment, text_between, second_assignment, text_after = _split_at_marks(
        text, "qza", "qzone", "qzb", "qztwo"
    )
    if assignment != second_assignment:
        raise UnsupportedError("the chat template writes the arguments of one call in different ways", hint=HINT)
    begin = _cut_to_marker(common_suffix(text_before, text_between), text_before)
    numbers = _render_after_name(renderer, {"qza": "qzone", "qzb": 90210, "qzc": "qztwo"})
    _, _, _, number_assignment, number_between = _split_at_marks(numbers, "qza", "qzone", "qzb", "90210")
    number_between = number_between.partition("qzc")[0]
    if not begin:
        return Shape(_infer_literal_form(renderer, assignment, text_between, number_assignment, number_between))
    tail = text_between[: len(text_between) - len(begin)]
    return Shape(_infer_element_form(renderer, begin, assignment, number_assignment, (text_before, tail, text_after)))


def _render_after_name(renderer: CallRenderer, arguments: Mapping[str, Any]) -> str:
    text = renderer.render_calls([("qzfirst", arguments)])
    text_before, name, text_after = text.partition("qzfirst")
    if not name:
        raise UnsupportedError("the chat template does not show the names of functions", hint=HINT)
    if arguments and any(key in text_before for key in arguments):
        raise UnsupportedError("the chat template writes the arguments before the function's name", hint=HINT)
    return text_after


def _find_json_span(text: str, value: Any) -> tuple[int, int] | None:
    """The span of a value's JSON in a text."""
    decoder, start = json.JSONDecoder(), -1
    for _ in range(_MAX_STARTS):
        start = text.find("{" if isinstance(value, Mapping) else '"', start + 1)
        if start < 0:
            return None
        try:
            found_value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if found_value == value:
            return start, end
    return None


def _contains_json_string(text: str, value: Mapping[str, Any]) -> bool:
    """Whether a text contains a value's JSON, encoded once more as a JSON string."""
    texts = (json.dumps(value), json.dumps(value, separators=(",", ":")))
    return any(_find_json_span(text, expected) is not None for expected in texts)


def _split_at_marks(text: str, *marks: str) -> list[str]:
    """The texts before, between and after the marks."""
    out, remaining_text = list[str](), text
    for mark in marks:
        text_before, match, remaining_text = remaining_text.partition(mark)
        if not match:
            raise UnsupportedError(f"the chat template does not show an argument as {brief(mark)}", hint=HINT)
        out.append(text_before)
    return [*out, remaining_text]


def _cut_to_marker(suffix: str, text: str) -> str:
    """A suffix of `text` from the first character that can begin a marker; "" if there is none."""
    for i in range(len(text) - len(suffix), len(text)):
        previous = text[i - 1] if i else " "
        if text[i] in "<[{(]" and (previous.isspace() or previous in ">)]}"):
            return text[i:]
    return ""


# --- elements


def _infer_element_form(
    renderer: CallRenderer, begin: str, assignment: str, number_assignment: str, surrounding_texts: tuple[str, str, str]
) -> ElementForm:
    """The form of arguments that are elements.

    `surrounding_texts`: the texts before the first element, after the first value, and after the last value.
    """
    text_before, tail, text_after = surrounding_texts
    tail, text_after = tail.replace("qza", "{name}"), text_after.replace("qzb", "{name}")
    end = common_prefix(tail, text_after).rstrip()
    gap, text_after_end = tail[len(end) :], text_after[len(end) :]
    if gap.strip() or not end:
        raise UnsupportedError(
            f"the end of an argument is not clear from {brief(tail)} and {brief(text_after)}", hint=HINT
        )
    on_own_lines = assignment.endswith("\n") and end.startswith("\n")
    if on_own_lines:
        assignment, number_assignment, end = assignment[:-1], number_assignment.removesuffix("\n"), end[1:]
    quote = '"' if assignment.startswith('"') and assignment != number_assignment else ""
    no_arguments = _render_after_name(renderer, {})  # shows whether the gap belongs to the last argument
    following = text_after_end.removeprefix(gap).partition(renderer.message_end or "\0")[0]
    is_after_last = text_after_end.startswith(gap) and no_arguments.startswith(
        text_before[: len(text_before) - len(begin)] + following
    )
    form = ElementForm(
        begin, quote if quote else assignment, assignment[len(quote) :] if quote else "",
        number_assignment[len(quote) :] if quote else "", end, lines=on_own_lines, separator=gap,
        last=gap if is_after_last else "",
    )  # fmt: skip
    if form.string == form.other == "" and assignment != number_assignment:
        raise UnsupportedError("the chat template labels strings in an unknown way", hint=HINT)
    return _infer_types(renderer, _infer_escapes(renderer, form))


def _infer_escapes(renderer: CallRenderer, form: ElementForm) -> ElementForm:
    """Find out how the template escapes special characters in names."""
    if not form.has_quoted_names:
        return form
    text = renderer.render_calls_or_empty([("qzfirst", {'qza&"<>z': "qzone"})])
    name = text.partition(form.begin)[2].partition("qzone")[0]
    escapes = {char: entity for char, entity in _ENTITIES.items() if entity in name}
    return form._replace(escapes=escapes) if escapes.keys() >= {"&", '"'} else form


def _infer_types(renderer: CallRenderer, form: ElementForm) -> ElementForm:
    """Find out how types are labelled, and whether objects and arrays consist of elements."""
    value_prefixes, values = dict[str, str](), dict[str, str]()
    for kind, value in _KINDS.items():
        text = renderer.render_calls_or_empty([("qzfirst", {"qza": value, "qzb": "qztwo"})])
        inside = text.partition(f"{form.begin}qza{form.after}")[2].partition(f"{form.begin}qzb")[0]
        end = inside.rfind(form.end.replace("{name}", "qza"))
        values[kind] = inside[:end] if end >= 0 else ""
    if form.is_typed:
        form, value_prefixes = _infer_labels(form, values)
    container_values = [values.get(kind, "").removeprefix(value_prefixes.get(kind, "")) for kind in ("array", "object")]
    if f"{form.begin}qzk" not in container_values[1]:
        return form  # objects are JSON
    item, _, text_after_item = container_values[0].partition("qzi")
    item_end = text_after_item.partition(item)[0] if item else ""
    if not item.endswith(form.string) or not item_end:
        return form
    item = item.removesuffix(form.string)
    if not form.repeats_names:
        return form._replace(item=item, item_end=item_end.rstrip(), around=False, between=True)
    forbidden_text = common_prefix(form.begin, form.end.partition("{name}")[0], item, item_end)
    return form._replace(item=item, item_end=item_end.rstrip(), never=forbidden_text, around=False, between=True)


def _infer_labels(form: ElementForm, values: Mapping[str, str]) -> tuple[ElementForm, dict[str, str]]:
    """Find the labels of types: the text before a value, if it differs between types. Also returns these texts."""
    value_prefixes = {kind: _find_text_before_value(kind, text, form) for kind, text in values.items() if text}
    if len(set(value_prefixes.values())) <= 1:
        return form, value_prefixes
    before = common_prefix(*value_prefixes.values())
    after = common_suffix(*value_prefixes.values())
    types = {
        kind: value_prefix[len(before) : len(value_prefix) - len(after)]
        for kind, value_prefix in value_prefixes.items()
    }
    labels = {kind: label for kind, label in types.items() if label != kind}
    return form._replace(other=f"{before}{{type}}{after}", types=labels), value_prefixes


def _find_text_before_value(kind: str, text: str, form: ElementForm) -> str:
    """The text before a value of this type, which may be written as JSON, as a Python constant, or as elements."""
    spellings = {"number": ("90210",), "boolean": ("true", "True"), "null": ("null", "None")}.get(kind)
    if spellings is not None:
        return next((text.removesuffix(value) for value in spellings if text.endswith(value)), text)
    starts = [
        start for begin in ("[" if kind == "array" else "{", form.begin.split()[0]) if (start := text.find(begin)) >= 0
    ]
    return text[: min(starts)] if starts else text


# --- literals


def _infer_literal_form(
    renderer: CallRenderer, assignment: str, separator: str, number_assignment: str, number_between: str
) -> LiteralForm:
    quote = assignment.removeprefix(number_assignment)
    comma = separator.removeprefix(quote)
    if not quote or not assignment.startswith(number_assignment) or comma != number_between or comma.strip() != ",":
        reason = f"the chat template writes an argument as {brief(f'NAME{assignment}TEXT{separator}')}"
        raise UnsupportedError(f"{reason}, which is neither JSON, an element nor a literal", hint=HINT)
    escapes = quote in ("'", '"')
    form = LiteralForm(
        tuple(dict.fromkeys((quote, *("\"'" if escapes else "")))), number_assignment, comma=comma, escapes=escapes
    )
    literals = {kind: _render_literal(renderer, value) for kind, value in _KINDS.items() if kind in ("boolean", "null")}
    for kind, spellings in (("boolean", ("true", "True")), ("null", ("null", "None"))):
        first = literals[kind] if literals[kind] in spellings else spellings[1 if escapes else 0]
        accepted_spellings = (
            (first, *(other for other in spellings if other != first))
            if not escapes or first == spellings[0]
            else (first,)
        )
        if kind == "null":
            form = form._replace(null=accepted_spellings)
        else:
            false_spellings = tuple("False" if literal == "True" else "false" for literal in accepted_spellings)
            form = form._replace(true=accepted_spellings, false=false_spellings)
    inside = _render_literal(renderer, {"qzk": 90210})
    colon = inside.partition("qzk")[2].partition("90210")[0]
    has_bare_keys = inside.startswith("{qzk")
    return form._replace(
        bare=has_bare_keys and not escapes, colon=colon if has_bare_keys else colon.lstrip("'\"") or form.colon
    )


def _render_literal(renderer: CallRenderer, value: Any) -> str:
    """The text that the template writes for an argument with this value. "" if it cannot write the value."""
    text = renderer.render_calls_or_empty([("qzfirst", {"qza": value, "qzb": "qztwo"})])
    inside = text.partition("qza")[2].rpartition("qzb")[0]
    return inside.strip(" =:,\n")
