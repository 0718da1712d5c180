"""`torch.compile(fullgraph=True)` for training and for generation with a static cache: one graph, the same numbers."""

import functools
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")
from tests.integrations.tiny_models import CAUSAL, FEW, build, inputs, mixture  # noqa: E402

BACKEND = "aot_eager"  # captures everything, and leaves out the slow search for kernels


graph: Any = functools.partial(torch.compile, fullgraph=True, backend=BACKEND)
LAYERDROP = ("bart", "marian")  # they draw the layers to skip, which no graph can hold, nor that of the plain class


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("family", FEW)
def test_training(family: str) -> None:
    batch = inputs(family)
    labels = batch["input_ids"].clone()
    labels[0, 2:4] = -100
    found: list[Any] = []
    for compiled in (False, True):
        model = mixture(family).train(family not in LAYERDROP)
        called = graph(model) if compiled else model
        loss = called(**batch, labels=labels).loss
        loss.backward()
        found.append([loss.detach(), *(one.grad for one in model.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("family", LAYERDROP)
def test_the_plain_class_cannot_train_in_one_graph_either(family: str) -> None:
    model_class, config = build(family)
    compiled = graph(model_class(config).train())
    with pytest.raises(torch._dynamo.exc.Unsupported, match="Data-dependent branching"):
        compiled(**inputs(family))


@pytest.mark.parametrize("family", FEW)
def test_logits(family: str) -> None:
    model, batch = mixture(family), inputs(family)
    compiled = graph(model)
    with torch.no_grad():
        torch.testing.assert_close(compiled(**batch).logits, model(**batch).logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", [family for family in FEW if family in CAUSAL])
def test_generation_with_a_static_cache(family: str) -> None:
    model, tokens = mixture(family), inputs(family)["input_ids"]
    settings = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(tokens, **settings)
    calls = 0

    def counting(graph: Any, example: Any) -> Any:
        nonlocal calls
        calls += 1
        return graph.forward

    model.forward = torch.compile(model.forward, fullgraph=True, backend=counting)
    found = model.generate(tokens, cache_implementation="static", disable_compile=True, **settings)
    assert torch.equal(found, expected)
    assert 1 <= calls <= 3  # the prompt, a token
