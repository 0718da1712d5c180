"""Tiny random models of several families, and a tokenizer for them."""

from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor

from fastmos.integrations.huggingface import with_mixture

V, D, K = 37, 16, 3
SPECIAL: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
LAYERS: dict[str, Any] = {
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 32,
    "dropout": 0.0,
    "forced_eos_token_id": None,
}
CAUSAL = ["gpt2", "llama", "llama-tied", "qwen2", "qwen3"]
LIKE_LLAMA = {"llama": "Llama", "llama-tied": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}
UNTIED = ("llama",)
LIKE_BART = {  # class and configuration by family
    "bart": ("BartForConditionalGeneration", "BartConfig"),
    "marian": ("MarianMTModel", "MarianConfig"),
    "m2m100": ("M2M100ForConditionalGeneration", "M2M100Config"),
    "blenderbot": ("BlenderbotForConditionalGeneration", "BlenderbotConfig"),
    "blenderbot-small": ("BlenderbotSmallForConditionalGeneration", "BlenderbotSmallConfig"),
    "nllb-moe": ("NllbMoeForConditionalGeneration", "NllbMoeConfig"),
}
LIKE_T5 = {
    "t5": ("T5ForConditionalGeneration", "T5Config"),
    "t5-unscaled": ("T5ForConditionalGeneration", "T5Config"),
    "mt5": ("MT5ForConditionalGeneration", "MT5Config"),
    "umt5": ("UMT5ForConditionalGeneration", "UMT5Config"),
    "switch": ("SwitchTransformersForConditionalGeneration", "SwitchTransformersConfig"),
}
FAMILIES = [*CAUSAL, *LIKE_BART, *LIKE_T5]
FEW = ["gpt2", "llama", "qwen3", "bart", "marian", "t5"]  # of different kinds


def build(family: str) -> tuple[Any, Any]:
    """A model class and a tiny configuration of it, without dropout."""
    t: Any = transformers
    if family == "gpt2":
        quiet = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        size = {"vocab_size": V, "n_positions": 32, "n_embd": D, "n_layer": 2, "n_head": 2}
        return t.GPT2LMHeadModel, t.GPT2Config(**size, **quiet, **SPECIAL)
    if family in LIKE_LLAMA:
        name = LIKE_LLAMA[family]
        size = {"vocab_size": V, "hidden_size": D, "intermediate_size": 32, "num_hidden_layers": 2, "head_dim": 8}
        heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 32}
        config = getattr(t, f"{name}Config")(**size, **heads, tie_word_embeddings=family not in UNTIED, **SPECIAL)
        return getattr(t, f"{name}ForCausalLM"), config
    if family in LIKE_BART:
        name, config_name = LIKE_BART[family]
        experts = {"num_experts": 2, "encoder_sparse_step": 1, "decoder_sparse_step": 1} if "moe" in family else {}
        start = 0 if family == "marian" else 2
        config = getattr(t, config_name)(
            vocab_size=V, d_model=D, decoder_start_token_id=start, **LAYERS, **experts, **SPECIAL
        )
        return getattr(t, name), config
    name, config_name = LIKE_T5[family]
    size = {"vocab_size": V, "d_model": D, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    experts = {
        "num_experts": 2,
        "num_sparse_encoder_layers": 1,
        "num_sparse_decoder_layers": 1,
        "num_decoder_layers": 1,
    }
    config = getattr(t, config_name)(
        **size,
        **(experts if family == "switch" else {}),
        dropout_rate=0.0,
        decoder_start_token_id=0,
        eos_token_id=2,
        pad_token_id=0,
    )
    if family.startswith("t5"):
        config.scale_decoder_outputs = family == "t5"
    return getattr(t, name), config


def mixture(family: str) -> Any:
    model_class, config = build(family)
    torch.manual_seed(1)
    model = with_mixture(model_class)(config, mixtures=K).eval()
    with torch.no_grad():
        model.lm_head.latent.bias.normal_()
        model.lm_head.latent.scale.normal_()
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
    return model


def inputs(family: str, rows: int = 2, length: int = 7) -> dict[str, Tensor]:
    """Source (or text), and for encoder-decoders what the decoder has read."""
    tokens = torch.randint(3, V, (rows, length), generator=torch.Generator().manual_seed(2))
    return {"input_ids": tokens} if family in CAUSAL else {"input_ids": tokens, "decoder_input_ids": tokens.flip(1)}


def text_tokenizer() -> Any:
    """A tokenizer of single letters with the special tokens of the models."""
    words = ["<pad>", "<s>", "</s>", "<unk>", *"abcdefghijklmnopqrstuvwxyz", *"0123456"]
    made = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **names)
