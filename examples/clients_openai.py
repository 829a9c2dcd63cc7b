"""OpenAI's client against `guided serve`: an object (over both APIs), a stream, tool calls, and an error.

pip install openai; then, while a server runs: python examples/clients_openai.py
It imports clients_types.py, which must be in the same folder.
"""

from __future__ import annotations

from clients_types import KEY, MODEL, TOKENS, URL, Refused, Water, Weather
from openai import BadRequestError, OpenAI, pydantic_function_tool

client = OpenAI(base_url=URL, api_key=KEY, max_retries=0)
ask = {"model": MODEL, "max_tokens": TOKENS}


def user(text: str) -> dict[str, str]:
    """A user message."""
    return {"role": "user", "content": text}


answer = client.chat.completions.parse(**ask, messages=[user("Tell me of the Nile.")], response_format=Water)
print(f"object: {answer.choices[0].message.parsed!r}")

with client.chat.completions.stream(**ask, messages=[user("Tell me of a lake.")], response_format=Water) as stream:
    pieces = [event.delta for event in stream if event.type == "content.delta"]
    message = stream.get_final_completion().choices[0].message
assert len(pieces) > 1 and "".join(pieces) == message.content
print(f"stream: {message.parsed!r}")

# The model must call a tool. Then it receives the tool's result and answers.
messages = [user("What is the weather in Cairo?")]
tools = [pydantic_function_tool(Weather, name="weather")]
message = (
    client.chat.completions.parse(**ask, messages=messages, tools=tools, tool_choice="required").choices[0].message
)
print(f"calls: {[call.function.parsed_arguments for call in message.tool_calls]!r}")

messages += [message, *({"role": "tool", "tool_call_id": call.id, "content": "Warm."} for call in message.tool_calls)]
answer = client.chat.completions.create(**ask, messages=messages, extra_body={"regex": "[A-Z][a-z]{2,9}"})
print(f"answer: {answer.choices[0].message.content}")

# The responses API.
answer = client.responses.parse(model=MODEL, max_output_tokens=TOKENS, input="Tell me of the Rhine.", text_format=Water)
print(f"object by responses: {answer.output_parsed!r}")

try:
    client.chat.completions.parse(**ask, messages=[user("What?")], response_format=Refused)
except BadRequestError as error:
    print(f"refused: {error.body['param']} {error.body['message']}")
