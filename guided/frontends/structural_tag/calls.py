"""Reads tool calls back from the text of an answer while it is written.

    reader = guided.tool_style("qwen_3").reader(tools)
    for piece in pieces:                                  # text as it comes, control tokens by their names
        for call in reader.read(piece):
            print(call.index, call.name, call.arguments)  # valid JSON at any time: {"city": "Os"}

In: the pieces of an answer that satisfies the structural tag of the same style and tools. Out: calls, free text, and
reasoning. `parts` returns only what is new, in text order; each piece continues the previous piece of its kind. Cost:
linear in the answer; each call that `read` returns holds a copy of its arguments so far.

Not done: checking the text. If the text violates the structural tag, the reader returns the parts that it recognizes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias

from guided.frontends.structural_tag.argument_forms import ArgumentForm, argument_form
from guided.frontends.structural_tag.call_arguments import JsonArguments, XmlArguments
from guided.frontends.structural_tag.literal_arguments import LiteralArguments
from guided.frontends.structural_tag.literal_forms import LiteralForm
from guided.frontends.structural_tag.markup import Markup, Pattern, section_begins
from guided.frontends.structural_tag.tools import Function

__all__ = ["Call", "CallPart", "CallReader", "TextPart"]

_NAME_END: Final = "[^a-zA-Z0-9_.-]"
_CHANNEL_MODES: Final = {"text": "text", "preamble": "text", "reasoning": "reasoning"}
_CHUNK: Final = 4096  # characters that are interpreted at once; each call of a long piece copies at most this much


@dataclass(frozen=True, slots=True)
class Call:
    """A call, or the part of it that was written.

    Attributes:
        index: its number in the answer, from 0.
        name: the name of the tool.
        arguments: the JSON text of the arguments. Until the call is complete, these are the certain arguments so far; a
            string may be partial.
        complete: whether the call has ended.
        id: the id that the model wrote, such as `functions.f:0`; "": none so far. Some styles write it after the
            arguments.
    """

    index: int
    name: str
    arguments: str
    complete: bool
    id: str = ""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of the free text, or of the reasoning. `at`: its offset in the answer, in characters."""

    text: str
    reasoning: bool = False
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class CallPart:
    """A piece of a call.

    Attributes:
        index, name, id: see `Call`.
        arguments: JSON text that continues the previous piece. All pieces of a call together are its arguments.
        begins, ends: whether this is the first piece, or the last.
    """

    index: int
    name: str
    arguments: str
    begins: bool = False
    ends: bool = False
    id: str = ""


Arguments: TypeAlias = JsonArguments | XmlArguments | LiteralArguments


class _CallBegin(NamedTuple):
    function: Function
    name_offset: int  # the offset of the name in the first text; -1: it is in the rest
    rest_pattern: re.Pattern[str] | None  # the begin after its first text; None: nothing
    rest_end: re.Pattern[str]  # the end of the rest, at which numbers and identifiers are complete
    rest_end_length: int

    def match_rest(self, text: str, start: int, searched: int) -> re.Match[str] | None:
        """Match the rest at `start`. `searched`: the length of the text that is known to contain no match."""
        if self.rest_pattern is None:
            return None
        if not self.rest_end.search(text, max(start, searched - self.rest_end_length + 1)):
            return None
        return self.rest_pattern.match(text, start)


class CallReader:
    """Reads one answer.

    Args:
        style: the data of a `ToolStyle`.
        functions: those that may be called.
        reasoning: as for `ToolStyle.structural_tag`.
        begin_markers: if an answer is either text or calls, the markers with which calls begin it; otherwise empty.
        end_tokens: as for `ToolStyle.reader`.

    Attributes:
        text: the free text so far, except a part at the end that may begin a call.
        reasoning: the reasoning so far.
        calls: the calls so far. The last one may be incomplete.
        spans: for each name and each argument of the complete calls: its JSON Pointer in the list of calls, such as
            `/0/arguments/city`, and its span in the answer, in characters. Nonempty containers have none.
    """

    def __init__(
        self,
        style: Mapping[str, Any],
        functions: Sequence[Function],
        reasoning: str = "disabled",
        begin_markers: tuple[str, ...] = (),
        end_tokens: Collection[str] = (),
    ) -> None:
        self._begin_markers = begin_markers  # empty as soon as it is known whether the answer begins with one of them
        self._texts: dict[bool, list[str]] = {False: [], True: []}
        self.calls: list[Call] = []
        self._call_begins: dict[str, list[_CallBegin]] = {}  # by their first text
        self._section_call_begins: dict[str, list[_CallBegin]] = {}  # within a group of calls, by their first text
        markup, section_begin = Markup.from_style(style), style.get("section", {}).get("begin")
        for function in functions:
            for begin in markup.begins:
                call_begins = self._section_call_begins if section_begin is not None else self._call_begins
                call_begins.setdefault(begin.head(function.name), []).append(_make_call_begin(begin, function))
                if section_begin is not None and "trigger" in style:  # the first call begins the group
                    for opening in section_begins(style["section"]):
                        first_begin = begin.preceded_by(opening)
                        self._call_begins.setdefault(first_begin.head(function.name), []).append(
                            _make_call_begin(first_begin, function)
                        )
        self._end, self._end_before_token = markup.end_pattern, markup.end_pattern_before(end_tokens)
        self._id_form = markup.id_form
        self._end_length = max(len(end.text) for end in markup.ends) if markup.has_fixed_ends else 0
        self._searched_length = 0  # how much of the buffer was searched for the end of the call, or of its begin
        self._form = argument_form(markup.arguments)
        self._mode_marks, self._section_marks = _list_mode_marks(style), _list_section_marks(style)
        self._reasoning_marks = _list_reasoning_marks(style)
        self._reasoning_begin = "" if "channels" in style else style.get("reasoning", {}).get("begin", "")
        self._reasoning_is_over = False
        self._buffer, self._size = "", 0  # text that is not interpreted yet; the number of characters read so far
        self._mode, self._is_finished = _first_mode(style, reasoning), False
        self._current_arguments: Arguments | None = None  # the reader of the current call
        self._parts: list[TextPart | CallPart] = []  # the parts of the current piece
        self.spans: list[tuple[str, int, int]] = []
        self._open_begin: tuple[str, Sequence[_CallBegin]] | None = None  # of a call whose tool is not known yet
        self._arguments_start = 0  # where the arguments of the current call begin

    @property
    def text(self) -> str:
        """See the class."""
        return "".join(self._texts[False])

    @property
    def reasoning(self) -> str:
        """See the class."""
        return "".join(self._texts[True])

    @property
    def interpreted_length(self) -> int:
        """The number of characters of the answer that are known to be text, or part of a call."""
        return self._size - len(self._buffer)

    def read(self, piece: str) -> list[Call]:
        """Read the next piece, and return the calls that it began or continued."""
        changed_calls: dict[int, Call] = {}
        for part in self.parts(piece):
            if isinstance(part, CallPart):
                changed_calls[part.index] = self.calls[part.index]
        if self._current_arguments is not None:
            previous = self.calls[-1]
            self.calls[-1] = updated = replace(previous, arguments=self._current_arguments.text())
            if updated != previous or updated.index in changed_calls:
                changed_calls[updated.index] = updated
        return list(changed_calls.values())

    def parts(self, piece: str) -> list[TextPart | CallPart]:
        """Read the next piece, and return its parts in order. `calls` has the arguments of calls that have ended."""
        for start in range(0, len(piece), _CHUNK):
            chunk = piece[start : start + _CHUNK]
            self._buffer += chunk
            self._size += len(chunk)
            while self._read_next():
                pass
        if self._current_arguments is not None and (new_text := self._current_arguments.new_text(is_complete=False)):
            self._emit_call_part(new_text)
        parts, self._parts = self._parts, []
        return parts

    def finish(self) -> list[TextPart | CallPart]:
        """End the answer. If a possible beginning of a mark was held back, it is returned as text. A call of which only
        an end token is missing is complete.
        """
        self._is_finished = True
        self._end_before_end_token()
        while self._current_arguments is None and self._read_next():
            self._end_before_end_token()
        if self._current_arguments is None:
            self._emit_text(self._buffer)
            self._buffer = ""
        parts, self._parts = self._parts, []
        return parts

    def _read_next(self) -> bool:
        """Read up to the next mark, or the end of the current call. Returns whether there was one."""
        if self._begin_markers:
            return self._decide_kind()
        if self._current_arguments is not None:
            return self._read_arguments()
        if self._open_begin is not None:
            return self._begin_call(*self._open_begin)
        call_begins, marks = self._call_begins, self._mode_marks
        if self._mode == "section":
            call_begins, marks = self._section_call_begins, self._section_marks
        elif self._mode == "reasoning":  # it may contain anything but its end
            call_begins, marks = {}, self._reasoning_marks
        elif self._mode == "text" and not self._may_begin_reasoning():
            marks = {mark: mode for mark, mode in marks.items() if mark != self._reasoning_begin}
        marks = {**marks, **dict.fromkeys(call_begins, "call")}
        offset, mark = _find_first_mark(self._buffer, marks) or (len(self._buffer), "")
        if not self._is_finished and (mark_start := _find_partial_mark(self._buffer, offset, marks)) >= 0:
            offset, mark = mark_start, ""  # there is no earlier mark, and this one may continue
        if not mark:
            self._emit_text(self._buffer[:offset])
            self._buffer = self._buffer[offset:]
            return False
        self._emit_text(self._buffer[:offset])
        if marks[mark] == "call":
            self._buffer, self._searched_length = self._buffer[offset:], 0
            return self._begin_call(mark, call_begins[mark])
        self._buffer = self._buffer[offset + len(mark) :]
        self._mode = marks[mark]
        return True

    def _decide_kind(self) -> bool:
        """Decide whether an answer that is not mixed is text. Returns False if this is not known yet."""
        markers, beginning = self._begin_markers, self._buffer
        if not self._is_finished and any(mark.startswith(beginning) and mark != beginning for mark in markers):
            return False
        if not beginning.startswith(markers):
            self._call_begins, self._mode_marks = {}, {}
        self._begin_markers = ()
        return True

    def _may_begin_reasoning(self) -> bool:
        """Whether the answer so far is whitespace, so that reasoning may follow."""
        if not self._reasoning_is_over:
            rest = self._buffer.lstrip()
            has_other_text = not rest.startswith(self._reasoning_begin[: len(rest)])
            self._reasoning_is_over = bool(has_other_text or self.calls or self._texts[True])
        return not self._reasoning_is_over

    def _begin_call(self, mark: str, call_begins: Sequence[_CallBegin]) -> bool:
        """Begin the call that starts with this mark. Returns False if it is not known yet which tool is called."""
        self._open_begin, searched = (mark, call_begins), self._searched_length
        self._searched_length = len(self._buffer)
        for begin in call_begins:
            rest = begin.match_rest(self._buffer, len(mark), searched)
            if rest is not None or begin.rest_pattern is None:
                name, index = begin.function.name, len(self.calls)
                name_offset = begin.name_offset if begin.name_offset >= 0 or rest is None else rest.start("name")
                name_offset += self.interpreted_length
                self.spans.append((f"/{index}/name", name_offset, name_offset + len(name)))
                self._buffer = self._buffer[rest.end() if rest is not None else len(mark) :]
                self._open_begin, self._searched_length = None, 0
                self._arguments_start = self.interpreted_length
                self._current_arguments = _new_arguments_reader(self._form, begin.function)
                if call_begins is not self._section_call_begins.get(mark) and self._section_call_begins:
                    self._mode = "section"
                self.calls.append(Call(index, name, "{}", False, self._make_id(name, rest)))
                self._emit_call_part("", begins=True)
                return True
        return False

    def _emit_text(self, text: str) -> None:
        if text and self._mode in ("text", "reasoning"):
            part = TextPart(text, self._mode == "reasoning", self.interpreted_length)
            self._texts[part.reasoning].append(text)
            self._parts.append(part)

    def _emit_call_part(self, arguments: str, *, begins: bool = False, ends: bool = False) -> None:
        call = self.calls[-1]
        self._parts.append(CallPart(call.index, call.name, arguments, begins, ends, call.id))

    def _make_id(self, name: str, match: re.Match[str] | None) -> str:
        """The id of a call whose begin or end matches; "" if that does not determine the id."""
        if self._id_form is None or match is None:
            return ""
        groups = {key.rstrip("0123456789"): text for key, text in match.groupdict().items() if text is not None}
        return self._id_form.write({**groups, "name": name})

    def _read_arguments(self) -> bool:
        """Read arguments, and end the call if its end has been read."""
        assert self._current_arguments is not None
        rest = self._current_arguments.read(self._buffer)
        if len(rest) < len(self._buffer):
            self._searched_length = 0
        self._buffer = rest
        if not self._current_arguments.may_end:
            return False
        start = max(0, self._searched_length - self._end_length + 1) if self._end_length else 0
        end_match = self._end.search(rest, start)
        if end_match is None:
            self._searched_length = len(rest)
            return False
        self._end_call(self._current_arguments, end_match)
        return True

    def _end_before_end_token(self) -> None:
        """End the current call if only an end token is missing."""
        arguments = self._current_arguments
        if arguments is not None and arguments.may_end and (end := self._end_before_token.fullmatch(self._buffer)):
            self._end_call(arguments, end)

    def _end_call(self, arguments: Arguments, end_match: re.Match[str]) -> None:
        """End the current call, at the end that matches in the buffer."""
        call, arguments_start = self.calls[-1], self._arguments_start
        call_id = call.id or self._make_id(call.name, end_match)
        self.calls[-1] = replace(call, arguments=arguments.text(), complete=True, id=call_id)
        self.spans += [
            (f"/{call.index}/arguments{pointer}", arguments_start + start, arguments_start + end)
            for pointer, start, end in arguments.spans()
        ]
        self._emit_call_part(arguments.new_text(is_complete=True), ends=True)
        self._buffer, self._current_arguments = self._buffer[end_match.end() :], None
        self._searched_length = 0


def _make_call_begin(begin: Pattern, function: Function) -> _CallBegin:
    """Describe how the calls of a function begin."""
    rest = begin.rest(function.name)
    if rest and begin.ends_in_placeholder:  # a longer name, number or identifier may begin with this one
        rest += f"(?={_NAME_END})"
    rest_end = re.escape(begin.tail) or _NAME_END
    return _CallBegin(
        function, begin.name_offset, re.compile(rest) if rest else None, re.compile(rest_end), len(begin.tail) or 1
    )


def _new_arguments_reader(form: ArgumentForm | None, function: Function) -> Arguments:
    """The reader for the arguments of a call."""
    if form is None:
        return JsonArguments()
    return LiteralArguments(form) if isinstance(form, LiteralForm) else XmlArguments(form, function.parameters)


def _list_mode_marks(style: Mapping[str, Any]) -> dict[str, str]:
    """The strings that change the reader's mode outside groups of calls, each with the mode that follows."""
    marks: dict[str, str] = {}
    if (section := style.get("section")) is not None and "trigger" not in style:
        marks |= dict.fromkeys((section["begin"], section.get("lead", "") + section["begin"]), "section")
    if (response := style.get("response")) is not None:
        marks |= {response["begin"]: "text", response["end"]: "skip"}
    if (channels := style.get("channels")) is not None:
        marks |= {channels[name]["begin"]: mode for name, mode in _CHANNEL_MODES.items()}
        marks |= dict.fromkeys((*channels["text"]["end"], channels["separator"]), "skip")
    elif (reasoning := style.get("reasoning")) is not None:
        marks |= {reasoning["begin"]: "reasoning", reasoning["end"] + reasoning["after"]: "text"}
    return marks


def _list_reasoning_marks(style: Mapping[str, Any]) -> dict[str, str]:
    """The strings that end reasoning, each with the mode that follows."""
    if (channels := style.get("channels")) is not None:
        return dict.fromkeys((*channels["text"]["end"], *channels["reasoning"]["end"], channels["separator"]), "skip")
    reasoning = style.get("reasoning")
    return {} if reasoning is None else {reasoning["end"] + reasoning["after"]: "text"}


def _list_section_marks(style: Mapping[str, Any]) -> dict[str, str]:
    """The strings that end a group of calls."""
    section = style.get("section")
    return {} if section is None else {section["end"]: "skip" if "response" in style else "text"}


def _first_mode(style: Mapping[str, Any], reasoning: str) -> str:
    if "channels" in style:
        return "skip"
    in_reasoning = reasoning == "enabled" and style.get("reasoning", {}).get("in_prompt", False)
    return "reasoning" if in_reasoning else "text"


def _find_partial_mark(text: str, max_offset: int, marks: Mapping[str, str]) -> int:
    """The first offset, at most `max_offset`, at which the text ends within a mark; -1 if there is none."""
    max_length = max(map(len, marks), default=1) - 1
    for offset in range(max(0, len(text) - max_length), min(max_offset + 1, len(text))):
        rest = text[offset:]
        if any(len(mark) > len(rest) and mark.startswith(rest) for mark in marks):
            return offset
    return -1


def _find_first_mark(text: str, marks: Mapping[str, str]) -> tuple[int, str] | None:
    """The first complete mark in the text, and its offset. If several begin there, the longest one."""
    candidates = [(offset, -len(mark), mark) for mark in marks if (offset := text.find(mark)) >= 0]
    return (min(candidates)[0], min(candidates)[2]) if candidates else None
