"""Finds a model's chat templates: in its GGUF file, or in files next to its tokenizer.

Out: templates by name ("default", "tool_use", ...), and the values of variables such as `bos_token`. The files are
named as in transformers. Each file overrides the files before it in this order: chat_template.json,
tokenizer_config.json (one template, or a list of named ones), chat_template.jinja with the folder
additional_chat_templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from guided.errors import ModelFileError, brief
from guided.files.json_file import read_json_object
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["ADDITIONAL", "read_named_templates", "templates_in_folder", "templates_in_gguf", "token_variables"]

ADDITIONAL: Final = "additional_chat_templates"
_TEMPLATE_KEY: Final = "tokenizer.chat_template"
_GGUF_TOKENS: Final = {"bos": "bos_token", "eos": "eos_token", "padding": "pad_token", "unknown": "unk_token"}


def read_named_templates(templates: object) -> dict[str, str]:
    """Templates by name, from a string, a mapping, or a list as in tokenizer_config.json. Otherwise empty."""
    if isinstance(templates, str):
        return {"default": templates}
    if isinstance(templates, list):
        templates = {entry.get("name"): entry.get("template") for entry in templates if isinstance(entry, Mapping)}
    if not isinstance(templates, Mapping):
        return {}
    return {name: text for name, text in templates.items() if isinstance(name, str) and isinstance(text, str)}


def templates_in_folder(folder: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """The templates of a model in a folder; `settings`: its tokenizer_config.json.

    Raises:
        ModelFileError: a file is malformed.
    """
    older_file = folder / "chat_template.json"
    templates = read_named_templates(read_json_object(older_file).get("chat_template")) if older_file.is_file() else {}
    templates = read_named_templates(settings.get("chat_template")) or templates
    files = {path.stem: path for path in sorted((folder / ADDITIONAL).glob("*.jinja"))}
    if (main_file := folder / "chat_template.jinja").is_file():
        files["default"] = main_file
    return {name: _read(path) for name, path in files.items()} or templates


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ModelFileError(f"{path}: not UTF-8 text: {error}") from None


def token_variables(settings: Mapping[str, Any]) -> dict[str, str]:
    """`bos_token` and similar variables in tokenizer_config.json, given as strings or as entries with `content`."""
    extra_tokens = settings.get("extra_special_tokens")
    all_settings = {**settings, **(extra_tokens if isinstance(extra_tokens, Mapping) else {})}
    names = {
        name: token.get("content") if isinstance(token, Mapping) else token for name, token in all_settings.items()
    }
    return {name: text for name, text in names.items() if name.endswith("_token") and isinstance(text, str)}


def templates_in_gguf(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> tuple[dict[str, str], dict[str, str]]:
    """The templates of a GGUF file, and its token variables.

    Raises:
        ModelFileError: a template is not a string.
    """
    templates = {}
    for key, value in metadata.items():
        if key == _TEMPLATE_KEY or key.startswith(f"{_TEMPLATE_KEY}."):
            if not isinstance(value, str):
                raise ModelFileError(f"{key} is {brief(value, 60)}, not a string")
            templates[key.removeprefix(_TEMPLATE_KEY).removeprefix(".") or "default"] = value
    tokens = {}
    for kind, variable in _GGUF_TOKENS.items():
        id = metadata.get(f"tokenizer.ggml.{kind}_token_id")
        if type(id) is int and 0 <= id < vocabulary.size:
            name = vocabulary.special_tokens.get(id)
            tokens[variable] = name if name is not None else vocabulary.decode([id]).decode("utf-8", "replace")
    return templates, tokens
