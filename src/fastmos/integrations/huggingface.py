"""The mixture as output layer of a Hugging Face model, causal or encoder-decoder.

`with_mixture(GPT2LMHeadModel)` is a model class like any other of transformers: `from_pretrained`, `save_pretrained`,
`generate` and `Trainer` work as usual. Its `lm_head` is a `MixtureOfSoftmaxes`, its `logits` are log-probabilities,
and its loss is the fused one.
"""

import functools
import inspect
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastmos.errors import InputError, needs_extra
from fastmos.heads import MixtureOfSoftmaxes

with needs_extra():
    from transformers import PreTrainedModel
    from transformers import initialization as init
    from transformers.modeling_outputs import BaseModelOutput, CausalLMOutputWithCrossAttentions, Seq2SeqLMOutput
    from transformers.utils.generic import can_return_tuple

__all__ = ["with_mixture"]

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


@functools.cache
def with_mixture(model_class: Any) -> Any:
    """The subclass of a transformers model whose output layer is a mixture; it takes one more argument, `mixtures`.

    `with_mixture(GPT2LMHeadModel)(config, mixtures=9)` is a new model. `.from_pretrained(name, mixtures=9)` takes body
    and embeddings from a plain model; prior and contexts are new. A model saved with a mixture needs no argument.
    """
    if not (inspect.isclass(model_class) and getattr(model_class, "can_generate", bool)()):
        raise InputError(f"with_mixture needs a transformers class that generates, not {model_class!r}")
    if issubclass(model_class, _Mixture):
        raise InputError(f"{model_class.__name__} already has a mixture; use it as it is")
    return _subclass(model_class)


def _subclass(plain: Any) -> type[Any]:
    arguments = inspect.signature(plain.forward).parameters
    if "past_key_values" not in arguments:  # Mamba, xLSTM
        raise InputError(f"{plain.__name__} has no past_key_values, which a mixture needs; use the plain class")
    kind = _EncoderDecoderMixture if "decoder_input_ids" in arguments else _CausalMixture
    return type(f"Mixture{plain.__name__}", (kind, plain), {"__module__": __name__, "plain": plain})


class _Mixture(PreTrainedModel):  # type: ignore[misc]  # transformers is untyped here
    """What both kinds of model share: building, initializing and resizing the head, and computing its loss."""

    plain: type[Any]  # the class the mixture was added to
    accepts_loss_kwargs = True  # Trainer: give us num_items_in_batch and do not divide by the accumulation steps again
    # Label smoothing of the fused loss in training. TrainingArguments has the same, but builds all logits.
    label_smoothing = 0.0
    # Where labels are given, logits are None unless this asks for them too (for `compute_metrics`).
    return_logits = False

    def __init__(self, config: Any, mixtures: int | None = None) -> None:
        mixtures = mixtures or getattr(config, "mixtures", None)
        if not mixtures:
            raise InputError(f"{type(self).__name__} needs the number of mixtures; give mixtures=9, for example")
        super().__init__(config)
        self._mixed = False
        self.lm_head: MixtureOfSoftmaxes = self._new_head(getattr(self, "lm_head", None), mixtures)
        self.config.mixtures = mixtures
        self.post_init()  # once more: the head must be there when weights are initialized and tied

    def _new_head(self, linear: nn.Module | None, mixtures: int) -> MixtureOfSoftmaxes:
        if not isinstance(linear, nn.Linear):
            raise InputError(
                f"{self.plain.__name__} has no linear lm_head, which the mixture would replace; use the plain class"
            )
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
        head = MixtureOfSoftmaxes(linear.in_features, linear.out_features, mixtures, bias=linear.bias is not None)
        head.weight = linear.weight
        if hasattr(self, "final_logits_bias"):  # BART, Marian: a fixed bias, ours too, and saved by them
            del head.bias
            head.register_buffer("bias", self.final_logits_bias[0], persistent=False)
        return head

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        head = getattr(self, "lm_head", None)
        if not isinstance(head, MixtureOfSoftmaxes):
            return
        if module is head and not self.config.tie_word_embeddings:
            super()._init_weights(_as_linear(head))
        if module is head.prior or module is head.latent:  # tanh sees values of order one, whatever the hidden size
            init.normal_(module.weight, std=module.in_features**-0.5)

    def _get_resized_lm_head(self, old_lm_head: MixtureOfSoftmaxes, *args: Any, **kwargs: Any) -> MixtureOfSoftmaxes:
        """For resize_token_embeddings: another number of tokens, the same prior and contexts."""
        linear = super()._get_resized_lm_head(_as_linear(old_lm_head), *args, **kwargs)
        old_lm_head.weight = linear.weight
        if linear.bias is not None:
            old_lm_head.bias = linear.bias
        return old_lm_head

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        if not isinstance(new_embeddings, MixtureOfSoftmaxes):
            raise InputError(
                f"a {type(new_embeddings).__name__} would take the mixture's place in {type(self).__name__}; "
                f"use {self.plain.__name__} for a model without a mixture"
            )
        super().set_output_embeddings(new_embeddings)

    def _get_name(self) -> str:
        return self.plain.__name__  # by this name Trainer's label smoothing knows whether to shift the labels

    def __reduce_ex__(self, protocol: Any) -> Any:
        """For pickle and copy: the class cannot be imported by name, so it is made again from the plain one."""
        if "plain" not in vars(type(self)):  # a subclass somebody wrote, which has a name
            return super().__reduce_ex__(protocol)
        return _blank, (self.plain,), self.__dict__

    def _check_routers(self, asked: bool | None = None) -> None:
        """Refuse a mixture of experts that is asked to add the loss of its routers: the fused loss lacks it."""
        if getattr(self.config, "output_router_logits", False) if asked is None else asked:
            raise InputError(
                f"{self.plain.__name__} adds a loss of its routers if output_router_logits is set, which the fused "
                "loss does not include; set it to False"
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse a forward that was replaced from outside and reads `lm_head.weight` as if it were the whole layer."""
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
        self._mixed = True
        if hasattr(self, "final_logits_bias"):
            self.lm_head.bias = self.final_logits_bias[0]
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


class _CausalMixture(_Mixture):
    """GPT-2, Llama and other causal models."""

    def __init__(self, config: Any, mixtures: int | None = None) -> None:
        super().__init__(config, mixtures)
        self.loss_type = "ForCausalLM"  # Trainer: the first label is no target, do not count it

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,  # what the body takes beyond these differs from model to model
    ) -> CausalLMOutputWithCrossAttentions:
        """Labels are the inputs, shifted here, or `shift_labels`, which are shifted already."""
        targets = kwargs.pop("shift_labels", None)  # in the signature it would be a label that Trainer waits for
        body = self.base_model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        if targets is None and labels is not None:
            targets = F.pad(labels, (0, 1), value=IGNORED)[:, 1:]  # token t predicts token t + 1
        keep = logits_to_keep if isinstance(logits_to_keep, Tensor) else slice(-logits_to_keep, None)
        loss, logits = self._head(body.last_hidden_state, targets, num_items_in_batch, keep)
        return CausalLMOutputWithCrossAttentions(
            loss=loss,
            logits=logits,
            past_key_values=body.past_key_values,
            hidden_states=body.hidden_states,
            attentions=body.attentions,
            cross_attentions=body.get("cross_attentions"),
        )


class _EncoderDecoderMixture(_Mixture):
    """BART, Marian, T5 and other encoder-decoder models."""

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The labels shifted right, by the model's own method if it has one (M2M100 and Blenderbot have none)."""
        if hasattr(self.plain, "prepare_decoder_input_ids_from_labels"):
            return super().prepare_decoder_input_ids_from_labels(labels)  # type: ignore[no-any-return]
        start = labels.new_full((len(labels), 1), self.config.decoder_start_token_id)
        shifted = torch.cat([start, labels[:, :-1]], 1)
        return shifted.masked_fill_(shifted == IGNORED, self.config.pad_token_id)

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
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


def _blank(plain: Any) -> Any:
    mixture = with_mixture(plain)
    return mixture.__new__(mixture)


def _as_linear(head: MixtureOfSoftmaxes) -> nn.Linear:
    """The layer that the head replaced, with its matrix and bias, for code that knows only linear layers."""
    linear = nn.Linear(head.weight.shape[1], head.weight.shape[0], bias=False, device="meta")
    linear.weight = head.weight
    if isinstance(head.bias, nn.Parameter):
        linear.bias = head.bias
    return linear
