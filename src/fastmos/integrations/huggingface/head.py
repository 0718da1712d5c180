"""The head of a Hugging Face model: made in place of its linear layer, initialized, resized."""

import inspect
from typing import Any

import torch
from torch import nn

from fastmos.errors import InputError, needs_extra
from fastmos.heads import HEADS, Head, build_head
from fastmos.heads.shortlist import Shortlist

with needs_extra():
    from transformers import initialization as init

OPTIONS = {  # of heads, and what to say where a head cannot do without
    "mixtures": "the number of mixtures; give mixtures=9, for example",
    "shortlist": "a shortlist; give shortlist=2000 for the tokens 0 to 1999, or their ids (see fastmos.best_shortlist)",
    "contexts": "",
}


def head_options(head: str, name: str, saved: dict[str, Any] | None, given: dict[str, Any]) -> dict[str, Any]:
    """The options of a head: those saved with the model, or those given to a new one."""
    arguments = inspect.signature(HEADS[head]).parameters
    known = [option for option in OPTIONS if option in arguments]
    given = {option: value for option, value in given.items() if value is not None}
    for option, value in given.items():
        if option not in known:
            raise InputError(f"{option} was given to {name}, whose head has no such option; leave it out")
        if saved is not None and value != saved.get(option):
            raise InputError(f"{option}={value} was given, but the saved {name} has {saved.get(option)}; leave it out")
    if saved is not None:
        return {option: saved.get(option) for option in known}
    given.setdefault("contexts", "residual")
    for option in known:
        if option not in given and arguments[option].default is inspect.Parameter.empty:
            raise InputError(f"{name} needs {OPTIONS[option]}")
    return {option: given.get(option) for option in known}


def replace_linear(linear: nn.Module | None, head: str, options: dict[str, Any], bias: bool, name: str) -> Head:
    """A head with the matrix and the bias of a linear layer."""
    if not isinstance(linear, nn.Linear):
        raise InputError(f"{name} has no linear lm_head, which the mixture would replace; use the plain class")
    made = _new_head(linear, head, options, bias)
    made.to(linear.weight.dtype)
    if linear.weight.is_meta:
        made.to("meta")
    made.weight = linear.weight
    if bias:
        made.bias = linear.bias
    return made


def _new_head(linear: nn.Linear, head: str, options: dict[str, Any], bias: bool) -> Head:
    """A head with values of its own, but for its matrix, which is left out."""
    with torch.device("cpu"):
        size = linear.out_features, linear.in_features
        made = build_head(head, size[1], size[0], embedding=nn.Embedding(*size, device="meta"), bias=bias, **options)
    made.weight = None  # type: ignore[assignment]
    for module in made.modules():
        if isinstance(module, nn.Linear):  # tanh sees values of order one, whatever the hidden size
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return made


def initialize(module: nn.Module, head: Head, kind: str, options: dict[str, Any]) -> None:
    """Give a part of the head its first values, those that were not loaded."""
    names = {part: name for name, part in head.named_modules()}
    values = _new_head(as_linear(head), kind, options, bias=head.bias is not None).get_submodule(names[module])
    mine = dict([*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)])
    theirs = dict([*values.named_parameters(recurse=False), *values.named_buffers(recurse=False)])
    for name in mine.keys() & theirs.keys():  # the fixed bias of a BART is a buffer of ours and a parameter of theirs
        if isinstance(mine[name], nn.Parameter) == isinstance(theirs[name], nn.Parameter):
            init.copy_(mine[name], theirs[name])


def check_size(head: Head, tokens: int) -> None:
    """Refuse a number of tokens that the head cannot be resized to, while it is as it was."""
    shortlist = getattr(head, "shortlist", None)
    if isinstance(shortlist, Shortlist) and int(shortlist.ids.max()) >= tokens:
        raise InputError(f"{tokens} tokens would leave out some of the shortlist; keep those of its tokens")
    if isinstance(shortlist, Shortlist) and len(shortlist) == tokens:
        raise InputError(f"{tokens} tokens would all be in the shortlist; keep at least one more")


def resize(head: Head, linear: nn.Linear) -> None:
    """The matrix and the bias of a layer with another number of tokens; all else stays."""
    head.weight, head.vocab_size, weight = linear.weight, len(linear.weight), linear.weight
    if isinstance(head.bias, nn.Parameter):
        head.bias = linear.bias
    shortlist = getattr(head, "shortlist", None)
    if isinstance(shortlist, Shortlist):
        head.shortlist = Shortlist(shortlist.ids, len(weight)).to(weight.device)


def as_linear(head: Head) -> nn.Linear:
    """The layer that the head replaced, with its matrix and bias, for code that knows only linear layers."""
    linear = nn.Linear(head.weight.shape[1], head.weight.shape[0], bias=False, device="meta")
    linear.weight = head.weight
    if isinstance(head.bias, nn.Parameter):
        linear.bias = head.bias
    return linear
