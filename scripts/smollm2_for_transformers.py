"""Writes SmolLM2 as a folder that vLLM and transformers can load: the weights of guided's GGUF file, and its tokenizer.

    python scripts/smollm2_for_transformers.py FOLDER

vLLM no longer reads GGUF files itself. The weights are dequantised to bfloat16 (270 MB), and the rows of Q and K are
restored to the order of transformers. transformers creates the tokenizer from the same file. This script needs
transformers, gguf, accelerate and safetensors.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from guided.files.dequantise import dequantise
from guided.files.gguf import GgufFile
from guided.files.hub import find_model

LAYER = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
OTHERS = {"token_embd": "embed_tokens", "output_norm": "norm"}


def main(folder: Path) -> None:
    """Write the folder, unless it exists."""
    if (folder / "config.json").is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = find_model("smollm2-135m-instruct")
    with GgufFile(path) as file:
        config = config_of(file)
        save_file(weights_of(file, config), folder / "model.safetensors", {"format": "pt"})
    save_tokenizer(path, folder)
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    (folder / "generation_config.json").write_text(json.dumps(ends), "utf-8")
    (folder / "config.json").write_text(
        json.dumps(config | ends, indent=1), "utf-8"
    )  # written last, so it marks a complete folder


def config_of(file: GgufFile) -> dict[str, object]:
    """The transformers config of the model in the file."""
    own = {name.removeprefix("llama."): value for name, value in file.metadata.items()}
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_act": "silu",
        "vocab_size": len(file.metadata["tokenizer.ggml.tokens"]), "hidden_size": own["embedding_length"],
        "intermediate_size": own["feed_forward_length"], "num_hidden_layers": own["block_count"],
        "num_attention_heads": own["attention.head_count"], "num_key_value_heads": own["attention.head_count_kv"],
        "max_position_embeddings": own["context_length"], "rms_norm_eps": own["attention.layer_norm_rms_epsilon"],
        "rope_parameters": {"rope_type": "default", "rope_theta": own["rope.freq_base"]}, "tie_word_embeddings": True,
    }  # fmt: skip


def weights_of(file: GgufFile, config: dict[str, object]) -> dict[str, torch.Tensor]:
    """The tensors by their names in transformers."""
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    tensors = {}
    for name, info in file.tensors.items():
        values = dequantise(file.tensor_bytes(name), info.ggml_type, info.shape, name)
        tensor = torch.from_numpy(values).to(torch.bfloat16)
        parts = name.removesuffix(".weight").split(".")
        if parts[0] != "blk":
            tensors[f"model.{OTHERS[parts[0]]}.weight"] = tensor.contiguous()
            continue
        if (
            count := heads.get(parts[2])
        ) is not None:  # llama.cpp rotates neighbouring pairs, transformers rotates halves
            rows, columns = tensor.shape
            tensor = tensor.view(count, rows // count // 2, 2, columns).transpose(1, 2).reshape(rows, columns)
        tensors[f"model.layers.{parts[1]}.{LAYER[parts[2]]}.weight"] = tensor.contiguous()
    return tensors


def save_tokenizer(path: Path, folder: Path) -> None:
    """The tokenizer of the GGUF file, as transformers reads it."""
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
