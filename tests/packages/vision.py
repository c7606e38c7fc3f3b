"""Writes the cases of vision (tests/packages/vision): deformable attention as PyTorch computes it with grid_sample, the
pure Python path of Deformable DETR, and its gradients by autograd.

Usage: a Python with numpy, onnx and torch: vision.py.
"""

import numpy as np
import torch
import torch.nn.functional as F
from cases import Case, tolerances


def sample(value, shapes, locations, weights):
    """value [B,S,H,D], locations [B,Q,H,L,P,2], weights [B,Q,H,L,P] to [B,Q,H*D]."""
    batch, _, heads, width = value.shape
    queries, levels, points = locations.shape[1], locations.shape[3], locations.shape[4]
    grids, sampled = 2 * locations - 1, []
    for level, part in enumerate(value.split([h * w for h, w in shapes], dim=1)):
        h, w = shapes[level]
        image = part.flatten(2).transpose(1, 2).reshape(batch * heads, width, h, w)
        grid = grids[:, :, :, level].transpose(1, 2).flatten(0, 1)
        sampled.append(F.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=False))
    weights = weights.transpose(1, 2).reshape(batch * heads, 1, queries, levels * points)
    total = (torch.stack(sampled, dim=-2).flatten(-2) * weights).sum(-1)
    return total.view(batch, heads * width, queries).transpose(1, 2)


def attention(query, source, reference, weights, heads, points, shapes):
    batch, queries, _ = query.shape
    levels = len(shapes)
    value = F.linear(source, weights[0], weights[1]).view(batch, source.shape[1], heads, -1)
    offsets = F.linear(query, weights[2], weights[3]).view(batch, queries, heads, levels, points, 2)
    scores = F.linear(query, weights[4], weights[5]).view(batch, queries, heads, levels * points)
    scores = scores.softmax(-1).view(batch, queries, heads, levels, points)
    if reference.shape[-1] == 2:
        normalizer = torch.tensor([[w, h] for h, w in shapes], dtype=query.dtype)
        locations = reference[:, :, None, :, None, :] + offsets / normalizer[None, None, None, :, None, :]
    else:
        locations = (reference[:, :, None, :, None, :2]
                     + offsets / points * reference[:, :, None, :, None, 2:] * 0.5)
    return F.linear(sample(value, shapes, locations, scores), weights[6], weights[7])


def tensors(generator, *shapes):
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def operands(generator, batch, queries, width, heads, points, shapes, numbers):
    places, samples = sum(h * w for h, w in shapes), heads * len(shapes) * points
    query, source = tensors(generator, (batch, queries, width), (batch, places, width))
    reference = torch.rand((batch, queries, len(shapes), numbers), generator=generator, dtype=torch.float64)
    reference = reference * 1.2 - 0.1 if numbers == 2 else reference
    weights = tensors(generator, (width, width), (width,), (2 * samples, width), (2 * samples,), (samples, width),
                      (samples,), (width, width), (width,))
    return query, source, reference, [w / width**0.5 for w in weights]


ROWS = [  # batch (0: none), queries, width, heads, points, level shapes, numbers of a reference point
    (0, 9, 16, 4, 2, [(6, 8), (3, 4)], 2),
    (2, 40, 32, 8, 4, [(8, 11), (4, 6), (2, 3), (1, 2)], 4),
    (1, 33, 24, 2, 3, [(5, 3)], 2),
    (3, 1, 8, 1, 1, [(1, 1), (2, 2)], 4),
]


def forward(generator):
    case = Case("vision", "ms_deform_attn")
    for batch, queries, width, heads, points, shapes, numbers in ROWS:
        query, source, reference, weights = operands(generator, max(batch, 1), queries, width, heads, points, shapes,
                                                     numbers)
        rounded = [t.float() for t in (query, source, reference, *weights)]
        exact = [t.double() for t in rounded]
        y = attention(*exact[:3], exact[3:], heads, points, shapes)
        if batch == 0:
            rounded[:3] = [t[0] for t in rounded[:3]]
            y = y[0]
        case.node("gdino.ms_deform_attn", [t.numpy() for t in rounded], [y.float().numpy()], num_heads=heads,
                  num_points=points, level_shapes=[n for shape in shapes for n in shape])
    case.write()


def sampling(generator):
    case = Case("vision", "ms_deform_sample")
    for batch, queries, heads, width, points, shapes in ((2, 7, 3, 5, 2, [(4, 5), (2, 3)]), (1, 20, 8, 32, 4, [(6, 6)])):
        places = sum(h * w for h, w in shapes)
        value, = tensors(generator, (batch, places, heads, width))
        locations = torch.rand((batch, queries, heads, len(shapes), points, 2), generator=generator) * 1.4 - 0.2
        weights = torch.rand((batch, queries, heads, len(shapes), points), generator=generator)
        value = value.float()
        y = sample(value.double(), shapes, locations.double(), weights.double())
        case.node("vision.ms_deform_sample", [value.numpy(), np.array(shapes), locations.numpy(), weights.numpy()],
                  [y.float().numpy()])
        inputs = [t.double().requires_grad_() for t in (value, locations, weights)]
        grad, = tensors(generator, (batch, queries, heads * width))
        grad = grad.float()
        sample(inputs[0], shapes, inputs[1], inputs[2]).backward(grad.double())
        case.node("vision.ms_deform_sample_grad",
                  [value.numpy(), np.array(shapes), locations.numpy(), weights.numpy(), grad.numpy()],
                  [t.grad.float().numpy() for t in inputs])
    case.write()


def main():
    generator = torch.Generator().manual_seed(3)
    forward(generator)
    sampling(generator)
    tolerances("vision", 1e-4, 1e-5)


if __name__ == "__main__":
    main()
