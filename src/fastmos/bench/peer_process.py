"""CTranslate2 or Hugging Face at work, for `fastmos bench decode --peers`. Runs in their environment, not in ours.

    python peer_process.py KIND FOLDER

FOLDER holds `weights.npz`, the parameters of our Transformer with one softmax (norm before the sub-layers), and
`work.json`. A line of JSON on standard input, {"batches": ...} of sentences of tokens, is answered by the seconds that
searching them took; {"sources": ..., "targets": ...} by the log-probability of each target.
"""

import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

PAD, BOS, EOS, UNK = "<pad>", "<s>", "</s>", "<unk>"
POSITIONS = 256


class CTranslate2:
    """The same model with the same weights."""

    def __init__(self, folder: Path, work: dict[str, Any], compute_type: str) -> None:
        import ctranslate2

        self.work = work
        self.words = [PAD, BOS, EOS, UNK, *(f"w{number}" for number in range(work["vocab_size"] - 4))]
        model = folder / "ctranslate2"
        if not model.exists():
            self.convert(dict(np.load(folder / "weights.npz")), model)
        self.translator = ctranslate2.Translator(str(model), compute_type=compute_type, intra_threads=1)

    def convert(self, weights: dict[str, Any], model: Path) -> None:
        from ctranslate2.specs import TransformerSpec

        spec = TransformerSpec.from_config(self.work["num_layers"], self.work["num_heads"], pre_norm=True)
        for part, side, embedding in (
            (spec.encoder, "encoder", "source_embedding"),
            (spec.decoder, "decoder", "embedding"),
        ):
            table = part.embeddings[0] if side == "encoder" else part.embeddings
            table.weight = weights[f"body.{embedding}.weight"]
            part.position_encodings.encodings = sinusoids(table.weight.shape[1])
            part.layer_norm.gamma, part.layer_norm.beta = pair(weights, f"body.{side}_norm")
            for number, layer in enumerate(part.layer):
                self.convert_layer(layer, weights, f"body.{side}.{number}")
        fill(spec.decoder.projection, weights, "head")
        spec.register_source_vocabulary(self.words)
        spec.register_target_vocabulary(self.words)
        spec.validate()
        model.mkdir()
        spec.save(str(model))

    def convert_layer(self, layer: Any, weights: dict[str, Any], name: str) -> None:
        norms = [layer.self_attention.layer_norm, layer.ffn.layer_norm]
        fill(layer.self_attention.linear[0], weights, f"{name}.own.query", f"{name}.own.key_value")
        fill(layer.self_attention.linear[1], weights, f"{name}.own.out")
        if f"{name}.source.query.weight" in weights:
            norms.insert(1, layer.attention.layer_norm)
            for linear, part in zip(layer.attention.linear, ("query", "key_value", "out"), strict=True):
                fill(linear, weights, f"{name}.source.{part}")
        fill(layer.ffn.linear_0, weights, f"{name}.wide")
        fill(layer.ffn.linear_1, weights, f"{name}.narrow")
        for number, norm in enumerate(norms):
            norm.gamma, norm.beta = pair(weights, f"{name}.norms.{number}")

    def translate(self, sentences: list[list[int]]) -> None:
        steps = self.work["steps"]
        self.translator.translate_batch(
            self.text(sentences),
            beam_size=self.work["beam_size"],
            min_decoding_length=steps,
            max_decoding_length=steps,
        )

    def score(self, sources: list[list[int]], targets: list[list[int]]) -> list[float]:
        found = self.translator.score_batch(self.text(sources), self.text(targets))
        return [float(sum(one.log_probs)) for one in found]

    def text(self, lines: list[list[int]]) -> list[list[str]]:
        return [[self.words[token] for token in line] for line in lines]


class HuggingFace:
    """A model of the same sizes, which also has its norms before the sub-layers: M2M100, with random weights."""

    def __init__(self, work: dict[str, Any]) -> None:
        import torch
        from transformers import GenerationConfig, M2M100Config, M2M100ForConditionalGeneration

        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.torch, size, layers, heads = torch, work["hidden_size"], work["num_layers"], work["num_heads"]
        config = M2M100Config(
            vocab_size=work["vocab_size"],
            d_model=size,
            encoder_layers=layers,
            decoder_layers=layers,
            encoder_attention_heads=heads,
            decoder_attention_heads=heads,
            encoder_ffn_dim=work["ffn_size"],
            decoder_ffn_dim=work["ffn_size"],
            max_position_embeddings=POSITIONS,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        )
        self.model = M2M100ForConditionalGeneration(config).eval()
        self.search = GenerationConfig(
            num_beams=work["beam_size"],
            min_new_tokens=work["steps"],
            max_new_tokens=work["steps"],
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        )

    def translate(self, sentences: list[list[int]]) -> None:
        longest = max(len(line) for line in sentences)
        ids = self.torch.tensor([line + [0] * (longest - len(line)) for line in sentences])
        with self.torch.inference_mode():
            self.model.generate(input_ids=ids, attention_mask=(ids != 0).long(), generation_config=self.search)


def fill(linear: Any, weights: dict[str, Any], *names: str) -> None:
    """A linear layer of CTranslate2, from one or several of ours side by side."""
    linear.weight = np.concatenate([weights[f"{name}.weight"] for name in names])
    linear.bias = np.concatenate([weights[f"{name}.bias"] for name in names])


def pair(weights: dict[str, Any], name: str) -> tuple[Any, Any]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def sinusoids(size: int) -> Any:
    rates = np.exp(np.arange(size // 2) * (-math.log(10_000.0) / (size // 2)))
    angles = np.arange(POSITIONS)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


def main(kind: str, folder: Path) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    work = json.loads((folder / "work.json").read_text())
    peer: Any = HuggingFace(work) if kind == "huggingface" else CTranslate2(folder, work, kind)
    print("{}", file=answers, flush=True)  # ready
    for line in sys.stdin:
        asked = json.loads(line)
        if "targets" in asked:
            answer = {"log_probs": peer.score(asked["sources"], asked["targets"])}
        else:
            start = time.process_time()
            for batch in asked["batches"]:
                peer.translate(batch)
            answer = {"seconds": time.process_time() - start}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
