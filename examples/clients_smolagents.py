"""smolagents against `guided serve`: an object, a stream, an agent that calls tools, an agent that writes code, and an
error.

pip install 'smolagents[openai]'; then, while a server runs: python examples/clients_smolagents.py
It imports clients_types.py, which must be in the same folder.
"""

from __future__ import annotations

import json

from clients_types import KEY, MODEL, TOKENS, URL, Refused, Water
from openai import BadRequestError
from smolagents import ActionStep, ChatMessage, CodeAgent, LogLevel, MultiStepAgent, OpenAIModel, ToolCallingAgent, tool

server = {"api_base": URL, "api_key": KEY, "max_tokens": TOKENS, "retry": False, "client_kwargs": {"max_retries": 0}}
model = OpenAIModel(MODEL, **server)
limits = {"max_steps": 2, "verbosity_level": LogLevel.OFF}


def question(text: str) -> list[ChatMessage]:
    """A conversation that consists of one message."""
    return [ChatMessage(role="user", content=text)]


def schema(type: type) -> dict[str, object]:
    """The response format for a class."""
    return {"type": "json_schema", "json_schema": {"name": type.__name__, "schema": type.model_json_schema()}}


answer = model.generate(question("Tell me of the Nile."), response_format=schema(Water))
print(f"object: {Water.model_validate_json(answer.content)!r}")

pieces = list(model.generate_stream(question("Tell me of a lake."), response_format=schema(Water)))
text = "".join(piece.content or "" for piece in pieces)
assert len(pieces) > 1
print(f"stream: {Water.model_validate_json(text)!r}")


@tool
def weather(place: str, unit: str) -> str:
    """Return the weather at a place.

    Args:
        place: a city
        unit: celsius or fahrenheit
    """
    return f"It is warm in {place}."


def steps(agent: MultiStepAgent) -> list[ActionStep]:
    """Run the agent and return its steps. A small model may not reach an answer."""
    agent.run("What is the weather in Cairo?")
    return [step for step in agent.memory.steps if isinstance(step, ActionStep)]


# Each step of this agent is a tool call. The last step calls only the tool `final_answer`.
one_call = OpenAIModel(MODEL, **server, parallel_tool_calls=False)
calls = [call for step in steps(ToolCallingAgent([weather], one_call, **limits)) for call in step.tool_calls or ()]
names = {"weather": {"place", "unit"}, "final_answer": {"answer"}}
assert calls and all(set(call.arguments) == names[call.name] for call in calls)
print(f"calls: {[(call.name, call.arguments) for call in calls]!r}")

# Each step of this agent is an object: a thought, and code that calls the tools.
coder = CodeAgent([weather], model, **limits, use_structured_outputs_internally=True)
written = [json.loads(step.model_output) for step in steps(coder) if step.model_output]
assert written and all(list(step) == ["thought", "code"] for step in written)
print(f"code: {written[0]['code']!r}")

try:
    model.generate(question("What?"), response_format=schema(Refused))
except BadRequestError as error:
    print(f"refused: {error}")
