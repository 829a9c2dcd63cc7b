"""Generates constrained answers with TensorRT-LLM.

pip install guided-decoding[tokenizers] tensorrt-llm
TLLM_WORKER_USE_SINGLE_PROCESS=1 python examples/tensorrt_llm_generate.py MODEL
"""

from __future__ import annotations

import sys

from tensorrt_llm import LLM, SamplingParams

from guided.integrations.tensorrt_llm import GuidedLogitsProcessor

BUDGET = 60


def main(name: str) -> list[str]:
    """Print and return the answers."""
    llm = LLM(model=name)
    processor = GuidedLogitsProcessor(r"[A-Z][a-z]+ \d{1,2}, \d{4}", llm.tokenizer.tokenizer, max_tokens=BUDGET)
    options = SamplingParams(logits_processor=processor, max_tokens=BUDGET)
    prompts = ["The first landing on the moon was on ", "The wall of Berlin fell on "]
    answers = [output.outputs[0].text for output in llm.generate(prompts, options)]
    print(*answers, sep="\n")
    return answers


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
