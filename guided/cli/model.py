"""Loads the model of a command. In: arguments. Out: the engine. PyTorch is imported on first use."""

from __future__ import annotations

import argparse
import gc
from typing import TYPE_CHECKING, Final

from guided.cli.arguments import integer
from guided.cli.console import InputError, Progress

if TYPE_CHECKING:
    from guided.engine import Engine

__all__ = ["DEFAULT_MODEL", "MODEL_HELP", "add_model_options", "load_engine"]

DEFAULT_MODEL: Final = "smollm2-135m-instruct"
MODEL_HELP: Final = (
    "a name that `guided models` lists, org/model[:QUANTISATION][@REVISION] on the Hugging Face hub, a GGUF file or a "
    "directory (default: %(default)s)"
)


def add_model_options(group: argparse._ArgumentGroup) -> None:
    """Add the options for the model and its device, except the model's name."""
    group.add_argument(
        "--adapter", metavar="DIR", help="a LoRA adapter for the model, as PEFT saves it (default: none)"
    )
    group.add_argument(
        "--draft-model",
        metavar="MODEL",
        help="a smaller model with the same vocabulary that drafts tokens (default: none)",
    )
    group.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, ... (default: auto)")
    group.add_argument(
        "--dtype", choices=("auto", "float32", "bfloat16"), default="auto", help="type of the weights (default: auto)"
    )
    group.add_argument(
        "--kv-dtype",
        choices=("auto", "int8"),
        default="auto",
        help="type of the KV cache (default: auto, which is --dtype)",
    )
    group.add_argument(
        "--context",
        type=integer(1),
        metavar="N",
        help="maximum number of tokens of prompt and output together, for which the KV cache has space (default: the "
        "model's context, or fewer if their keys and values would take more than half of the free memory)",
    )
    group.add_argument(
        "--tensor-parallel",
        type=integer(1),
        default=1,
        metavar="N",
        help="split each layer across N processes, one per GPU (default: 1)",
    )
    group.add_argument(
        "--pipeline-parallel",
        type=integer(1),
        default=1,
        metavar="N",
        help="split the layers across N processes (default: 1)",
    )
    group.add_argument(
        "--threads",
        type=integer(1, 1024),
        metavar="N",
        help="CPU threads (default: the number of cores for this process)",
    )


def load_engine(arguments: argparse.Namespace, *, describe: bool | None = None) -> Engine:
    """Load an engine with the model `arguments.model`. `describe`: the default of `Options.describe`.

    Imported modules and the model live until the process ends, so the garbage collector need not scan them. This saves
    a fifth of the time to import PyTorch.
    """
    gc.disable()
    try:
        return _load(arguments, describe)
    finally:
        gc.freeze()
        gc.enable()


def _load(arguments: argparse.Namespace, describe: bool | None) -> Engine:
    try:
        with Progress("loading PyTorch"):
            from guided.engine.engine import Engine  # comes before torch, since it sets how torch's threads wait

            import torch  # isort: skip
            from guided.files.hub import find_model  # isort: skip
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise InputError("generating needs PyTorch: pip install 'guided-decoding[engine]'") from None
    try:
        torch.empty(0, device="cpu" if arguments.device == "auto" else arguments.device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"--device {arguments.device} cannot be used: {str(error).splitlines()[0]}") from None
    path = find_model(arguments.model)  # a download shows its own progress
    with Progress(f"loading {path.name}"):
        engine = Engine.from_pretrained(
            arguments.model,
            adapter=arguments.adapter,
            device=arguments.device,
            dtype=arguments.dtype,
            kv_dtype=arguments.kv_dtype,
            tensor_parallel=arguments.tensor_parallel,
            pipeline_parallel=arguments.pipeline_parallel,
            draft_model=arguments.draft_model,
            describe=describe,
            context=arguments.context,
        )
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    return engine
