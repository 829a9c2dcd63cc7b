"""`guided generate --batch`: many requests from a file, run together, answered line by line.

In: JSON lines (lines.py), and options of the command line, which are defaults for all requests. Out: JSON lines in the
order of the input. Each line contains the id of a request, and its answer or its error. A request that fails does not
stop the others.

On standard output, an answer waits until all answers before it are written. With --output FILE, each answer is written
at once, so an interrupted run loses no answer; at the end the file is sorted. --resume keeps an answer that is already
in FILE if the id and the digest of the whole request have not changed. Requests that failed are run again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from guided.cli.answers import AnswerFile, Answers, AnswersInOrder
from guided.cli.console import DONE, NEGATIVE, InputError, error_fields, note, print_error, read_text
from guided.cli.kinds import OPTIONS_OF, as_flags
from guided.cli.lines import SPECIFICATIONS, Line, read_lines
from guided.cli.options import find_tools
from guided.cli.results import is_shortened, result_to_json
from guided.cli.specification import GENERATION, Specification, specification_options
from guided.errors import GuidedError
from guided.matching import GrammarCompiler
from guided.matching.sentences import byte_vocabulary

if TYPE_CHECKING:
    from guided.engine.engine import Engine, Prompt
    from guided.engine.request import Options, Request
    from guided.engine.result import Result

__all__ = ["Batch", "add_batch", "build_prompt"]


_NO_BATCH: Final = "--batch takes a file of requests, one JSON object per line; give a single prompt without --batch"


def add_batch(parser: argparse.ArgumentParser) -> None:
    """Add --batch and the options that go with it."""
    group = parser.add_argument_group("many requests")
    group.add_argument(
        "--batch", metavar="FILE", help="a file with one request on each line, see below; - for standard input"
    )
    group.add_argument(
        "-o", "--output", metavar="FILE", help="write each answer to this file as it arrives (default: standard output)"
    )
    group.add_argument(
        "--progress", action="store_true", help="show a progress bar even if standard error is not a terminal"
    )
    group.add_argument("--resume", action="store_true", help="continue with an --output file of an interrupted run")


class Batch:
    """A batch of requests.

    Args: the parsed command line, its specification, and its options, including n.

    Raises:
        InputError: the file cannot be read. SpecError: schema options contradict each other.
    """

    def __init__(
        self, arguments: argparse.Namespace, specification: Specification | None, options: dict[str, Any]
    ) -> None:
        self._arguments, self._specification, self._options = arguments, specification, options
        if arguments.output is None and arguments.resume:
            raise InputError("--resume continues an --output file, but --output is not given")
        if arguments.output == "":
            raise InputError("the name of the file for --output is empty")
        self._options_by_kind = {kind: specification_options(arguments, kind) for kind in SPECIFICATIONS}
        if self._options_by_kind["schema"]:
            trial = Specification("schema", "{}", self._options_by_kind["schema"])
            trial.compile(GrammarCompiler(byte_vocabulary()), GENERATION)
        self._source = "standard input" if arguments.batch == "-" else arguments.batch
        self._lines = read_lines(read_text(arguments.batch, _NO_BATCH))
        if not self._lines:
            note(f"{self._source} contains no requests")
        self._failed_count = self._shortened_count = 0

    def run(self, load: Callable[[], Engine]) -> int:
        """Answer the requests that have no answer yet, and return the exit code.

        `load` is called only if a request needs the engine.
        """
        answers = self._open_answers()
        pending_numbers = [number for number in range(len(self._lines)) if number not in answers.kept_numbers]
        try:
            for number in pending_numbers:
                if (error := self._lines[number].error) is not None:
                    self._fail(answers, number, error, print_error)
            if valid_numbers := [number for number in pending_numbers if self._lines[number].error is None]:
                self._generate(load(), valid_numbers, answers)
        except KeyboardInterrupt:
            print_error(
                "interrupted; finished answers are kept" + (": --resume continues" if self._arguments.output else "")
            )
            raise
        finally:
            answers.close()
        if count := self._shortened_count:
            subject = "1 answer was" if count == 1 else f"{count} answers were"
            note(f"{subject} shortened to fit max_tokens (see budget_bound); raise it for longer answers")
        return NEGATIVE if self._failed_count else DONE

    def _open_answers(self) -> Answers:
        if self._arguments.output in (None, "-"):
            return AnswersInOrder()
        keys = [(line.id, self._compute_digest(line)) for line in self._lines]
        file = AnswerFile(Path(self._arguments.output), keys, resume=self._arguments.resume)
        if self._arguments.resume:
            note(f"{len(file.kept_numbers)} of {len(self._lines)} requests are already answered")
        if file.mismatched_count:
            note(
                f"{file.mismatched_count} answers belong to other requests with the same ids, or to other options: "
                "answering these requests again"
            )
        return file

    def _generate(self, engine: Engine, numbers: list[int], answers: Answers) -> None:
        from guided.engine.progress import ProgressLine

        progress_line = ProgressLine()
        show = progress_line if self._arguments.progress or sys.stderr.isatty() else False
        print_line = print_error if self._arguments.quiet else progress_line.print_line
        requests = (self._build_request(engine, self._lines[number]) for number in numbers)
        try:
            with closing(engine.generate_each(requests, total=len(numbers), progress=show)) as outcomes:
                for i, outcome in outcomes:
                    if isinstance(outcome, Exception):
                        self._fail(answers, numbers[i], outcome, print_line)
                    else:
                        answers.write(numbers[i], self._format_answer(numbers[i], outcome))
        finally:
            progress_line.close()

    def _build_request(self, engine: Engine, line: Line) -> Request | Exception:
        """The request of a line, or its error."""
        from guided.engine.request import Request

        options = {**self._options, **line.options}
        n: int = options.pop("n")
        specification = (
            Specification(line.kind, line.value, self._options_by_kind[line.kind]) if line.kind else self._specification
        )
        line_options = {name: options.pop(name) for names in OPTIONS_OF.values() for name in names if name in options}
        for name in line_options:
            if specification is None or name not in OPTIONS_OF.get(specification.kind, ()):
                required_kinds = " or ".join(kind for kind, names in OPTIONS_OF.items() if name in names)
                return InputError(f"{name} needs a specification of kind {required_kinds}")
        if specification is not None:
            specification = replace(specification, options={**specification.options, **line_options})
        try:
            grammar = specification.compile_quietly(engine.compiler, GENERATION) if specification is not None else None
        except (GuidedError, ValueError) as error:
            return line.with_position(error)
        if names := options.pop("tools", None):
            if grammar is not None:
                return InputError("tools cannot be combined with a specification: only free text can contain calls")
            options["tools"] = find_tools(names, self._arguments.tool_tokens)
        assert line.prompt is not None
        if options.get("raw") and self._arguments.system is not None:
            return InputError("raw cannot be combined with --system: a raw prompt has no messages")
        return Request(build_prompt(line.prompt, self._arguments), grammar, n, cast("Options", options))

    def _format_answer(self, number: int, results: list[Result]) -> str:
        self._shortened_count += sum(map(is_shortened, results))
        objects = [result_to_json(result) for result in results]
        return self._format_record(number, objects[0] if len(objects) == 1 else {"results": objects})

    def _fail(self, answers: Answers, number: int, error: Exception, print_line: Callable[[str], None]) -> None:
        """Write an error as the answer to a request, and show it on standard error."""
        self._failed_count += 1
        answers.write(number, self._format_record(number, {"error": error_fields(error)}))
        print_line(
            as_flags(
                f"{self._source}, line {self._lines[number].number}: {_describe_error(error, self._lines[number])}"
            )
        )

    def _format_record(self, number: int, content: dict[str, Any]) -> str:
        line = self._lines[number]
        head = {"id": line.id, "line": line.number, "request": self._compute_digest(line)}
        return json.dumps({**head, **content}, ensure_ascii=False)

    def _compute_digest(self, line: Line) -> str:
        """A digest of the line, the model, and the options that apply to all lines."""
        args, specification = self._arguments, self._specification
        common_inputs = [
            args.model,
            args.adapter,
            args.dtype,
            args.kv_dtype,
            args.context,
            args.raw,
            args.system,
            args.tool_tokens,
            self._options,
            self._options_by_kind,
        ]
        inputs = [
            line.text,
            *common_inputs,
            None if specification is None else [specification.kind, specification.value, specification.options],
        ]
        return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]


def build_prompt(prompt: str | list[dict[str, str]], arguments: argparse.Namespace) -> Prompt:
    """The prompt for the engine. With --system, a string becomes a user message after the system message."""
    if arguments.system is None or not isinstance(prompt, str):
        return prompt
    return [{"role": "system", "content": arguments.system}, {"role": "user", "content": prompt}]


def _describe_error(error: Exception, line: Line) -> str:
    """The text of an error, without "line 1" in a position, since the caller adds the number of the line."""
    text = str(error)
    return text.replace("(line 1, column", "(column", 1) if getattr(error, "text", None) == line.text else text
