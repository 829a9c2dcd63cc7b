"""Trains a character-level GPT on a text file and writes it as a directory that `Engine.from_pretrained` reads.

    python examples/train_shakespeare.py tinyshakespeare.txt --out shakespeare

Training uses the class that later generates (guided/models/architectures/gpt.py). Its weights are plain tensors, so
gradients flow through the same forward pass. The tokens are the distinct bytes of the text, in byte order, and an end
token that does not occur in training. The directory has the format of a GPT-2 model in transformers, so transformers
can load it, too.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from guided.models.architectures.gpt import GPT, GPTConfig

END = "<|endoftext|>"


def parameters(model: GPT) -> dict[str, Tensor]:
    """All weights by their names in transformers. Matrices have the shape (out, in)."""
    tensors = {"wte.weight": model.embedding, "wpe.weight": model.position_embedding}
    parts = {"ln_f": model.norm}
    for i, layer in enumerate(model.layers):
        names = {"ln_1": layer.attention_norm, "attn.c_attn": layer.qkv, "attn.c_proj": layer.output}
        names |= {"ln_2": layer.ffn_norm, "mlp.c_fc": layer.up, "mlp.c_proj": layer.down}
        parts |= {f"h.{i}.{name}": affine for name, affine in names.items()}
    for name, (weight, bias) in parts.items():
        tensors |= {f"{name}.weight": weight, f"{name}.bias": bias}
    return tensors


def loss_of(model: GPT, batch: Tensor) -> Tensor:
    """Mean cross entropy of the next tokens. `batch`: token ids, (sequences, length + 1)."""
    count, length = batch.shape[0], batch.shape[1] - 1

    def attend(layer: int, *qkv: Tensor) -> Tensor:
        q, k, v = (part.unflatten(0, (count, length)).transpose(1, 2) for part in qkv)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(0, 1)

    positions = torch.arange(length).repeat(count)
    hidden = model.forward(batch[:, :-1].flatten(), positions, attend)
    return F.cross_entropy(model.logits(hidden), batch[:, 1:].flatten())


def windows(data: Tensor, count: int, length: int, generator: torch.Generator) -> Tensor:
    """Random passages of the text as token ids, (count, length + 1)."""
    starts = torch.randint(len(data) - length, (count,), generator=generator)
    return data[starts[:, None] + torch.arange(length + 1)]


@torch.no_grad()
def validation(model: GPT, data: Tensor) -> float:
    """The loss on 64 fixed passages that are not used for training."""
    batches = windows(data, 64, model.config.context, torch.Generator().manual_seed(0)).split(16)
    return sum(float(loss_of(model, batch)) for batch in batches) / len(batches)


def train(model: GPT, text: Tensor, steps: int, batch: int, rate: float, keep: Callable[[], None]) -> None:
    """Train with AdamW, with warm-up and a cosine schedule. The last tenth of the text is for validation.

    `keep` is called every 200 steps and after the last step.
    """
    weights = parameters(model)
    for name, weight in weights.items():
        if name.endswith("c_proj.weight"):
            weight /= math.sqrt(2 * model.config.layers)  # so that the sum over the layers keeps its scale
        weight.requires_grad_(True)
    groups = [
        {"params": [w for w in weights.values() if w.ndim == 2], "weight_decay": 0.1},
        {"params": [w for w in weights.values() if w.ndim == 1], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.99))
    cut, generator, start = len(text) * 9 // 10, torch.Generator().manual_seed(1), time.perf_counter()
    for step in range(steps):
        warm, progress = min(1.0, (step + 1) / 100), step / steps
        for group in optimiser.param_groups:
            group["lr"] = rate * warm * (0.05 + 0.95 * (1 + math.cos(math.pi * progress)) / 2)
        loss = loss_of(model, windows(text[:cut], batch, model.config.context, generator))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(weights.values()), 1.0)
        optimiser.step()
        if step % 200 == 0 or step == steps - 1:
            last, seconds = validation(model, text[cut:]), time.perf_counter() - start
            print(f"step {step:5}  loss {loss.item():.3f}  validation {last:.3f}  {seconds:.0f} s", flush=True)
            keep()


def byte_alphabet() -> dict[int, str]:
    """GPT-2's character for each byte: the byte's own character if it is printable, otherwise one from U+0100 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(rest)}


def write(model: GPT, tokens: list[int], directory: Path) -> None:
    """Write config.json, model.safetensors (float16) and tokenizer.json."""
    directory.mkdir(parents=True, exist_ok=True)
    c, letters = model.config, byte_alphabet()
    config = {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": c.vocab_size, "n_embd": c.dim,
        "n_layer": c.layers, "n_head": c.heads, "n_positions": c.context, "n_inner": c.hidden,
        "activation_function": "gelu_new", "layer_norm_epsilon": c.norm_eps, "tie_word_embeddings": True,
        "bos_token_id": None, "eos_token_id": len(tokens), "dtype": "float16",
    }  # fmt: skip
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    end = {"id": len(tokens), "content": END, "special": True}
    end |= dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    vocab = {letters[byte]: id for id, byte in enumerate(tokens)} | {END: len(tokens)}
    tokenizer = {
        "version": "1.0", "added_tokens": [end], "pre_tokenizer": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    }  # fmt: skip
    for name, data in (("config", config), ("tokenizer", tokenizer)):
        (directory / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    turned = {
        f"transformer.{name}": (w.t() if name.startswith("h.") and w.ndim == 2 else w).detach().half().contiguous()
        for name, w in parameters(model).items()
    }
    save_file(turned, directory / "model.safetensors", metadata={"format": "pt"})


def positive(text: str) -> int:
    """The value of an option that is a positive integer."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not a positive integer")
    return int(text)


def read_arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line. Ends the process with a message if sizes do not fit each other."""
    parser.add_argument("text", type=Path)
    parser.add_argument("--out", type=Path, default=Path("shakespeare"), help="the directory to write (%(default)s)")
    for name, value in (("layers", 4), ("dim", 128), ("heads", 4), ("context", 256), ("steps", 3000), ("batch", 12)):
        parser.add_argument(f"--{name}", type=positive, default=value, help="(%(default)s)")
    parser.add_argument("--rate", type=float, default=3e-3, help="the learning rate (%(default)s)")
    parser.add_argument("--threads", type=positive, help="number of PyTorch's threads (PyTorch's default)")
    arguments = parser.parse_args()
    if arguments.dim % arguments.heads:
        parser.error(f"--dim must be a multiple of --heads, but is {arguments.dim} for {arguments.heads} heads")
    if not 0 < arguments.rate < math.inf:
        parser.error(f"--rate must be a positive number, not {arguments.rate}")
    return arguments


def read_text(path: Path, context: int) -> bytes:
    """The text. ValueError if a tenth of it, which is for validation, is not longer than the context."""
    data, minimum = path.read_bytes(), 10 * context + 1
    if len(data) < minimum:
        hint = "use a longer text, or a smaller --context"
        raise ValueError(f"{path} has {len(data)} bytes, but a context of {context} needs {minimum:,} or more: {hint}")
    return data


def main() -> None:
    """Run the command: train, and write the model."""
    parser = argparse.ArgumentParser(description="Train a character-level GPT on a text.")
    a = read_arguments(parser)
    try:
        data = read_text(a.text, a.context)
        a.out.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if a.threads:
        torch.set_num_threads(a.threads)
    tokens = sorted(set(data))
    table = torch.zeros(256, dtype=torch.int64)
    table[torch.tensor(tokens)] = torch.arange(len(tokens))
    text = table[torch.frombuffer(bytearray(data), dtype=torch.uint8).long()]
    sizes = {"layers": a.layers, "dim": a.dim, "heads": a.heads, "hidden": 4 * a.dim, "context": a.context}
    model = GPT.random(GPTConfig(**sizes, vocab_size=len(tokens) + 1), seed=1)
    print(
        f"{sum(w.numel() for w in parameters(model).values()):,} weights, {len(text):,} tokens of {len(tokens)} kinds"
    )
    train(model, text, a.steps, a.batch, a.rate, lambda: write(model, tokens, a.out))
    print(f"written to {a.out}")


if __name__ == "__main__":
    main()
