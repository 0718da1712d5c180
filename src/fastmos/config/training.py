"""The sections `data`, `training` and `search`."""

from typing import Annotated, Literal

from pydantic import Field

from fastmos.config.base import Count, Fraction, NonNegative, Positive, Section, Seed

METRICS = {"bleu": "BLEU", "nll": "NLL per word", "cider": "CIDEr"}  # of early stopping, and how they are printed


class SplitFiles(Section):
    """The files of one split; a language model has targets only."""

    source: str = ""
    """text to translate, line by line with target; of captions, a list of their images"""
    target: str = ""
    """text to learn: a file, plain or gzip, relative to the YAML file; ${NAME} is taken from the environment"""


class Data(Section):
    """Files to train, validate and test on."""

    train: SplitFiles = SplitFiles()
    """what the model is trained on"""
    valid: SplitFiles = SplitFiles()
    """what early stopping and the choice of the best weights are evaluated on"""
    test: SplitFiles = SplitFiles()
    """what `fastmos evaluate RUN` takes when it is given no files"""
    features: str = ""
    """captioning: features of all images, a file that `fastmos features` made, or an .npz"""
    backbone: str = ""
    """captioning: the network that made the features; only an .npz does not say"""
    max_length: Count = 256
    """longer lines (in tokens) are left out of training and cut when translated"""
    cache: str = ""
    """folder for the tokenized text, relative to the YAML file; empty: inside the run folder"""


class Training(Section):
    """Optimization, its length, and what is kept."""

    optimizer: Literal["sgd", "adam"] = "adam"
    """which optimizer"""
    learning_rate: Positive = 1e-3
    """learning rate (the peak, for schedules with a warm-up)"""
    adam_betas: tuple[Fraction, Fraction] = (0.9, 0.999)
    """decay rates of Adam's averages"""
    adam_eps: Positive = 1e-8
    """Adam's epsilon"""
    lr_schedule: Literal["constant", "plateau", "inverse-sqrt", "linear"] = "constant"
    """how the learning rate changes"""
    warmup_steps: NonNegative = 0
    """steps of linear warm-up (not for plateau)"""
    lr_decay: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """plateau: factor on the learning rate after a validation without improvement"""
    max_lr_decays: NonNegative = 6
    """plateau: at most so many times"""
    batch_size: NonNegative = 0
    """sentences (running text: streams) in a batch of one process; or"""
    batch_tokens: NonNegative = 0
    """tokens of the longer side in a batch, padding included; give one of the two"""
    bptt_length: NonNegative = 0
    """language model: tokens of each stream of running text in a batch; 0: trains on sentences"""
    accumulate_steps: Count = 1
    """batches whose gradients are accumulated before each step"""
    loss_normalization: Literal["tokens", "sentences"] = "tokens"
    """what the summed loss of a step is divided by"""
    clip_grad_norm: Annotated[float, Field(ge=0)] = 5.0
    """largest norm of the gradient; 0: no clipping"""
    label_smoothing: Fraction = 0.0
    """probability taken from the target"""
    label_smoothing_kind: Literal["uniform", "others"] = "uniform"
    """given to all tokens (torch) or to all but the target (THUMT)"""
    max_epochs: NonNegative = 30
    """at most so many epochs; 0: no limit"""
    max_steps: NonNegative = 0
    """at most so many steps; 0: no limit"""
    validate_every: NonNegative = 0
    """steps between validations; 0: at the end of each epoch"""
    save_every: NonNegative = 0
    """steps between saves for resuming; 0: at validations only"""
    log_every: Count = 100
    """steps between lines of the log"""
    early_stopping_metric: Literal["bleu", "nll", "cider"] = "bleu"
    """which metric selects the best weights (of captions, bleu is BLEU-4)"""
    early_stopping_patience: NonNegative = 0
    """stop after so many validations without improvement; 0: never"""
    keep_best: NonNegative = 1
    """how many of the best checkpoints to keep,"""
    keep_last: NonNegative = 1
    """and how many of the last"""
    autocast: Literal["none", "bf16", "fp16"] = "none"
    """precision of the forward pass"""
    seed: Seed = 1
    """of parameters, data order and dropout"""
    log_to: Literal["none", "tensorboard", "wandb"] = "none"
    """log metrics to TensorBoard or Weights & Biases too, where installed"""


class Search(Section):
    """How outputs are searched for."""

    beam_size: Count = 5
    """hypotheses kept"""
    length_penalty: Annotated[float, Field(ge=0)] = 0.0
    """alpha of GNMT's length penalty (Wu et al. 2016); 0: none"""
    max_length: Count = 100
    """tokens of an output, at most"""
