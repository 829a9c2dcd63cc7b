"""Anthropic's client against `guided serve`: an object, a stream, tool calls and their results, and an error.

pip install anthropic; then, while a server runs: python examples/clients_anthropic.py
It imports clients_types.py, which must be in the same folder.
"""

from __future__ import annotations

from anthropic import Anthropic, BadRequestError
from clients_types import KEY, MODEL, TOKENS, URL, Kind, Refused, Water, Weather
from pydantic import BaseModel

client = Anthropic(base_url=URL.removesuffix("/v1"), api_key=KEY, max_retries=0)
ask = {"model": MODEL, "max_tokens": TOKENS}


def user(text: str) -> dict[str, str]:
    """A user message."""
    return {"role": "user", "content": text}


class Shore(BaseModel):
    """A shore. There are no limits such as `max_length`: the client would only add them to the description."""

    name: str
    kind: Kind
    sandy: bool


answer = client.messages.parse(**ask, messages=[user("Tell me of a shore.")], output_format=Shore)
print(f"object: {answer.parsed_output!r}")

with client.messages.stream(**ask, messages=[user("Tell me of a shore.")], output_format=Shore) as stream:
    pieces = list(stream.text_stream)
    final = stream.get_final_message()
assert len(pieces) > 1 and "".join(pieces) == final.content[0].text
print(f"stream: {final.parsed_output!r}")

# `messages.create` sends a schema unchanged.
format = {"type": "json_schema", "schema": Water.model_json_schema()}
answer = client.messages.create(**ask, messages=[user("Tell me of a lake.")], output_config={"format": format})
print(f"schema: {Water.model_validate_json(answer.content[0].text)!r}")

# The model must call a tool. Then it receives the tool's result and answers.
tools = [{"name": "weather", "description": "The weather.", "input_schema": Weather.model_json_schema()}]
messages = [user("What is the weather in Oslo?")]
choice = {"type": "any", "disable_parallel_tool_use": True}
with client.messages.stream(**ask, messages=messages, tools=tools, tool_choice=choice) as stream:
    call = stream.get_final_message()
[use] = call.content
print(f"calls: {call.stop_reason} {Weather.model_validate(use.input)!r}")

result = {"type": "tool_result", "tool_use_id": use.id, "content": "-3, snow"}
messages += [{"role": "assistant", "content": call.content}, {"role": "user", "content": [result]}]
counted = client.messages.count_tokens(model=MODEL, messages=messages)
answer = client.messages.create(**ask, messages=messages, extra_body={"regex": "[A-Z][a-z]{2,9}"})
print(f"answer: {answer.stop_reason} {answer.usage.input_tokens == counted.input_tokens} {answer.content[0].text}")

format = {"type": "json_schema", "schema": Refused.model_json_schema()}
try:
    client.messages.create(**ask, messages=[user("What?")], output_config={"format": format})
except BadRequestError as error:
    print(f"refused: {error.error_code} {error.api_message}")
