"""A mixture whose vocabulary is split over the processes of a tensor-parallel job.

Each of P processes holds V / P rows of the output embedding and of the bias. Hidden states, prior and contexts are the
same everywhere, and so are loss and gradients, which are those of one process. For a chunk of n tokens the processes
exchange the largest logits [n, K], the sums of exponentials with the targets' logits [2, n, K], and the gradients by
the contexts [n, K, d], of which each process knows the part of its rows.
"""

import itertools
from collections.abc import Sequence
from typing import ClassVar, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from fastmos.heads.fused import Layer
from fastmos.heads.kernel import Kernel, Objective, Recipe, _mix, chunk_tokens, exact_dtype, slices
from fastmos.heads.log_probs import soft_capped
from fastmos.heads.modules import ContextKind, MixtureOfSoftmaxes
from fastmos.heads.products import linear
from fastmos.heads.targets import CheckedTargets

MAX, SUM = dist.ReduceOp.MAX, dist.ReduceOp.SUM
OWN = ("weight", "bias")  # parameters that have a row for each token


def split(vocab_size: int, processes: int) -> list[range]:
    """The tokens of each process: neighbors, as many as others have, or one more."""
    if vocab_size < processes:
        raise ValueError(f"vocab_size is {vocab_size} and there are {processes} processes; each needs a token")
    ends = [rank * vocab_size // processes for rank in range(processes + 1)]
    return [range(*pair) for pair in itertools.pairwise(ends)]


class ParallelKernel(Kernel):
    """Loss and gradients of one chunk, where each process has the logits of its own tokens."""

    group: ClassVar[ProcessGroup | None]
    first: ClassVar[int]  # of our tokens
    largest: ClassVar[int]  # number of tokens that a process has

    def __init__(
        self, recipe: Recipe, vocabulary: Sequence[Tensor | None], gradients: Sequence[Tensor | None], tokens: int
    ) -> None:
        weight = vocabulary[0]
        assert weight is not None
        self.vocabulary = vocabulary
        # All processes cut the tokens into the same chunks: those of the process that has most rows.
        most = weight[:1].expand(self.largest, -1)
        super().__init__(recipe, [most, None], gradients, tokens)
        self.vocab_size = len(weight)

    def make_products(
        self, recipe: Recipe, vocabulary: Sequence[Tensor | None], gradients: Sequence[Tensor | None]
    ) -> None:
        super().make_products(recipe, self.vocabulary, gradients)

    def chunk(
        self,
        made: Sequence[Tensor],
        targets: Tensor,
        probs: Tensor | None,
        scale: Tensor | None,
        d_made: Sequence[Tensor | None],
    ) -> tuple[Tensor, Tensor]:
        found = super().chunk(made, targets, probs, scale, d_made)
        if d_made[0] is not None:
            self.reduce(d_made[0], SUM)
        return found

    def reduce(self, values: Tensor, operation: dist.ReduceOp.RedOpType) -> Tensor:
        """Of all processes, in place."""
        dist.all_reduce(values, operation, group=self.group)
        return values

    def _target_only(
        self, logits: Tensor, log_prior: Tensor, targets: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        columns, ours = self._columns(targets, log_prior)  # [nK, 1], [nK]
        probs, log_z, at_target = self._normalize(logits, columns, ours)
        joint = (at_target - log_z[1]).view_as(log_prior) + log_prior  # log pi_k p_k(y)
        log_likelihood = torch.logsumexp(joint, 1, keepdim=True)
        share = torch.exp(joint - log_likelihood)  # r_k(y)
        loss = nll = -log_likelihood[:, 0]
        z_loss, d_log_z = self._z_loss(log_z.sum(0).view_as(share))
        probs.mul_((share + d_log_z).view(-1, 1)).scatter_add_(1, columns, -(share.view(-1) * ours)[:, None])
        return loss + z_loss, nll, probs, torch.ones_like(share), -share

    def _every_token(
        self, logits: Tensor, log_prior: Tensor, targets: Tensor, target_probs: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        assert self.second is not None
        n, mixtures = log_prior.shape
        columns, ours = self._columns(targets, log_prior)
        joint = self.second[: len(logits)]
        probs, log_z, _ = self._normalize(logits, columns, ours, joint)
        joint.add_((log_prior.reshape(-1) - log_z[1])[:, None]).clamp_(min=-1e30)
        log_probs, shares = _mix(joint.view(n, mixtures, -1))  # log P(v), r_k(v) of our tokens
        log_probs, shares = log_probs[:, : self.vocab_size], shares[:, :, : self.vocab_size]
        column, our = columns.view(n, -1)[:, :1], ours.view(n, -1)[:, :1]
        weights = torch.full_like(log_probs, self.objective.uniform)
        nll = -(log_probs.gather(1, column) * our)[:, 0]
        weights.scatter_add_(1, column, self.objective.target * our)
        shares = weights[:, None] if mixtures == 1 else shares.mul_(weights[:, None])
        parts = torch.cat([nll[:, None], -(weights * log_probs).sum(1, keepdim=True), shares.sum(2)], 1)
        parts = self.reduce(parts, SUM)  # of all processes
        nll, loss, total = parts[:, 0], parts[:, 1], parts[:, 2:]
        z_loss, d_log_z = self._z_loss(log_z.sum(0).view(n, mixtures))
        probs.view(n, mixtures, -1)[:, :, : self.vocab_size].mul_((total + d_log_z)[:, :, None]).sub_(shares)
        return loss + z_loss, nll, probs, torch.ones_like(total), -total

    def _columns(self, targets: Tensor, log_prior: Tensor) -> tuple[Tensor, Tensor]:
        """Where the target of each row of logits stands among our tokens [nK, 1], and 1 or 0: is it there? [nK]."""
        places = (targets - self.first)[:, None].expand_as(log_prior).reshape(-1)
        ours = (places >= 0) & (places < self.vocab_size)
        return places.clamp(0, self.vocab_size - 1)[:, None], ours.to(log_prior.dtype)

    def _normalize(
        self, logits: Tensor, columns: Tensor, ours: Tensor, shifted: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Our part of the softmax, in place; log Z in two parts [2, nK]; the targets' logits less the first [nK].

        `shifted` receives the logits less the first part.
        """
        top = self.reduce(logits.amax(1), MAX)
        logits -= top[:, None]
        if shifted is not None:
            shifted.copy_(logits)
        at_target = logits.gather(1, columns)[:, 0].where(ours > 0, 0.0)
        probs = logits.exp_()
        total, at_target = self.reduce(torch.stack([probs.sum(1), at_target]), SUM)
        return probs.div_(total[:, None]), torch.stack([top, total.log()]), at_target


class VocabularyParallelMixture(MixtureOfSoftmaxes):
    """A `MixtureOfSoftmaxes` of which each process of a group holds some rows of the embedding and of the bias.

    Every process calls it with the same hidden states and targets, and gets the same loss and, but for its rows, the
    same gradients; dropout needs the same random numbers everywhere. Log-probabilities have no gradients.
    """

    def __init__(
        self,
        hidden_size: int,
        vocab_size: int,
        mixtures: int,
        *,
        group: ProcessGroup | None = None,
        contexts: ContextKind = "tanh",
        embedding_size: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        softcap: float | None = None,
    ) -> None:
        rows = split(vocab_size, dist.get_world_size(group))
        own = rows[dist.get_rank(group)]
        with torch.random.fork_rng(devices=[]):  # processes draw unlike many numbers here, and equally many later
            super().__init__(
                hidden_size,
                len(own),
                mixtures,
                contexts=contexts,
                embedding_size=embedding_size,
                bias=bias,
                dropout=dropout,
                softcap=softcap,
            )
        self.vocab_size, self.group, self.rows, self.own = vocab_size, group, rows, own
        self.largest = max(map(len, rows))  # number of rows that a process has
        with torch.no_grad():  # with one seed everywhere, the rows would be the same everywhere
            self.weight.uniform_(-0.1, 0.1, generator=torch.Generator().manual_seed(torch.initial_seed() + own.start))
            for one in (*self.prior.parameters(), *self.latent.parameters()):
                dist.broadcast(one, group=group, group_src=0)

    @classmethod
    @torch.no_grad()
    def of(cls, head: MixtureOfSoftmaxes, group: ProcessGroup | None = None) -> Self:
        """The head, of which this process keeps copies of its rows: an embedding that was tied is so no more."""
        if type(head) is not MixtureOfSoftmaxes:
            raise TypeError(f"head is a {type(head).__name__}; only a MixtureOfSoftmaxes can be split over processes")
        made = cls(
            head.hidden_size,
            head.vocab_size,
            head.mixtures,
            group=group,
            contexts="tanh" if head.latent.scale is None else "residual",
            embedding_size=head.embedding_size,
            bias=head.bias is not None,
            dropout=head.dropout.p,
            softcap=head.softcap,
        ).to(head.weight)
        for name, one in made.named_parameters():
            values = head.get_parameter(name)
            one.copy_(values[made.own.start : made.own.stop] if name in OWN else values)
        return made.train(head.training)

    @torch.no_grad()
    def gather(self) -> MixtureOfSoftmaxes:
        """The head with all rows, the same on every process: to be saved, for example."""
        made = MixtureOfSoftmaxes(
            self.hidden_size,
            self.vocab_size,
            self.mixtures,
            contexts="tanh" if self.latent.scale is None else "residual",
            embedding_size=self.embedding_size,
            bias=self.bias is not None,
            dropout=self.dropout.p,
            softcap=self.softcap,
        ).to(self.weight)
        for name, one in made.named_parameters():
            values = self.get_parameter(name)
            one.copy_(self._joined(values.view(len(values), -1).t()).t().view_as(one) if name in OWN else values)
        return made.train(self.training)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    @torch.no_grad()
    def log_probs(self, hidden: Tensor) -> Tensor:
        rows = hidden.reshape(-1, hidden.shape[-1])  # [N, D]
        most = chunk_tokens(self.weight[:1].expand(self.largest, -1), self.mixtures, 2)
        result = rows.new_empty(len(rows), self.vocab_size, dtype=exact_dtype(rows.dtype))
        for here in slices(len(rows), most):
            result[here] = self._joined(self._own_log_probs(rows[here]))
        return result.view(*hidden.shape[:-1], self.vocab_size)

    def component_log_probs(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError("a vocabulary-parallel head has no softmax in one place; gather() it first")

    def _own_log_probs(self, hidden: Tensor) -> Tensor:
        """Those of our tokens [n, V / P]."""
        contexts, log_prior = self.parts(hidden)
        logits = soft_capped(linear(contexts, self.weight, self.bias), self.softcap)
        logits = logits.to(exact_dtype(logits.dtype))  # [n, K, V / P]
        top = logits.amax(-1, keepdim=True)
        dist.all_reduce(top, MAX, group=self.group)
        total = (logits - top).exp().sum(-1, keepdim=True)
        dist.all_reduce(total, SUM, group=self.group)
        return torch.logsumexp(logits - top - total.log() + log_prior[..., None], 1)

    def _joined(self, own: Tensor) -> Tensor:
        """Numbers of all tokens [n, V], where each process has those of its own [n, V / P]."""
        padded = nn.functional.pad(own, (0, self.largest - own.shape[1])).contiguous()
        parts = [torch.empty_like(padded) for _ in self.rows]
        dist.all_gather(parts, padded, group=self.group)
        return torch.cat([part[:, : len(rows)] for part, rows in zip(parts, self.rows, strict=True)], 1)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _fused(
        self, hidden: Tensor, targets: CheckedTargets, objective: Objective, per_token: bool
    ) -> tuple[Tensor, Tensor]:
        if objective.soft:
            raise ValueError("targets are probabilities, which a vocabulary-parallel head does not take; give tokens")
        return super()._fused(hidden, targets, objective, per_token)

    def _entropy(self, hidden: Tensor) -> Tensor:
        raise NotImplementedError("a vocabulary-parallel head has no entropy; make it of the log-probabilities")

    def _layer(self) -> Layer:
        inner = [*self.prior.parameters(), *self.latent.parameters()]
        ours = {"group": self.group, "first": self.own.start, "largest": self.largest}
        kernel: type[ParallelKernel] = type("OurKernel", (ParallelKernel,), ours)
        return Layer(self.parts, inner, [self.weight, self.bias], self.mixtures, kernel, self.softcap)


@torch.no_grad()
def grad_norm(model: nn.Module) -> Tensor:
    """The norm of all gradients of a model with parallel heads, the same on every process.

    To clip by: `torch.nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, grad_norm(model))`.
    `clip_grad_norm_` knows only the rows of its own process, and the shared parameters would drift apart.
    """
    heads = [module for module in model.modules() if isinstance(module, VocabularyParallelMixture)]
    split_ones = {id(one) for head in heads for one in (head.weight, head.bias)}
    total = _squares([one for one in model.parameters() if id(one) not in split_ones], next(model.parameters()))
    for head in heads:
        ours = _squares([one for one in (head.weight, head.bias) if one is not None], head.weight)
        dist.all_reduce(ours, SUM, group=head.group)
        total += ours
    return total.sqrt()


def _squares(parameters: Sequence[Tensor], like: Tensor) -> Tensor:
    """The sum of the squares of their gradients, where they have any."""
    norms = [torch.linalg.vector_norm(one.grad) for one in parameters if one.grad is not None]
    return torch.stack([like.new_zeros(()), *norms]).square().sum()
