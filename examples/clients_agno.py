"""Agno against `guided serve`: an object, a stream, an agent that calls a tool, and an error.

pip install agno openai; then, while a server runs: python examples/clients_agno.py
It imports clients_types.py, which must be in the same folder.
"""

from __future__ import annotations

from agno.agent import Agent
from agno.models.openai import OpenAILike
from agno.run.agent import RunContentEvent
from agno.run.base import RunStatus
from agno.tools import tool
from clients_types import KEY, MODEL, TOKENS, URL, Refused, Unit, Water

model = OpenAILike(MODEL, base_url=URL, api_key=KEY, max_tokens=TOKENS, max_retries=0)
ask = {"model": model, "telemetry": False}

answer = Agent(**ask, output_schema=Water).run("Tell me of the Nile.")
assert isinstance(answer.content, Water)
print(f"object: {answer.content!r}")

# Agno yields an object only when it is complete, but streams text in pieces.
short = OpenAILike(MODEL, base_url=URL, api_key=KEY, max_retries=0, extra_body={"regex": "[A-Z][a-z]{2,9}"})
events = Agent(model=short, telemetry=False).run("Name a river.", stream=True)
pieces = [event.content for event in events if isinstance(event, RunContentEvent)]
assert len(pieces) > 1
print(f"stream: {''.join(pieces)}")


@tool(stop_after_tool_call=True)
def weather(place: str, unit: Unit) -> str:
    """Return the weather at a place."""
    return f"It is warm in {place}."


answer = Agent(**ask, tools=[weather], tool_choice="required").run("What is the weather in Cairo?")
assert answer.tools and not any(call.tool_call_error for call in answer.tools)
print(f"calls: {[(call.tool_name, call.tool_args) for call in answer.tools]!r}")

# Agno logs the error, and returns its message as the answer.
answer = Agent(**ask, output_schema=Refused).run("What?")
assert answer.status == RunStatus.error
print(f"refused: {answer.content}")
