"""Exports the bench models into build/models and the encoder test into tests/models, with seeded random weights.

Usage: tools/models.py [--update] [NAME...]. The files are what PyTorch's exporter wrote, unedited; their hashes are
pinned in tools/models.sha256 (--update writes it). Runs in the export environment (tools/setup.sh export).
"""

import argparse
import hashlib
import io
import pathlib
import sys
import warnings

import numpy as np
import onnx
import torch
import torchvision
import transformers

import cases

OUTPUT = cases.ROOT / "build" / "models"
ENCODER = cases.ROOT / "tests" / "models" / "encoder"
PINS = cases.ROOT / "tools" / "models.sha256"
OPSET = 17


def randomise(module, rng):
    """Weights that keep activations finite and alive; drawn by NumPy, whose streams are the same on all machines."""
    def draw(tensor, mean, std):
        tensor.copy_(torch.from_numpy(rng.standard_normal(tuple(tensor.shape), np.float32) * np.float32(std) + np.float32(mean)))

    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, (torch.nn.Conv2d, torch.nn.Linear)):
                fan_in = part.weight[0].numel()
                draw(part.weight, 0, (2 / fan_in) ** 0.5 if isinstance(part, torch.nn.Conv2d) else fan_in**-0.5)
                if part.bias is not None:
                    draw(part.bias, 0, 0.05)
            elif isinstance(part, torch.nn.BatchNorm2d):
                draw(part.weight, 0.9, 0.1)
                draw(part.bias, 0, 0.1)
                draw(part.running_mean, 0, 0.1)
                part.running_var.copy_(torch.from_numpy(rng.uniform(0.8, 1.2, part.running_var.shape).astype(np.float32)))
            elif isinstance(part, torch.nn.LayerNorm):
                draw(part.weight, 1, 0.1)
                draw(part.bias, 0, 0.05)
            elif isinstance(part, torch.nn.Embedding):
                draw(part.weight, 0, 0.5)
    return module.eval()


def export(model, inputs, input_names, output_names, dynamic=None, opset=OPSET):
    """The bytes of the exporter's file."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, inputs, buffer, opset_version=opset, dynamo=False, input_names=input_names,
                          output_names=output_names, dynamic_axes=dynamic)
    return buffer.getvalue()


def export_vision(build, batch):
    model = randomise(build(weights=None), np.random.default_rng(17))
    dynamic = {"image": {0: "batch"}, "scores": {0: "batch"}} if batch else None
    return export(model, (torch.zeros(1, 3, 224, 224),), ["image"], ["scores"], dynamic)


def export_bert(config, length, opset=OPSET, **options):
    model = transformers.BertModel(config, **options)
    model = randomise(model, np.random.default_rng(17))
    ids = torch.arange(length).remainder(config.vocab_size).reshape(1, length)
    names = ["input_ids", "attention_mask", "token_type_ids"]
    outputs = ["last_hidden_state", "pooler_output"] if model.pooler else ["last_hidden_state"]
    dynamic = {name: {0: "batch", 1: "sequence"} for name in (*names, "last_hidden_state")}
    if model.pooler:
        dynamic["pooler_output"] = {0: "batch"}
    return export(model, (ids, torch.ones_like(ids), torch.zeros_like(ids)), names, outputs, dynamic, opset)


def export_encoder():
    """Two layers of width 64, small enough to be committed; opset 14, where the exporter decomposes LayerNorm and gelu."""
    config = transformers.BertConfig(vocab_size=48, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                     intermediate_size=80, max_position_embeddings=32, attn_implementation="eager")
    return export_bert(config, 12, opset=14, add_pooling_layer=False)


def encoder_inputs(rng, batch, length, pad=0):
    ids = rng.integers(1, 48, (batch, length))
    mask = np.ones((batch, length), np.int64)
    types = np.zeros((batch, length), np.int64)
    types[:, length // 2:] = 1
    for row in range(1, batch):
        mask[row, length - pad * row:] = 0
    return [ids, mask, types]


def write_encoder(data):
    model = onnx.load_model_from_string(data)
    rng = np.random.default_rng(17)
    names = [value.name for value in model.graph.input]
    session = cases.session(data)
    sets = []
    for inputs in (encoder_inputs(rng, 1, 12), encoder_inputs(rng, 3, 20, pad=4), encoder_inputs(rng, 1, 1)):
        sets.append((inputs, session.run(None, dict(zip(names, inputs)))))
    cases.write_case(ENCODER, model, sets, model_bytes=data)


MODELS = {
    "resnet50": lambda: export_vision(torchvision.models.resnet50, batch=False),
    "resnet50-batch": lambda: export_vision(torchvision.models.resnet50, batch=True),
    "mobilenetv2": lambda: export_vision(torchvision.models.mobilenet_v2, batch=False),
    "mobilenetv2-batch": lambda: export_vision(torchvision.models.mobilenet_v2, batch=True),
    "bert-base": lambda: export_bert(transformers.BertConfig(), 128),
    "encoder": export_encoder,
}


def path_of(name):
    return ENCODER / "model.onnx" if name == "encoder" else OUTPUT / f"{name}.onnx"


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def read_pins():
    lines = PINS.read_text().splitlines() if PINS.is_file() else []
    return {name: digest for digest, name in (line.split() for line in lines)}


def make(name):
    print(f"models: exporting {name}", flush=True)
    torch.manual_seed(17)
    data = MODELS[name]()
    if name == "encoder":
        write_encoder(data)
    else:
        OUTPUT.mkdir(parents=True, exist_ok=True)
        path_of(name).write_bytes(data)
    return sha256(path_of(name))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="export anew and pin the new hashes")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)}")
    arguments = parser.parse_args()
    pins, wrong = read_pins(), []
    for name in arguments.names or MODELS:
        if not arguments.update and name in pins and sha256(path_of(name)) == pins[name]:
            continue
        digest = make(name)
        if arguments.update:
            pins[name] = digest
        elif digest != pins.get(name):
            wrong.append(name)
    if arguments.update:
        PINS.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(pins.items())))
    if wrong:
        print(f"models: not as pinned in {PINS.name}: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
