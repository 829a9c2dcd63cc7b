"""What was called: the text of an answer is read back while it is written.

    reader = guided.tool_style("qwen_3").reader(tools)
    for piece in pieces:                                  # text as it comes, control tokens by their names
        for call in reader.read(piece):
            print(call.index, call.name, call.arguments)  # valid JSON at any time: {"city": "Os"}

In: the pieces of an answer that satisfies the structural tag of the same style and tools. Out: calls, free text, and
reasoning. Cost: linear in the answer, and for each piece in the arguments of the call that is being written.

What it does not do: check. Of a text that does not satisfy the structural tag, it reads what it understands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from guided.spec.structural_tag.arguments import ELEMENTS, Element, is_json, kinds_of, shared_definitions
from guided.spec.structural_tag.partial_json import completed_json, json_end
from guided.spec.structural_tag.tools import Function

__all__ = ["Call", "CallReader"]


@dataclass(frozen=True, slots=True)
class Call:
    """A call, or the part of it that was written.

    Attributes:
        index: its number in the answer, from 0.
        name: of the tool.
        arguments: JSON text: of all arguments, or of those that are sure so far, with strings as far as they go.
        complete: whether the call has ended.
    """

    index: int
    name: str
    arguments: str
    complete: bool


class _Begin(NamedTuple):
    head: str
    tail: str  # after a number, if there is one
    function: Function


class CallReader:
    """Reads one answer.

    Attributes:
        text: the free text so far, without a part at the end that may begin a call.
        reasoning: the reasoning so far.
        calls: the calls so far, the last of which may not be complete.
    """

    def __init__(self, style: Mapping[str, Any], functions: Sequence[Function], reasoning: str = "disabled") -> None:
        self.text = self.reasoning = ""
        self.calls: list[Call] = []
        call = style["call"]
        begins = [call["begin"]] if isinstance(call["begin"], str) else call["begin"]
        self._begins: dict[str, _Begin] = {}
        for function in functions:
            for begin in begins:
                head, _, tail = begin.replace("{name}", function.name).partition("{index}")
                self._begins[head] = _Begin(head, tail, function)
        self._end: str = call["end"]
        self._element = ELEMENTS.get(call["arguments"])
        self._marks = _marks(style)
        self._buffer = ""
        self._reads = _reads_first(style, reasoning)
        self._current: tuple[_Begin, int] | None = None  # the call that is written, where its arguments begin

    def read(self, piece: str) -> list[Call]:
        """Read the next piece, and return the calls that it began or continued."""
        self._buffer += piece
        changed: dict[int, Call] = {}
        while self._step():
            if self.calls and self._current is None and self.calls[-1].complete:
                changed[self.calls[-1].index] = self.calls[-1]
        if self._current is not None:
            before = self.calls[-1]
            self.calls[-1] = now = self._partial()
            if now != before or now.index not in changed:
                changed[now.index] = now
        return list(changed.values())

    def _step(self) -> bool:
        """Go on as far as the next mark; whether there was one."""
        if self._current is not None:
            return self._close()
        marks = {**self._marks, **dict.fromkeys(self._begins, "call")}
        found = _first(self._buffer, marks)
        if found is None:
            keep = _kept(self._buffer, marks)
            self._emit(self._buffer[: len(self._buffer) - keep])
            self._buffer = self._buffer[len(self._buffer) - keep :]
            return False
        at, mark = found
        if marks[mark] == "call":
            begin = self._begins[mark]
            number = (
                re.compile("[0-9]+" + re.escape(begin.tail)).match(self._buffer, at + len(mark)) if begin.tail else None
            )
            if begin.tail and number is None:
                self._emit(self._buffer[:at])
                self._buffer = self._buffer[at:]
                return False
            self._emit(self._buffer[:at])
            self._buffer = self._buffer[at:]
            self._current = begin, (number.end() - at if number else len(mark))
            self.calls.append(Call(len(self.calls), begin.function.name, "{}", False))
            return True
        self._emit(self._buffer[:at])
        self._buffer = self._buffer[at + len(mark) :]
        self._reads = marks[mark]
        return True

    def _emit(self, text: str) -> None:
        if self._reads == "text":
            self.text += text
        elif self._reads == "reasoning":
            self.reasoning += text

    def _close(self) -> bool:
        """End the call, if it has ended."""
        assert self._current is not None
        begin, start = self._current
        if self._element is None:
            stop = json_end(self._buffer, start)
            text = self._buffer[start:stop]
        else:
            stop, values = self._values(start)
            text = _object(values)
        end = self._buffer.find(self._end, stop) if stop >= 0 else -1
        if end < 0:
            return False
        self.calls[-1] = Call(self.calls[-1].index, begin.function.name, text, True)
        self._buffer, self._current = self._buffer[end + len(self._end) :], None
        return True

    def _partial(self) -> Call:
        assert self._current is not None
        begin, start = self._current
        if self._element is None:
            stop = json_end(self._buffer, start)
            text = self._buffer[start:stop] if stop >= 0 else completed_json(self._buffer[start:]) or "{}"
        else:
            text = _object(self._values(start)[1])
        return Call(self.calls[-1].index, begin.function.name, text, False)

    def _values(self, start: int) -> tuple[int, dict[str, str]]:
        """The arguments in XML so far as JSON, and where the call may end; -1 inside of an element."""
        assert self._current is not None and self._element is not None
        parameters = self._current[0].function.parameters
        properties = parameters.get("properties", {}) if isinstance(parameters, dict) else {}
        values: dict[str, str] = {}
        at = start
        while found := _header(self._element, properties).match(self._buffer, at):
            name = found["name"]
            stop = self._buffer.find(self._element.end, found.end())
            kinds = _kinds(parameters, name, self._element, found)
            if stop < 0:
                partial = self._buffer[found.end() :]
                if kinds == {"string"}:
                    sure = partial[: len(partial) - _kept(partial, {self._element.end: ""})]
                    values[name] = _string(_unframed(sure, self._element, True))
                return -1, values
            written = self._buffer[found.end() : stop]
            as_json = kinds != {"string"} and ("string" not in kinds or is_json(written, kinds))
            values[name] = written.strip(" \t\r\n") if as_json else _string(_unframed(written, self._element, False))
            at = stop + len(self._element.end)
        return at, values


def _kinds(parameters: Any, name: str, element: Element, found: re.Match[str]) -> set[str]:
    kinds = kinds_of(parameters["properties"][name], shared_definitions(parameters))
    if element.string != element.other:
        return {"string"} if found["string"] is not None else kinds - {"string"}
    return kinds


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _object(values: Mapping[str, str]) -> str:
    return f"{{{', '.join([f'{_string(name)}: {value}' for name, value in values.items()])}}}"


def _unframed(text: str, element: Element, partial: bool) -> str:
    """A string without the line ends that frame it."""
    if not element.framed or not text.startswith("\n"):
        return text
    if partial:
        return text[1:].removesuffix("\n")
    return text[1:-1] if len(text) > 1 and text.endswith("\n") else text


def _header(element: Element, names: Mapping[str, Any]) -> re.Pattern[str]:
    def pattern(text: str) -> str:
        gap = r"[ \t\r\n]*"
        return re.escape(text).replace(re.escape("{gap}"), gap).replace(re.escape("{type}"), "[a-z]+")

    listed = "|".join(map(re.escape, sorted(names, key=len, reverse=True))) or "(?!)"
    kinds = f"(?:(?P<string>{pattern(element.string)})|{pattern(element.other)})"
    return re.compile(rf"[ \t\r\n]*{re.escape(element.begin)}(?P<name>{listed}){kinds}")


def _marks(style: Mapping[str, Any]) -> dict[str, str]:
    """The strings that change what is read, and what follows them."""
    marks: dict[str, str] = {}
    if (section := style.get("section")) is not None:
        marks |= {section["begin"]: "marks", section["end"]: "text"}
    if (channels := style.get("channels")) is not None:
        marks |= {channels[name]["begin"]: name for name in ("text", "reasoning")}
        marks |= dict.fromkeys((*channels["text"]["end"], channels["separator"]), "marks")
    elif (reasoning := style.get("reasoning")) is not None:
        marks |= {reasoning["begin"]: "reasoning", reasoning["end"] + reasoning["after"]: "text"}
    return marks


def _reads_first(style: Mapping[str, Any], reasoning: str) -> str:
    if "channels" in style:
        return "marks"
    begun = reasoning == "enabled" and style.get("reasoning", {}).get("in_prompt", False)
    return "reasoning" if begun else "text"


def _first(text: str, marks: Mapping[str, str]) -> tuple[int, str] | None:
    """The first mark that is complete in the text, and of those that begin there the longest."""
    found = [(at, -len(mark), mark) for mark in marks if (at := text.find(mark)) >= 0]
    return (min(found)[0], min(found)[2]) if found else None


def _kept(text: str, marks: Mapping[str, str]) -> int:
    """How many characters at the end of the text may begin a mark."""
    longest = max(map(len, marks), default=1) - 1
    return next(
        (
            size
            for size in range(min(longest, len(text)), 0, -1)
            if any(mark.startswith(text[-size:]) for mark in marks)
        ),
        0,
    )
