"""A user's program for type checkers: mypy reads it (`test_public_api.py`), but nothing runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import guided

if TYPE_CHECKING:
    from typing import reveal_type


@dataclass
class Person:
    """The requested type."""

    name: str
    age: int


def without_a_model(path: str) -> list[int]:
    """Masks for any engine."""
    vocabulary = guided.Vocabulary.from_gguf(path)
    reveal_type(vocabulary)
    compiler = guided.GrammarCompiler(vocabulary, limits=guided.Limits(depth=20))
    grammar = compiler.compile_json_schema({"type": "integer"}, whitespace="compact", max_digits=3)
    reveal_type(grammar)
    reveal_type(compiler.compile_regex("a+", dialect="ecma", search=True))
    reveal_type(compiler.compile_type(Person, numbers="plain"))
    reveal_type(compiler.compile(guided.json_schema({}) + guided.regex("b") | "c"))
    reveal_type(grammar.to_bytes())
    stored = guided.CompiledGrammar.from_bytes(b"", vocabulary, limits=guided.Limits(depth=20))
    reveal_type(guided.GrammarCompiler(vocabulary, cache_dir="grammars").compile_regex(stored.kind))
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


def weather(city: str) -> str:
    """The weather in a city."""
    return city


def with_tools(engine: guided.Engine) -> None:
    """A conversation in which the model calls a function."""
    result = engine.chat("Weather?", tools=[weather], constraint=Person, max_tokens=30, tool_choice="auto")
    person: Person = result.value
    reveal_type((person, [call.result for call in result.tool_calls]))
    for event in engine.stream_chat("Weather?", tools=[weather]):
        match event:
            case guided.TextDelta(text):
                reveal_type(text)
            case guided.CallResult(call):
                reveal_type(call.name)
            case guided.ChatDone(done):
                reveal_type(done.text)
            case _:
                pass


async def in_an_event_loop(engine: guided.Engine) -> None:
    """The same requests in coroutines."""
    person: Person = (await engine.agenerate("Who?", Person)).value
    people: list[Person] = [result.value for result in await engine.agenerate_batch(["a", "b"], Person)]
    other: Person = (await engine.achat("Hi", constraint=Person)).value
    reveal_type((person, people, other))
    async for event in engine.astream("Who?", Person):
        reveal_type(event)
    async for change in engine.astream_chat("Hi", tools=[weather]):
        if isinstance(change, guided.ChatDone):
            reveal_type(change.result.text)


def with_masks_and_quotations(grammar: guided.CompiledGrammar) -> None:
    """Masks computed again, and texts of documents."""
    reveal_type(guided.masks_of(grammar, [1, 2], max_tokens=9).refused_at)
    reveal_type(guided.Quote("a document").find("doc")[0].start)
    reveal_type(guided.derive_tool_style("{{ x }}").name)
