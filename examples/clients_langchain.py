"""LangChain against `guided serve`: an object, tool calls, streams, a regular expression, and an error.

pip install langchain-openai; then, while a server runs: python examples/clients_langchain.py
It imports clients_types.py, which must be in the same folder.
"""

from __future__ import annotations

from clients_types import KEY, MODEL, TOKENS, URL, Refused, Water, Weather
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import BadRequestError

model = ChatOpenAI(base_url=URL, api_key=KEY, model=MODEL, max_tokens=TOKENS, max_retries=0)

print(f"object: {model.with_structured_output(Water, method='json_schema').invoke('Tell me of the Nile.')!r}")
# Send the schema as the parameters of a function that the model must call. In this mode, LangChain drops recursive
# references.
by_calls = model.with_structured_output(Weather, method="function_calling")
print(f"function: {by_calls.invoke('What is the weather in Cairo?')!r}")

as_dicts = model.with_structured_output({"name": "Water", "schema": Water.model_json_schema()}, method="json_schema")
partials = list(as_dicts.stream("Tell me of a lake."))
assert len(partials) > 1
print(f"stream: {Water.model_validate(partials[-1])!r}")


@tool
def weather(place: str, unit: str) -> str:
    """Return the weather at a place."""
    return f"It is warm in {place}."


called = model.bind_tools([weather, Weather], tool_choice="any").invoke("What is the weather in Cairo?")
print(f"calls: {[call['name'] for call in called.tool_calls]!r} {called.invalid_tool_calls!r}")

# Send the results of the tools back to the model, which answers.
results = [ToolMessage("It is warm.", tool_call_id=call["id"]) for call in called.tool_calls]
short = model.bind(extra_body={"regex": "[A-Z][a-z]{2,9}"})
answer = short.invoke([HumanMessage("What is the weather in Cairo?"), called, *results])
print(f"answer: {answer.content}")
print(f"text: {short.invoke('Name a river.').content}")
print(f"stream of text: {''.join(str(chunk.content) for chunk in short.stream('Name a river.'))}")

try:
    model.with_structured_output(Refused, method="json_schema").invoke("What?")
except BadRequestError as error:
    print(f"refused: {error}")
