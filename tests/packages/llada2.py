"""Writes the cases of llada2 (tests/packages/llada2): the gate as PyTorch computes it with view, topk and masked_fill.

Usage: a Python with numpy, onnx and torch: llada2.py.
"""

import numpy as np
import torch
from cases import Case, tolerances


def gate(scores, routing, n_group, topk_group, top_k, scaling):
    s, r = torch.from_numpy(scores), torch.from_numpy(routing)
    tokens, experts = r.shape
    grouped = r.view(tokens, n_group, -1)
    best = grouped.topk(min(2, grouped.shape[-1]), dim=-1)[0].sum(dim=-1)
    chosen = best.topk(topk_group, dim=-1, sorted=False)[1]
    mask = torch.zeros_like(best).scatter_(1, chosen, 1)
    mask = mask.unsqueeze(-1).expand(tokens, n_group, experts // n_group).reshape(tokens, -1)
    index = r.masked_fill(~mask.bool(), float("-inf")).topk(top_k, dim=-1)[1]
    weight = s.gather(1, index)
    if top_k > 1:
        weight = weight / (weight.sum(dim=-1, keepdim=True) + 1e-20)
    return index.numpy(), (weight * scaling).numpy()


def main():
    rng = np.random.default_rng(1)
    case, packed = Case("llada2", "gate"), Case("llada2", "gate_packed")
    # LLaDA2's own configuration (256 experts in 8 groups), one group, one expert, one expert a group.
    for tokens, experts, *rest in [(40, 256, 8, 4, 8, 2.5), (7, 16, 1, 1, 4, 1.0), (9, 24, 4, 2, 1, 1.5),
                                   (5, 8, 8, 3, 3, 1.0), (1, 64, 4, 4, 16, 0.5)]:
        scores = 1 / (1 + np.exp(-rng.standard_normal((tokens, experts)).astype(np.float32)))
        routing = scores + 0.1 * rng.standard_normal(experts).astype(np.float32)
        names = ("n_group", "topk_group", "top_k", "routed_scaling")
        index, weight = gate(scores, routing, *rest)
        attributes = dict(zip(names, rest))
        case.node("llada2.group_limited_gate", [scores, routing], [index, weight], **attributes)
        both = np.concatenate([index.astype(np.float32), weight], axis=1)
        packed.node("llada2.group_limited_gate_packed", [scores, routing], [both], **attributes)
    case.write()
    packed.write()
    tolerances("llada2", 1e-6, 1e-7)


if __name__ == "__main__":
    main()
