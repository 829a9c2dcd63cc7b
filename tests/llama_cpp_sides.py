"""The two sides of `test_integration_llama_cpp_model.py`: guided's engine and llama.cpp, both greedy, on one GGUF file.

    python -m tests.llama_cpp_sides engine MODEL.gguf OUT.json
    python -m tests.llama_cpp_sides llama_cpp MODEL.gguf OUT.json

Each side runs in its own process, since each has its own OpenMP runtime, and one process cannot have both. `as_float32`
writes a file with dequantised weights, so both sides compute with the same numbers. Here, the engine works without
features that a logits processor cannot have: it does not write forced text in the tokenizer's spelling, and does not
lead outputs to their end before the budget cuts them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import guided

MAX_TOKENS = 60
PROMPTS = {
    "schema": "Describe a person named Ada, who is 36 years old and likes chess, as JSON: ",
    "type": "Three colours of the rainbow as a JSON array: ",
    "regex": "Question: On which day was the first moon landing?\nAnswer: ",
    "choice": "Is the sky blue? Answer with yes, no or perhaps.\nAnswer: ",
    "lark": "A sum of two numbers, such as (3 + 4): ",
    "items": "Six animals of a farm, as a JSON array of strings: ",
    "prose": "Once upon a time ",
    "tight": "A long story about a dragon, as JSON: ",
}
BUDGETS = {"tight": 20}


def constraints() -> dict[str, Any]:
    """The constraints, by the names of the prompts."""
    text = {"type": "string", "maxLength": 12}
    person = {
        "type": "object",
        "properties": {"name": text, "age": {"type": "integer"}, "likes": {"type": "array", "items": text}},
        "required": ["name", "age", "likes"],
    }
    return {
        "schema": person,
        "type": list[str],
        "regex": r"[A-Z][a-z]+ \d{1,2}, \d{4}",
        "choice": ["yes", "no", "perhaps"],
        "lark": guided.lark('start: "(" N " + " (N | start) ")"\nN: /[0-9]{1,3}/'),
        "items": {"type": "array", "items": {"type": "string", "maxLength": 16}, "minItems": 6, "maxItems": 8},
        "prose": r"[A-Za-z ,.']{120,}",
        "tight": {"type": "object", "properties": {"story": {"type": "string"}}, "required": ["story"]},
    }


def engine(path: Path) -> dict[str, Any]:
    """The ids of each answer by guided's engine."""
    guided.GrammarMatcher.forced_tokens = lambda self: []  # type: ignore[method-assign]
    made = guided.Engine.from_pretrained(path, device="cpu", dtype="float32")
    answers = {}
    for name, constraint in constraints().items():
        budget = BUDGETS.get(name, MAX_TOKENS)
        prompt = made.vocabulary.encode(PROMPTS[name])
        result = made.generate(prompt, constraint, max_tokens=budget, temperature=0.0, budget_ramp=0.0)
        answers[name] = {"tokens": list(result.tokens), "text": result.text}
    made.close()
    return answers


def llama_cpp(path: Path, expected: dict[str, Any]) -> dict[str, Any]:
    """The ids of each answer by llama.cpp, and the difference of the scores at the first different token."""
    from llama_cpp import Llama, LogitsProcessorList

    from guided.integrations.llama_cpp import GuidedLogitsProcessor

    llama = Llama(str(path), n_ctx=512, n_threads=1, n_threads_batch=1, verbose=False)
    compiler = guided.GrammarCompiler(guided.Vocabulary.from_gguf(path))
    answers = {}
    for name, constraint in constraints().items():
        budget = BUDGETS.get(name, MAX_TOKENS)
        processor = GuidedLogitsProcessor(constraint, compiler, max_tokens=budget)
        seen: list[np.ndarray[Any, Any]] = []

        def kept(ids: Any, scores: Any, processor: Any = processor, seen: Any = seen) -> Any:
            seen.append(processor(ids, scores))
            return seen[-1]

        llama.reset()
        tokens: list[int] = []
        prompt = compiler.vocabulary.encode(PROMPTS[name])
        for token in llama.generate(prompt, temp=0.0, logits_processor=LogitsProcessorList([kept])):
            if token in compiler.vocabulary.eos_token_ids or len(tokens) == budget:
                break
            tokens.append(token)
        answers[name] = {
            "tokens": tokens,
            "text": compiler.vocabulary.decode(tokens).decode(),
            "gap": _gap(tokens, expected[name]["tokens"], seen),
        }
    return answers


def _gap(own: list[int], other: list[int], scores: list[np.ndarray[Any, Any]]) -> dict[str, Any] | None:
    """The first position at which both differ, and by how much the other's token was scored lower; None if they are
    equal.
    """
    if own == other:
        return None
    step = next((at for at, pair in enumerate(zip(own, other, strict=False)) if pair[0] != pair[1]), None)
    if step is None:
        return {"step": min(len(own), len(other)), "gap": None}
    return {"step": step, "gap": float(scores[step].max() - scores[step][other[step]])}


def as_float32(quantised: Path, target: Path) -> None:
    """Write a GGUF file with the same metadata, whose weights are float32."""
    import gguf

    reader = gguf.GGUFReader(quantised)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, entry in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value = int(gguf.LlamaFileType.ALL_F32) if name == "general.file_type" else entry.contents()
        kind, sub = entry.types[0], entry.types[-1] if entry.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, value, kind, sub)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    side, model, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    found = engine(model) if side == "engine" else llama_cpp(model, json.loads(Path(sys.argv[4]).read_text()))
    out.write_text(json.dumps(found))
