#!/usr/bin/env python3
"""Makes tests/grad/*: small models with the gradients that PyTorch gives, as ONNX test cases. Run once by hand.

Each folder has model.onnx (weights are initializers under PyTorch's names), wrt.txt (the loss, then what to
differentiate by, a line each), and test_data_set_0 with the inputs and, as outputs, the gradients.
"""
import io
import pathlib
import sys

import onnx
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "grad"


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 3))

    def forward(self, x, target):
        return F.cross_entropy(self.body(x), target)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 4, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1, groups=2)
        self.up = nn.ConvTranspose2d(4, 3, 2, stride=2)
        self.head = nn.Linear(3 * 3 * 3, 3)

    def forward(self, x, target):
        y = F.relu(self.norm(self.conv1(x)))
        y = F.max_pool2d(self.conv2(y), 2)
        y = F.avg_pool2d(self.up(y), 3, stride=1, padding=1)
        y = F.adaptive_avg_pool2d(y, 1) + y[:, :, :3, :3]
        return F.cross_entropy(self.head(torch.flatten(y, 1)), target)


class Transformer(nn.Module):
    """A pre-norm block: attention with a causal mask, and a feed-forward layer."""

    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, target):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (y.reshape(b, t, self.heads, w // self.heads).transpose(1, 2) for y in (q, k, v))
        scores = q @ k.transpose(-1, -2) / (w // self.heads) ** 0.5
        mask = torch.triu(torch.full((t, t), -1e4), 1)
        y = torch.softmax(scores + mask, -1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(b, t, w))
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return F.mse_loss(x, target)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 5, bidirectional=True)
        self.head = nn.Linear(10, 3)

    def forward(self, x, target):
        y, (h, c) = self.lstm(x)
        return F.cross_entropy(self.head(y[-1]) + h.sum() * 0.1 + c.mean(), target)


def tensor(value, name, path):
    path.write_bytes(numpy_helper.from_array(value.detach().numpy(), name).SerializeToString())


def make(name, model, inputs):
    folder = ROOT / name
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    model.train()
    x, target = inputs
    x.requires_grad_(True)
    buffer = io.BytesIO()
    torch.onnx.export(model, (x, target), buffer, input_names=["x", "target"], output_names=["loss"], opset_version=17,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, dynamo=False)
    exported = onnx.load_from_string(buffer.getvalue())
    for node in exported.graph.node:
        node.ClearField("doc_string")
    onnx.save(exported, folder / "model.onnx")
    known = {i.name for i in exported.graph.initializer}
    model.zero_grad()
    model(x, target).backward()
    wrt = [("x", x)] + [(n, p) for n, p in model.named_parameters() if n in known]
    missing = [n for n, _ in model.named_parameters() if n not in known]
    if missing:
        sys.exit(f"{name}: the exporter renamed {missing}")
    (folder / "wrt.txt").write_text("".join(f"{n}\n" for n in ["loss"] + [n for n, _ in wrt]))
    tensor(x, "x", data / "input_0.pb")
    tensor(target, "target", data / "input_1.pb")
    for i, (n, p) in enumerate(wrt):
        tensor(p.grad, n + "_grad", data / f"output_{i}.pb")
    print(name, len(wrt), "gradients,", len(exported.graph.node), "nodes")


def main():
    torch.manual_seed(1)
    make("mlp", Mlp(), (torch.randn(4, 6), torch.tensor([0, 2, 1, 1])))
    make("cnn", Cnn(), (torch.randn(2, 2, 12, 12), torch.tensor([2, 0])))
    make("transformer", Transformer(), (torch.randn(2, 5, 8), torch.randn(2, 5, 8)))
    make("lstm", Lstm(), (torch.randn(6, 2, 4), torch.tensor([1, 2])))


if __name__ == "__main__":
    main()
