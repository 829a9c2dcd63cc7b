"""A program of a user who checks types: mypy reads it (`test_public_api.py`), nothing runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import guided

if TYPE_CHECKING:
    from typing import reveal_type


@dataclass
class Person:
    """What is asked for."""

    name: str
    age: int


def without_a_model(path: str) -> list[int]:
    """Masks next to any engine."""
    vocabulary = guided.Vocabulary.from_gguf(path)
    reveal_type(vocabulary)
    compiler = guided.GrammarCompiler(vocabulary, limits=guided.Limits(depth=20))
    grammar = compiler.compile_json_schema({"type": "integer"}, whitespace="compact", max_digits=3)
    reveal_type(grammar)
    reveal_type(compiler.compile_regex("a+", dialect="ecma", search=True))
    reveal_type(compiler.compile_type(Person, numbers="plain"))
    reveal_type(compiler.compile(guided.json_schema({}) + guided.regex("b") | "c"))
    matcher = guided.GrammarMatcher(grammar)
    bitmask = guided.allocate_token_bitmask(1, vocabulary.size)
    reveal_type(matcher.fill_next_token_bitmask(bitmask, max_tokens=3))
    reveal_type(matcher.accept_token(2))
    reveal_type(matcher.forced_tokens())
    reveal_type(matcher.fork())
    reveal_type(matcher.explain(b"x").reason)
    compiler.compile_regex("a", serch=True)  # type: ignore[call-arg]
    compiler.compile_json_schema({}, max_string="long")  # type: ignore[arg-type]
    reveal_type(guided.python_type(Person, max_string=5))
    reveal_type(guided.JsonSchemaOptions.for_generation(indent=2))
    reveal_type(guided.check_json_schema({"type": "integer"}))
    return guided.allowed_tokens(bitmask)


def with_a_model(messages: list[guided.Message]) -> str:
    """Answers under constraints."""
    engine = guided.Engine.from_pretrained("smollm2-135m-instruct", device="cpu")
    reveal_type(engine)
    options = guided.Options(max_tokens=20, temperature=0.5, max_string=9)
    result = engine.generate("Who?", {"type": "string"}, **options)
    reveal_type(result.text)
    reveal_type(result.tokens)
    reveal_type(result.finish_reason)
    person: Person = engine.generate(messages, Person).value
    whole: int = engine.generate("How many?", int).value
    yes: str = engine.generate("Well?", ["yes", "no"]).value
    digits: str = engine.generate("Which?", "[0-9]+").value
    ages: list[int] = [answer.value.age for answer in engine.generate_batch(["a", "b"], Person)]
    reveal_type((person, whole, yes, digits, ages))
    reveal_type(engine.generate(messages, Person, n=2))
    wrong = engine.generate(messages, Person).value.nmae  # type: ignore[attr-defined]
    reveal_type((wrong is None, engine.generate_batch(["a", "b"], bool, raw=True)))
    for part in engine.stream("Who?", Person):
        reveal_type(part.result and part.result.value)
    for event in engine.stream("Who?", "[a-z]+", seed=1):
        reveal_type(event.text)
        reveal_type(event.result)
    for number, answer in engine.generate_each([guided.Request("a", bool, options={"max_tokens": 3})]):
        reveal_type(number)
        reveal_type(answer)
    return result.text
