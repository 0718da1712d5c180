"""An LSTM whose single steps can be packed for search."""

import torch
from torch import Tensor, nn

from fastmos.heads.products import PackedProduct


class LSTM(nn.LSTM):
    """`nn.LSTM` of one direction, batch first: same parameters, same state dict."""

    packed: list[PackedProduct] | None = None  # one a layer, of a copy for search (`fastmos.heads.packed`)

    def pack_(self, int8: bool) -> None:
        """Make one product of the two of each layer, and put the three gates side by side."""

        def joined(names: tuple[str, str], layer: int, how: str) -> Tensor:
            first, second = (getattr(self, f"{name}_l{layer}").detach() for name in names)
            both = torch.cat([first, second], 1) if how == "beside" else first + second
            i, f, g, o = both.chunk(4)
            return torch.cat([i, f, o, g])

        self.packed = [
            PackedProduct(
                joined(("weight_ih", "weight_hh"), layer, "beside"), joined(("bias_ih", "bias_hh"), layer, "sum"), int8
            )
            for layer in range(self.num_layers)
        ]

    def forward(  # type: ignore[override]
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        if self.packed is None or hx is None or input.shape[1] != 1:
            return super().forward(input, hx)
        x, hidden, cells, size = input[:, 0], [], [], self.hidden_size
        for product, before, cell in zip(self.packed, *hx, strict=True):
            gates = product(torch.cat([x, before], 1))  # [N, 4D]
            i, f, o = gates[:, : 3 * size].sigmoid_().chunk(3, 1)
            cells.append((i * gates[:, 3 * size :].tanh_()).addcmul_(f, cell))
            x = o * cells[-1].tanh()
            hidden.append(x)
        return x[:, None], (torch.stack(hidden), torch.stack(cells))
