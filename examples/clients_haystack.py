"""Haystack against `guided serve`: an object, a stream, tool calls, and an error.

pip install haystack-ai; then, while a server runs: python examples/clients_haystack.py
It imports clients_types.py, which must be in the same folder.
"""

from __future__ import annotations

from clients_types import KEY, MODEL, TOKENS, URL, Refused, Water, Weather
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, StreamingChunk
from haystack.tools import Tool
from haystack.utils import Secret
from openai import BadRequestError


def generator(**settings: object) -> OpenAIChatGenerator:
    """A component that sends requests with these settings to the server."""
    settings = {"max_tokens": TOKENS} | settings
    return OpenAIChatGenerator(
        Secret.from_token(KEY), MODEL, api_base_url=URL, max_retries=0, generation_kwargs=settings
    )


answer = generator(response_format=Water).run([ChatMessage.from_user("Tell me of the Nile.")])
print(f"object: {Water.model_validate_json(answer['replies'][0].text)!r}")

# Haystack streams a structured answer only if the response format is a dict.
format = {"type": "json_schema", "json_schema": {"name": "Water", "schema": Water.model_json_schema()}}
chunks: list[StreamingChunk] = []
lake = [ChatMessage.from_user("Tell me of a lake.")]
answer = generator(response_format=format).run(lake, streaming_callback=chunks.append)
text = "".join(chunk.content for chunk in chunks)
assert len(chunks) > 1 and text == answer["replies"][0].text
print(f"stream: {Water.model_validate_json(text)!r}")


def weather(place: str, unit: str) -> str:
    """Return the weather at a place."""
    return f"It is warm in {place}."


# The model must call a tool. Then it receives the tool's result and answers.
tool = Tool("weather", "The weather.", Weather.model_json_schema(), weather)
talk = [ChatMessage.from_user("What is the weather in Cairo?")]
[called] = generator(tool_choice="required").run(talk, tools=[tool])["replies"]
print(f"calls: {[Weather.model_validate(call.arguments) for call in called.tool_calls]!r}")

results = [ChatMessage.from_tool(tool.invoke(**call.arguments), origin=call) for call in called.tool_calls]
answer = generator(extra_body={"regex": "[A-Z][a-z]{2,9}"}).run([*talk, called, *results])
print(f"answer: {answer['replies'][0].text}")

try:
    generator(response_format=Refused).run([ChatMessage.from_user("What?")])
except BadRequestError as error:
    print(f"refused: {error}")
