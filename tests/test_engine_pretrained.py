"""Engines from directories: tokens, template, first token and weights, written by the packages that define their
formats.
"""

from __future__ import annotations

import json
import re

import pytest
import torch

from guided.chat import Conversation
from guided.engine.engine import Engine
from guided.engine.pretrained import _load_gguf_tokenizer
from guided.errors import GuidedError, ModelFileError, OptionError, UnsupportedError, VocabularyError
from guided.files.gguf import GgufFile
from guided.vocabulary.gguf_tokenizer import read_bos_ids
from tests.test_cli import run, run_json
from tests.test_vocabulary_gguf import byte_level_file

transformers = pytest.importorskip("transformers", reason="transformers writes the checkpoints")
tokenizers = pytest.importorskip("tokenizers")

torch.set_num_threads(1)
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}"
)
SPECIAL = ["<|im_start|>", "<|im_end|>", "<s>"]


@pytest.fixture
def directory(tmp_path):
    """A Qwen3 over bytes, as save_pretrained and tokenizers write it."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {piece: number for number, piece in enumerate(alphabet)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    sizes = {
        "vocab_size": 272, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 128,
    }  # fmt: skip
    config = transformers.Qwen3Config(**sizes, bos_token_id=None, eos_token_id=257)
    torch.manual_seed(1)
    transformers.Qwen3ForCausalLM(config).save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", "chat_template": CHATML}))
    return tmp_path


def test_a_directory_answers_under_a_constraint(directory):
    engine = Engine.from_pretrained(directory, dtype="float32")
    assert engine.vocabulary.eos_token_ids == {257}
    assert engine.bos == []
    result = engine.generate([{"role": "user", "content": "héllo"}], "[a-f]{3,5}", seed=1)
    assert re.fullmatch("[a-f]{3,5}", result.text)
    ids = engine.encode_prompt([{"role": "user", "content": "héllo"}])
    other = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    text = "<|im_start|>user\nhéllo<|im_end|>\n<|im_start|>assistant\n"
    assert ids == other.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("own", [None, 3, [3, 4]])
@pytest.mark.parametrize("generation", [None, {}, {"eos_token_id": 5}, {"eos_token_id": [5, 6]}])
def test_end_tokens_equal_those_in_transformers(directory, own, generation):
    """In addition to the tokenizer's end token, 257."""
    config = directory / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"eos_token_id": own}))
    (directory / "generation_config.json").unlink()
    if generation is not None:
        (directory / "generation_config.json").write_text(json.dumps(generation))
    model = transformers.AutoModelForCausalLM.from_pretrained(directory)
    end_ids = model.generation_config.eos_token_id
    end_ids = end_ids if isinstance(end_ids, list) else [] if end_ids is None else [end_ids]
    assert Engine.from_pretrained(directory).vocabulary.eos_token_ids == {257, *end_ids}


def test_greedy_matches_transformers(directory):
    engine = Engine.from_pretrained(str(directory), dtype="float32", device="cpu")
    other = transformers.AutoModelForCausalLM.from_pretrained(directory)
    prompt = engine.encode_prompt("hello", raw=True)
    with torch.inference_mode():
        want = other.generate(torch.tensor([prompt]), max_new_tokens=20, do_sample=False, pad_token_id=0)
    got = engine.generate("hello", raw=True, max_tokens=20).tokens
    assert got == want[0, len(prompt) :].tolist()[: len(got)]


def test_the_template_may_be_a_file_or_unknown(directory):
    settings = directory / "tokenizer_config.json"
    settings.unlink()
    assert Engine.from_pretrained(directory).chat_template is None
    (directory / "chat_template.jinja").write_text(CHATML)
    assert Engine.from_pretrained(directory).chat_template is not None
    (directory / "chat_template.jinja").write_text("[INST]")
    assert Engine.from_pretrained(directory).chat_template is None


TEMPLATE = {"single": "<s> $A <|im_end|>", "special_tokens": [("<s>", 258), ("<|im_end|>", 257)]}
TWO_TOKENS = {
    "single": "<|im_start|> <s> $A",
    "special_tokens": [
        {"id": "<s>", "ids": [258, 97], "tokens": ["<s>", "a"]},
        {"id": "<|im_start|>", "ids": [256], "tokens": ["<|im_start|>"]},
    ],
}
PROCESSORS = tokenizers.processors
POST_PROCESSORS = {
    "none": lambda: None,
    "bytes": lambda: PROCESSORS.ByteLevel(trim_offsets=False),
    "template": lambda: PROCESSORS.TemplateProcessing(**TEMPLATE),
    "two tokens": lambda: PROCESSORS.TemplateProcessing(**TWO_TOKENS),
    "after bytes": lambda: PROCESSORS.Sequence([PROCESSORS.ByteLevel(), PROCESSORS.TemplateProcessing(**TEMPLATE)]),
    "roberta": lambda: PROCESSORS.RobertaProcessing(("<|im_end|>", 257), ("<s>", 258)),
    "bert": lambda: PROCESSORS.BertProcessing(("<|im_end|>", 257), ("<s>", 258)),
}


@pytest.mark.parametrize("post_processor", POST_PROCESSORS)
@pytest.mark.parametrize(
    "settings",
    [{}, {"add_bos_token": False}, {"add_bos_token": True}, {"tokenizer_class": "LlamaTokenizerFast"}],
    ids=["no flag", "off", "on", "Llama"],
)
def test_the_ids_before_a_text_are_those_of_transformers(directory, settings, post_processor):
    path = str(directory / "tokenizer.json")
    tokenizer = tokenizers.Tokenizer.from_file(path)
    if (step := POST_PROCESSORS[post_processor]()) is not None:
        tokenizer.post_processor = step
    tokenizer.save(path)
    settings = {"eos_token": "<|im_end|>", "bos_token": "<s>"} | settings
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    engine = Engine.from_pretrained(directory)
    text_ids = engine.vocabulary.encode("bc")
    ids = transformers.AutoTokenizer.from_pretrained(directory)("bc")["input_ids"]
    start = next(i for i in range(len(ids)) if ids[i : i + len(text_ids)] == text_ids)
    assert engine.bos == ids[:start]
    assert (engine.bos == []) == (post_processor in ("none", "bytes"))
    assert engine.encode_prompt("bc", raw=True) == ids[: start + len(text_ids)]


def test_missing_files_are_named(directory, tmp_path_factory):
    (directory / "tokenizer_config.json").write_text("{}")
    tokenizer = json.loads((directory / "tokenizer.json").read_text())
    name = {"SpecialToken": {"id": "<s>"}}
    for broken in (
        [1], {"type": "Sequence"}, {"type": "TemplateProcessing", "single": [{"SpecialToken": 1}]},
        {"type": "TemplateProcessing", "single": [name], "special_tokens": {}},
        {"type": "TemplateProcessing", "single": [name], "special_tokens": {"<s>": {"ids": ["x"]}}},
        {"type": "RobertaProcessing", "cls": ["<s>"]}, {"type": "BertProcessing", "cls": ["<s>", -1]},
    ):  # fmt: skip
        (directory / "tokenizer.json").write_text(json.dumps(tokenizer | {"post_processor": broken}))
        with pytest.raises(VocabularyError, match="post_processor"):
            Engine.from_pretrained(directory)
    with pytest.raises(GuidedError, match=r"contains no tokenizer.json"):
        Engine.from_pretrained(tmp_path_factory.mktemp("empty"))
    with pytest.raises(GuidedError, match="neither a path nor a known model"):
        Engine.from_pretrained("smollm3")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("tokenizer_config.json", b"[]", r"tokenizer_config.json: the file contains \[\], not an object"),
        ("generation_config.json", b"3", "generation_config.json: the file contains 3, not an object"),
        ("generation_config.json", b'{"eos_token_id": "x"}', "eos_token_id of .* are a collection of integers"),
        ("generation_config.json", b'{"eos_token_id": [-4]}', "eos_token_id of .*: -4 is not an id"),
        ("chat_template.jinja", b"\xff\xfe", "chat_template.jinja: not UTF-8 text"),
        ("config.json", b"[]", "config.json: a config is a JSON object"),
        ("tokenizer.json", b"[]", "not a tokenizer.json"),
    ],
)
def test_files_of_another_form_are_named(directory, name, data, message):
    (directory / name).write_bytes(data)
    with pytest.raises((ModelFileError, VocabularyError), match=message):
        Engine.from_pretrained(directory)


@pytest.mark.parametrize("bos", [-1, 10**6, "x", 1.5, True])
def test_the_token_that_begins_a_text_in_a_gguf_file(tmp_path, bos):
    path = tmp_path / "model.gguf"
    path.write_bytes(byte_level_file(**{"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": bos}))
    with GgufFile(path) as file, pytest.raises(ModelFileError, match=r"bos_token_id is .*, which is not a token"):
        _load_gguf_tokenizer(file, 300)


ADD_BOS = {
    "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "tekken",
    "chameleon",
}  # fmt: skip


@pytest.mark.parametrize("pre_tokenizer", [*sorted(ADD_BOS), "gpt-2", "qwen2", "smollm", "default", "gpt-4o"])
def test_the_pre_tokenizer_determines_the_token_before_a_text(tmp_path, pre_tokenizer):
    """Unless the file says it. The names are those of llama.cpp."""
    for flag, expected in ((None, pre_tokenizer in ADD_BOS), (True, True), (False, False)):
        path = tmp_path / "model.gguf"
        flags = {} if flag is None else {"tokenizer.ggml.add_bos_token": flag}
        own = {"tokenizer.ggml.pre": pre_tokenizer, "tokenizer.ggml.bos_token_id": 3}
        path.write_bytes(byte_level_file(**own | flags))
        with GgufFile(path) as file:
            assert _load_gguf_tokenizer(file, 300)[2] == ([3] if expected else [])


def test_sentencepiece_models_have_a_token_before_a_text():
    metadata = {"tokenizer.ggml.model": "llama"}
    assert read_bos_ids(metadata, 5) == [1]
    assert read_bos_ids(metadata | {"tokenizer.ggml.bos_token_id": 2}, 5) == [2]
    assert read_bos_ids(metadata | {"tokenizer.ggml.add_bos_token": False}, 5) == []
    assert read_bos_ids({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "tekken"}, 5) == []  # no BOS token


@pytest.mark.parametrize("flag", [0, "true", [1, 2], 1.5])
def test_whether_a_text_begins_with_a_token_is_a_boolean(tmp_path, flag):
    path = tmp_path / "model.gguf"
    path.write_bytes(byte_level_file(**{"tokenizer.ggml.add_bos_token": flag}))
    with (
        GgufFile(path) as file,
        pytest.raises(ModelFileError, match=r"add_bos_token is .*, not a boolean"),
    ):
        _load_gguf_tokenizer(file, 300)


def test_an_adapter(directory, tmp_path):
    """The engine and the command line use it, with the same results as transformers with merged weights."""
    safetensors_torch = pytest.importorskip("safetensors.torch")
    name, generator = "model.layers.0.mlp.down_proj", torch.Generator().manual_seed(1)
    a, b = torch.randn(3, 24, generator=generator), torch.randn(16, 3, generator=generator)
    prefix, adapter = f"base_model.model.{name}.lora_", tmp_path / "adapter"
    adapter.mkdir()
    tensors = {f"{prefix}A.weight": a, f"{prefix}B.weight": b}
    safetensors_torch.save_file(tensors, adapter / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": 3, "lora_alpha": 6, "target_modules": ["down_proj"]}
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    other = transformers.AutoModelForCausalLM.from_pretrained(directory)
    with torch.no_grad():
        other.get_submodule(name).weight += 2 * (b @ a)
    engine = Engine.from_pretrained(directory, adapter=adapter, dtype="float32", device="cpu")
    prompt = engine.encode_prompt("hello", raw=True)
    with torch.inference_mode():
        want = other.generate(torch.tensor([prompt]), max_new_tokens=20, do_sample=False, pad_token_id=0)
    result = engine.generate("hello", raw=True, max_tokens=20)
    assert result.tokens == want[0, len(prompt) :].tolist()[: len(result.tokens)]
    command = ("generate", "hello", "--raw", "--max-tokens", "20", "--dtype", "float32", "--device", "cpu")
    plain = run_json(*command, "--model", str(directory))
    assert run_json(*command, "--model", str(directory), "--adapter", str(adapter))["tokens"] == result.tokens
    assert plain["tokens"] != result.tokens
    code, out, err = run(*command, "--model", "shakespeare", "--adapter", str(adapter))
    assert (code, out) == (2, "")
    assert "adapters of GPT models are not supported" in err
    (adapter / "adapter_config.json").write_text(json.dumps(config | {"use_dora": True}))
    with pytest.raises(UnsupportedError, match="DoRA"):  # before the search for the model
        Engine.from_pretrained("no such model", adapter=adapter)
    error = run_json(*command, "--adapter", str(tmp_path / "nowhere"), code=2)["error"]
    assert "there is no adapter_config.json" in error["message"]


def test_incompatible_options_are_refused_before_anything_is_loaded(directory):
    with pytest.raises(OptionError, match="name is None, but must be the name of a model, or a path"):
        Engine.from_pretrained(None)
    for option in ({"adapter": "adapter"}, {"compile": True}, {"kv_dtype": "int8"}):
        with pytest.raises(UnsupportedError, match=rf"in several processes does not .* \(at {next(iter(option))}\)"):
            Engine.from_pretrained("no such model", tensor_parallel=2, **option)
    for option in ("tensor_parallel", "pipeline_parallel"):
        for wrong in (0, True, 1.5):
            with pytest.raises(ValueError, match=f"{option} is {wrong!r}, but must be an integer of at least 1"):
                Engine.from_pretrained(directory, **{option: wrong})
    for option, wrong in (("adapter", 5), ("adapter", ""), ("compile", "x"), ("compile", 1), ("draft_model", 5)):
        with pytest.raises(OptionError, match=rf"{option} is {wrong!r}, but must be ") as caught:
            Engine.from_pretrained("no such model", **{option: wrong})
        assert caught.value.option == option
    with pytest.raises(ValueError, match="kv_dtype is 'int4', but must be 'auto' or 'int8'"):
        Engine.from_pretrained("no such model", kv_dtype="int4")
    with pytest.raises(UnsupportedError, match=r"models of type GPT cannot be compiled \(at compile\)"):
        Engine.from_pretrained("shakespeare", compile=True)


def test_where_the_chat_templates_are(directory):
    """The files of transformers, in order of their precedence."""
    say, settings = [{"role": "user", "content": "a"}], directory / "tokenizer_config.json"

    def shown(**more):
        return str(Engine.from_pretrained(directory).chat_template.text(Conversation(say, **more)))

    (directory / "chat_template.json").write_text(json.dumps({"chat_template": "json{{ messages[0].content }}"}))
    settings.write_text(json.dumps({"eos_token": "<|im_end|>", "bos_token": {"content": "<s>"}}))
    assert shown() == "jsona"
    named = [{"name": "default", "template": "{{ bos_token }}list{{ messages[0].content }}"}]
    named.append({"name": "tool_use", "template": "tools{{ messages[0].content }}{{ tools|length }}"})
    settings.write_text(json.dumps({"eos_token": "<|im_end|>", "bos_token": "<s>", "chat_template": named}))
    assert shown() == "<s>lista"
    assert shown(tools=[{"type": "function", "function": {"name": "f"}}]) == "toolsa1"
    (directory / "chat_template.jinja").write_text("file{{ messages[0].content }}")
    assert shown() == "filea"
    (directory / "additional_chat_templates").mkdir()
    (directory / "additional_chat_templates" / "rag.jinja").write_text("rag{{ messages[0].content }}")
    assert shown() == "filea" and shown(template="rag") == "raga"
    (directory / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(ModelFileError, match=r"chat_template.jinja: not UTF-8 text"):
        Engine.from_pretrained(directory)


def test_the_chat_templates_of_a_gguf_file(tmp_path):
    changes = {
        "tokenizer.chat_template": "{{ eos_token }}{{ messages[0].content }}",
        "tokenizer.chat_template.tool_use": "tools{{ messages[0].content }}{{ tools|length }}",
    }
    path = tmp_path / "x.gguf"
    path.write_bytes(byte_level_file(**changes))
    with GgufFile(path) as file:
        vocabulary, chat, _ = _load_gguf_tokenizer(file, 300)
    say = [{"role": "user", "content": "a<|im_end|>"}]
    assert chat.text(say) == "<|im_end|>a<|im_end|>"
    assert chat.render(say) == [1, *vocabulary.encode("a<|im_end|>")]
    assert chat.text(Conversation(say, [{"type": "function", "function": {"name": "f"}}])) == "toolsa<|im_end|>1"
    (tmp_path / "y.gguf").write_bytes(byte_level_file(**{"tokenizer.chat_template": 7}))
    with GgufFile(tmp_path / "y.gguf") as file, pytest.raises(ModelFileError, match="chat_template is 7, not a string"):
        _load_gguf_tokenizer(file, 300)


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_a_device_that_is_not_there(directory, device):
    with pytest.raises(OptionError, match=f"device '{device}' cannot be used: ."):
        Engine.from_pretrained(str(directory), device=device)
