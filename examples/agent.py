"""An assistant with two functions: the weather in a city, and a calculator. The model decides which one to call.

In: questions (by default, three examples). Out, for each question: the calls with their results as they are made, and
the answer.

    python examples/agent.py [--model NAME_OR_GGUF] [--call] [QUESTION ...]

Very small models, such as SmolLM2-135M, rarely decide to call a function. With --call, the model must call one.
"""

from __future__ import annotations

import argparse
from typing import Literal

import guided

WEATHER = {"Oslo": 4, "Lima": 19, "Nairobi": 24}
QUESTIONS = (
    "What is the weather in Nairobi?",
    "What is 1284 times 37?",
    "Who are you? Answer in one sentence.",
)


def weather(city: str, unit: Literal["C", "F"] = "C") -> str:
    """The current weather in a city.

    Args:
        city: the city's name
        unit: C for Celsius, F for Fahrenheit
    """
    if city not in WEATHER:
        raise LookupError(f"there is no weather station in {city}, only in {', '.join(WEATHER)}")
    degrees = WEATHER[city] if unit == "C" else WEATHER[city] * 9 // 5 + 32
    return f"{degrees} degrees {unit}, light rain"


def calculate(left: float, operator: Literal["+", "-", "*", "/"], right: float) -> float:
    """Compute with two numbers.

    Args:
        left: the first number
        operator: what to do
        right: the second number
    """
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right


def run(arguments: argparse.Namespace) -> None:
    """Answer the questions."""
    choice = "required" if arguments.call else "auto"
    engine = guided.Engine.from_pretrained(arguments.model)
    for question in arguments.questions:
        print(f"> {question}")
        for event in engine.stream_chat(question, tools=[weather, calculate], tool_choice=choice, max_tokens=200):
            match event:
                case guided.TextDelta(text):
                    print(text, end="", flush=True)
                case guided.CallResult(call):
                    print(f"  {call.name}({call.text}) -> {call.result}")
        print("\n")


def main() -> None:
    """Run the command; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="*", metavar="QUESTION", default=QUESTIONS)
    parser.add_argument("--model", default="qwen2.5-coder-0.5b-instruct", help="a name or a GGUF file (%(default)s)")
    parser.add_argument("--call", action="store_true", help="the model must call a function first")
    try:
        run(parser.parse_args())
    except guided.GuidedError as error:  # for example, the model cannot be fetched
        parser.exit(2, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
