"""LiteLLM against `guided serve`: an object, a stream, tool calls, and an error.

pip install litellm; then, while a server runs: python examples/clients_litellm.py
It imports clients_types.py, which must be in the same folder.
"""

from __future__ import annotations

import litellm
from clients_types import KEY, MODEL, TOKENS, URL, Refused, Water, Weather

litellm.suppress_debug_info = True  # this script prints errors itself
ask = {"model": f"openai/{MODEL}", "api_base": URL, "api_key": KEY, "max_tokens": TOKENS, "num_retries": 0}


def question(text: str) -> list[dict[str, str]]:
    """A conversation that consists of one message."""
    return [{"role": "user", "content": text}]


answer = litellm.completion(**ask, messages=question("Tell me of the Nile."), response_format=Water)
print(f"object: {Water.model_validate_json(answer.choices[0].message.content)!r}")

chunks = list(litellm.completion(**ask, messages=question("Tell me of a lake."), response_format=Water, stream=True))
text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
assert len(chunks) > 1
print(f"stream: {Water.model_validate_json(text)!r}")

# The model must call a tool. Then it receives the tool's result and answers.
function = {"name": "weather", "description": "The weather.", "parameters": Weather.model_json_schema()}
talk = question("What is the weather in Cairo?")
tools = [{"type": "function", "function": function}]
message = litellm.completion(**ask, messages=talk, tools=tools, tool_choice="required").choices[0].message
print(f"calls: {[Weather.model_validate_json(call.function.arguments) for call in message.tool_calls]!r}")

results = [{"role": "tool", "tool_call_id": call.id, "content": "It is warm."} for call in message.tool_calls]
answer = litellm.completion(**ask, messages=[*talk, message, *results], extra_body={"regex": "[A-Z][a-z]{2,9}"})
print(f"answer: {answer.choices[0].message.content}")

try:
    litellm.completion(**ask, messages=question("What?"), response_format=Refused)
except litellm.BadRequestError as error:
    print(f"refused: {error}")
