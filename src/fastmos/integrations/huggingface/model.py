"""`with_mixture`: the subclass of a transformers model whose output layer is one of our heads."""

import functools
import inspect
import warnings
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastmos.errors import InputError, needs_extra
from fastmos.heads import HEADS, Head
from fastmos.integrations.huggingface import trl
from fastmos.integrations.huggingface.config import MODULE, PREFIXES, config_class, with_entry
from fastmos.integrations.huggingface.head import (
    as_linear,
    check_size,
    head_options,
    initialize,
    replace_linear,
    resize,
)
from fastmos.integrations.huggingface.model_card import write_model_card

with needs_extra():
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedModel
    from transformers.modeling_outputs import BaseModelOutput, CausalLMOutputWithCrossAttentions, Seq2SeqLMOutput
    from transformers.utils.generic import can_return_tuple

IGNORED = -100  # the label that carries no loss, everywhere in transformers
# Settings of models that change the logits after `lm_head`, and the value at which they do not (a cap always does
# unless it is None); changed log-probabilities would no longer be a mixture.
LOGIT_SETTINGS = {
    "final_logit_softcapping": None,
    "logits_soft_cap": None,
    "output_logit_soft_cap": None,
    "logit_scale": 1.0,
    "logits_scaling": 1.0,
    "lm_head_multiplier": 1.0,
}
# Relatives of T5 that scale their decoder's output by d_model whenever embeddings are tied; T5 has a setting for it.
SCALED_IF_TIED = ("switch_transformers", "umt5")
# Models whose `lm_head` reads something other than the decoder's last hidden state.
OTHER_INPUTS = ("prophetnet", "udop")


def with_mixture(model_class: Any, head: str = "mos") -> Any:
    """The subclass of a transformers model whose output layer is this head, a key of `fastmos.heads.HEADS`.

    `with_mixture(GPT2LMHeadModel)(config, mixtures=9)` is a new model. `.from_pretrained(name, mixtures=9)` takes body,
    embeddings and softmax from a plain model, and starts as that softmax. A saved mixture needs no further argument.
    """
    if not (inspect.isclass(model_class) and getattr(model_class, "can_generate", bool)()):
        raise InputError(f"with_mixture needs a transformers class that generates, not {model_class!r}")
    if issubclass(model_class, _Mixture):
        raise InputError(f"{model_class.__name__} already has a mixture; use it as it is")
    if head not in HEADS:
        raise InputError(f"with_mixture has no head {head!r}; choose one of {', '.join(HEADS)}")
    return _subclass(model_class, head)  # type: ignore[arg-type]  # a class has a hash


@functools.cache
def _subclass(plain: Any, head: str) -> Any:
    signature = inspect.signature(plain.forward)
    if "past_key_values" not in signature.parameters:  # Mamba, xLSTM
        raise InputError(f"{plain.__name__} has no past_key_values, which a mixture needs; use the plain class")
    kind: Any = _EncoderDecoderMixture if "decoder_input_ids" in signature.parameters else _CausalMixture
    prefix = next(prefix for prefix, name in PREFIXES.items() if name == head)
    name, positions = f"{prefix}{plain.__name__}", [*signature.parameters][1:]

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._forward(**dict(zip(positions, args, strict=False)), **kwargs)

    forward.__signature__ = signature  # type: ignore[attr-defined]  # of the plain model, which `generate` reads
    attributes = {"__module__": MODULE, "plain": plain, "head_type": head, "forward": forward}
    made: Any = type(name, (kind, plain), {**attributes, "config_class": config_class(name, plain)})
    made.config_class.model_class = made
    kind.auto_class.register(made.config_class, made)
    return made


class _Mixture(PreTrainedModel):  # type: ignore[misc]  # transformers is untyped here
    """What both kinds of model share: building, initializing and resizing the head, and computing its loss."""

    plain: ClassVar[type[Any]]  # the class the mixture was added to
    head_type: ClassVar[str]
    auto_class: ClassVar[Any]
    accepts_loss_kwargs = True  # Trainer: give us num_items_in_batch and do not divide by the accumulation steps again
    # Label smoothing of the fused loss in training. TrainingArguments has the same, but builds all logits.
    label_smoothing = 0.0
    # Where labels are given, logits are None unless this asks for them too (for `compute_metrics`).
    return_logits = False

    def __init__(
        self,
        config: Any,
        mixtures: int | None = None,
        *,
        contexts: str | None = None,
        shortlist: int | list[int] | Tensor | None = None,
    ) -> None:
        name = self.config_class.model_class.__name__  # ours, also in a subclass that somebody wrote
        shortlist = shortlist.tolist() if isinstance(shortlist, Tensor) else shortlist
        given = {"mixtures": mixtures, "contexts": contexts, "shortlist": shortlist}
        options = head_options(self.head_type, name, getattr(config, "mixture", None), given)
        super().__init__(with_entry(config, self.config_class, {"model": name, **options}))
        self._check_config()
        fixed_bias = hasattr(self, "final_logits_bias")  # BART, Marian: ours too, and saved by them
        linear = getattr(self, "lm_head", None)
        bias = fixed_bias or getattr(linear, "bias", None) is not None
        self.lm_head: Head = replace_linear(linear, self.head_type, options, bias, self.plain.__name__)
        if fixed_bias:
            del self.lm_head.bias
            self.lm_head.register_buffer("bias", self.final_logits_bias[0], persistent=False)
        self._mixed = self._warned_frozen = self._warned_metrics = False
        self.post_init()  # once more: the head must be there when weights are initialized and tied

    def _check_config(self) -> None:
        if self.config.model_type in OTHER_INPUTS:
            raise InputError(
                f"the lm_head of {self.plain.__name__} does not read the decoder's last hidden state, which a mixture "
                "needs; use the plain class"
            )
        for name, neutral in LOGIT_SETTINGS.items():
            if getattr(self.config, name, None) not in (None, neutral):
                raise InputError(
                    f"{self.plain.__name__} changes its logits by {name}, which a mixture does not support; "
                    "use the plain class"
                )
        self._check_routers()

    def _init_weights(self, module: nn.Module) -> None:
        head = getattr(self, "lm_head", None)
        if not isinstance(head, Head) or not any(module is part for part in head.modules()):
            super()._init_weights(module)
            return
        if module is head and not self.config.tie_word_embeddings:
            super()._init_weights(as_linear(head))
        options = head_options(self.head_type, type(self).__name__, self.config.mixture, {})
        initialize(module, head, self.head_type, options)
        self._share_bias()

    def _share_bias(self) -> None:
        """The fixed bias of BART and Marian is the head's, whatever tensor it has become."""
        if hasattr(self, "final_logits_bias"):
            self.lm_head.bias = self.final_logits_bias[0]

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> Any:
        """Another number of tokens, the same prior and contexts."""
        size = self.lm_head.vocab_size if new_num_tokens is None else new_num_tokens
        multiple = pad_to_multiple_of or 1
        check_size(self.lm_head, -(-size // multiple) * multiple)  # before anything is changed
        embeddings = super().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        resize(self.lm_head, as_linear(self.lm_head))
        self._share_bias()
        return embeddings

    def _get_resized_lm_head(self, old_lm_head: Head, *args: Any, **kwargs: Any) -> Head:
        linear = super()._get_resized_lm_head(as_linear(old_lm_head), *args, **kwargs)
        resize(old_lm_head, linear)
        return old_lm_head

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        if not isinstance(new_embeddings, Head):
            raise InputError(
                f"a {type(new_embeddings).__name__} would take the mixture's place in {type(self).__name__}; "
                f"use {self.plain.__name__} for a model without a mixture"
            )
        super().set_output_embeddings(new_embeddings)

    def save_pretrained(self, save_directory: str | Path, *args: Any, **kwargs: Any) -> None:
        """As every model of transformers, and a model card that says how to load the mixture."""
        super().save_pretrained(save_directory, *args, **kwargs)
        if kwargs.get("is_main_process", True):
            write_model_card(Path(save_directory), type(self))

    def _get_name(self) -> str:
        return self.plain.__name__  # by this name Trainer's label smoothing knows whether to shift the labels

    def __setattr__(self, name: str, value: Any) -> None:
        """TRL's trainers replace `forward` by one that multiplies with `lm_head.weight`: ours does without."""
        if name != "forward" or not trl.replaces_head(value):
            super().__setattr__(name, value)

    def _check_routers(self, asked: bool | None = None) -> None:
        """Refuse a mixture of experts that is asked to add the loss of its routers: the fused loss lacks it."""
        if getattr(self.config, "output_router_logits", False) if asked is None else asked:
            raise InputError(
                f"{self.plain.__name__} adds a loss of its routers if output_router_logits is set, which the fused "
                "loss does not include; set it to False"
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse a forward that was replaced from outside and reads `lm_head.weight` as if it were the whole layer."""
        if torch.compiler.is_compiling():
            return super().__call__(*args, **kwargs)
        self._check_routers(kwargs.get("output_router_logits"))
        self._mixed = False
        output = super().__call__(*args, **kwargs)
        if not self._mixed:
            raise InputError(
                f"the forward of {type(self).__name__} was replaced (by a kernel patch such as Liger's?) and bypasses "
                "the mixture; remove the patch, as the loss is already fused"
            )
        return output

    def _head(
        self, hidden: Tensor, targets: Tensor | None, items: Tensor | int | None, keep: slice | Tensor = slice(None)
    ) -> tuple[Tensor | None, Tensor | None]:
        """Loss of hidden states [B, T, D] at targets [B, T], and logits of the positions to keep, where needed."""
        self._share_bias()
        self._mixed = True
        if targets is not None and not torch.compiler.is_compiling():
            self._warn(from_trainer=items is not None)
        loss = None
        if targets is not None:
            smoothing = self.label_smoothing if self.training else 0.0
            out = self.lm_head(
                hidden, targets.to(hidden.device), ignore_index=IGNORED, label_smoothing=smoothing, reduction="sum"
            )
            # With gradient accumulation the Trainer counts the targets of all the batches of a step.
            count = out.tokens.clamp(min=1) if items is None else items
            loss = out.loss / (count.to(out.loss.device) if isinstance(count, Tensor) else count)
        wanted = targets is None or self.return_logits
        return loss, self.lm_head(hidden[:, keep]) if wanted else None

    def _warn(self, from_trainer: bool) -> None:
        """Say once what would go wrong in silence."""
        if self.training and torch.is_grad_enabled() and not self._warned_frozen:
            self._warned_frozen = True
            inner = [one for one in self.lm_head.parameters() if len(one) != len(self.lm_head.weight)]
            if inner and not any(one.requires_grad for one in inner):
                warnings.warn(
                    "the prior and the contexts of the mixture are frozen, so they stay as they are; "
                    'with LoRA, give modules_to_save=["lm_head"]',
                    stacklevel=2,
                )
        if from_trainer and not self.training and not self.return_logits and not self._warned_metrics:
            self._warned_metrics = True
            warnings.warn(
                "the mixture returns its loss without logits; if there are compute_metrics, they get no predictions "
                "until model.return_logits is True",
                stacklevel=2,
            )


class _CausalMixture(_Mixture):
    """GPT-2, Llama and other causal models."""

    auto_class = AutoModelForCausalLM

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        self.loss_type = "ForCausalLM"  # Trainer: the first label is no target, do not count it

    @can_return_tuple  # type: ignore[untyped-decorator]
    def _forward(
        self,
        labels: Tensor | None = None,
        shift_labels: Tensor | None = None,
        logits_to_keep: int | Tensor = 0,
        num_items_in_batch: Tensor | int | None = None,
        fused_lm_head: bool = False,
        **body: Any,  # what the body takes differs from model to model
    ) -> Any:
        """Labels are the inputs, shifted here, or `shift_labels`, which are shifted already."""
        output = self.base_model(**body)
        hidden = output.last_hidden_state
        if fused_lm_head:
            self._mixed = True
            return trl.fused_output(self.lm_head, hidden, labels, shift_labels, num_items_in_batch)
        targets = shift_labels
        if targets is None and labels is not None:
            targets = F.pad(labels, (0, 1), value=IGNORED)[:, 1:]  # token t predicts token t + 1
        keep = logits_to_keep if isinstance(logits_to_keep, Tensor) else slice(-logits_to_keep, None)
        loss, logits = self._head(hidden, targets, num_items_in_batch, keep)
        return CausalLMOutputWithCrossAttentions(
            loss=loss,
            logits=logits,
            past_key_values=output.past_key_values,
            hidden_states=output.hidden_states,
            attentions=output.attentions,
            cross_attentions=output.get("cross_attentions"),
        )


class _EncoderDecoderMixture(_Mixture):
    """BART, Marian, T5 and other encoder-decoder models."""

    auto_class = AutoModelForSeq2SeqLM

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The labels shifted right, by the model's own method if it has one (M2M100 and Blenderbot have none)."""
        if hasattr(self.plain, "prepare_decoder_input_ids_from_labels"):
            return super().prepare_decoder_input_ids_from_labels(labels)  # type: ignore[no-any-return]
        start = labels.new_full((len(labels), 1), self.config.decoder_start_token_id)
        shifted = torch.cat([start, labels[:, :-1]], 1)
        return shifted.masked_fill_(shifted == IGNORED, self.config.pad_token_id)

    @can_return_tuple  # type: ignore[untyped-decorator]
    def _forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,  # as above
    ) -> Seq2SeqLMOutput:
        """Without `decoder_input_ids` the decoder reads the labels, shifted right."""
        if labels is not None:
            use_cache = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        if encoder_outputs is None:
            encoder_outputs = self.get_encoder()(
                input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **kwargs
            )
        elif isinstance(encoder_outputs, tuple | list):
            encoder_outputs = BaseModelOutput(*encoder_outputs)
        decoder = self.get_decoder()(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            inputs_embeds=decoder_inputs_embeds,
            past_key_values=past_key_values,
            encoder_hidden_states=encoder_outputs[0],
            encoder_attention_mask=attention_mask,
            use_cache=use_cache,
            **kwargs,
        )
        hidden = decoder.last_hidden_state
        scaled_if_tied = self.config.model_type in SCALED_IF_TIED and self.config.tie_word_embeddings
        if getattr(self.config, "scale_decoder_outputs", scaled_if_tied):  # T5: its tied embeddings are of order one
            hidden = hidden * self.config.d_model**-0.5
        loss, logits = self._head(hidden, labels, num_items_in_batch)
        return Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            past_key_values=decoder.past_key_values,
            decoder_hidden_states=decoder.hidden_states,
            decoder_attentions=decoder.attentions,
            cross_attentions=decoder.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
        )
