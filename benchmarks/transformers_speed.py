"""transformers' `generate` with and without a constraint: tokens per second, beside xgrammar's processor.

    python -m benchmarks.transformers_speed

The model has SmolLM2-135M's sizes and random weights; the vocabulary has 49,152 made-up tokens. Out: a line for each
batch size: tokens/s without a constraint, with guided, with xgrammar, and the ratios, as medians of alternating runs.
The constraint masks at every step and forces nothing.
"""

from __future__ import annotations

import argparse
import random
import time
from statistics import median
from typing import Any

import guided
from guided.engine import Engine  # before torch, since it sets how torch's threads wait

_PATTERN = r"[ -~\n]{2000,9000}"
_TOKENS = 48
assert Engine is not None


def _vocabulary() -> guided.Vocabulary:
    rng, tokens = random.Random(0), [bytes([byte]) for byte in range(256)]
    seen = set(tokens)
    while len(tokens) < 49_150:
        word = bytes(rng.choices(range(32, 127), k=rng.randrange(2, 9)))
        if word not in seen:
            seen.add(word)
            tokens.append(word)
    return guided.Vocabulary([*tokens, None, None], eos_token_ids=[49_151], special_tokens={49_151: "<end>"})


def _model(size: int) -> Any:
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=size, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=8192, tie_word_embeddings=True, eos_token_id=None,
        bos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def _xgrammar(vocabulary: guided.Vocabulary) -> Any:
    import xgrammar
    from xgrammar.contrib.hf import LogitsProcessor

    info = xgrammar.TokenizerInfo(
        [data or b"" for data in vocabulary.tokens], vocab_size=vocabulary.size,
        stop_token_ids=sorted(vocabulary.eos_token_ids),
    )  # fmt: skip
    compiled = xgrammar.GrammarCompiler(info).compile_regex(_PATTERN)
    return lambda: LogitsProcessor(compiled)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="runs of each kind (5)")
    arguments = parser.parse_args()
    import torch

    from guided.integrations.transformers import GuidedLogitsProcessor

    vocabulary = _vocabulary()
    compiler = guided.GrammarCompiler(vocabulary)
    model, xgrammar = _model(vocabulary.size), _xgrammar(vocabulary)
    kinds = {
        "free": lambda: None,
        "guided": lambda: GuidedLogitsProcessor(_PATTERN, compiler),
        "xgrammar": xgrammar,
    }
    print(f"{torch.get_num_threads()} threads, {vocabulary.size} tokens, {_TOKENS} tokens a run")
    for batch in (1, 8):
        ids = torch.randint(40, 90, (batch, 16))
        times: dict[str, list[float]] = {kind: [] for kind in kinds}
        for turn in range(arguments.runs + 1):
            for kind, make in kinds.items():
                processor = make()
                begin = time.perf_counter()
                model.generate(
                    ids, attention_mask=torch.ones_like(ids), max_new_tokens=_TOKENS, min_new_tokens=_TOKENS,
                    do_sample=False, logits_processor=[] if processor is None else [processor],
                )  # fmt: skip
                if turn:
                    times[kind].append(time.perf_counter() - begin)
        speed = {kind: batch * _TOKENS / median(seconds) for kind, seconds in times.items()}
        ratio = {
            kind: median(free / own for free, own in zip(times["free"], times[kind], strict=True)) for kind in kinds
        }
        print(
            f"batch {batch}: free {speed['free']:.0f} tokens/s; guided {speed['guided']:.0f} ({ratio['guided']:.3f}), "
            f"xgrammar {speed['xgrammar']:.0f} ({ratio['xgrammar']:.3f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
