"""The ONNX package's light models with seeded random weights, random inputs and ONNX Runtime's outputs.

The package's own weights are constants, which would hide a wrong layout. Here each node's weights are drawn when its
inputs are known, so that activations neither vanish nor explode: convolutions by He's rule, normalisations from the
statistics of what they normalise, the last layer so that the softmax is far from uniform.
"""

import numpy as np
import onnx
from onnx import helper, numpy_helper

import cases

RTOL = 1e-3
ATOL_OF_LARGEST = 1e-5
EXTERNAL_BYTES = 400 << 20  # larger models keep their weights in weights.bin
PARAMETER_INPUTS = {"Conv": (1, 2), "Gemm": (1, 2), "BatchNormalization": (1, 2, 3, 4), "Unsqueeze": (0,)}


def rounded(values):
    """Float32 with three digits, so that a last bit of a statistic does not change the model."""
    values = np.asarray(values, np.float64)
    scale = 10.0 ** (2 - np.floor(np.log10(np.maximum(np.abs(values), 1e-12))))
    return (np.round(values * scale) / scale).astype(np.float32)


class Drawing:
    """Replaces the weights of one model while evaluating it node by node."""

    def __init__(self, model, seed):
        self.model = model
        self.rng = np.random.default_rng(seed)
        self.shapes = {t.name: tuple(t.dims) for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT}
        self.kept = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer if t.name not in self.shapes}
        self.drop_constant_nodes()
        self.sources = {}  # name of a reshaped weight: the weight's own name
        self.find_reshaped_weights()
        self.values = dict(self.kept)
        self.drawn = {}

    def drop_constant_nodes(self):
        """ConstantOfShape nodes stand for weights: they become initializers."""
        for node in [n for n in self.model.graph.node if n.op_type == "ConstantOfShape"]:
            self.shapes[node.output[0]] = tuple(int(d) for d in self.kept.pop(node.input[0]))
            self.model.graph.node.remove(node)

    def find_reshaped_weights(self):
        for node in self.model.graph.node:
            if node.op_type == "Reshape" and node.input[0] in self.shapes:
                shape = [int(d) for d in self.kept[node.input[1]]]
                size = int(np.prod(self.shapes[node.input[0]]))
                self.shapes[node.output[0]] = tuple(np.empty(size, np.int8).reshape(shape).shape)
                self.sources[node.output[0]] = node.input[0]

    def normal(self, name, std):
        return self.rng.standard_normal(self.shapes[name], np.float32) * np.float32(std)

    def uniform(self, name, low, high):
        return self.rng.uniform(low, high, self.shapes[name]).astype(np.float32)

    def set(self, name, value):
        self.values[name] = value
        source = self.sources.get(name, name)
        self.drawn[source] = value.reshape(self.shapes[source])

    def draw_linear(self, node, gain):
        """Conv and Gemm: zero-mean weights with variance gain / fan-in, relative to the input's second moment."""
        weight = node.input[1]
        shape = self.shapes[weight]
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        in_axis0 = node.op_type == "Gemm" and not attributes.get("transB", 0)
        fan_in = shape[0] if in_axis0 else int(np.prod(shape[1:]))
        moment = float(np.sqrt(np.mean(np.square(self.values[node.input[0]], dtype=np.float64))))
        self.set(weight, self.normal(weight, rounded(np.sqrt(gain / fan_in) / max(moment, 1e-6))))
        if len(node.input) > 2:
            self.set(node.input[2], self.normal(node.input[2], 0.2))

    def draw_normalisation(self, node):
        source, scale, bias, mean, variance = node.input
        data = self.values[source].astype(np.float64)
        axes = (0, *range(2, data.ndim))
        spread = data.var(axis=axes) + 1e-3
        self.set(scale, self.uniform(scale, 0.5, 1.5))
        self.set(bias, self.normal(bias, 0.2))
        self.set(mean, rounded(data.mean(axis=axes) + 0.1 * np.sqrt(spread) * self.normal(mean, 1)))
        self.set(variance, rounded(spread * self.uniform(variance, 0.7, 1.4)))

    def draw_scale_or_shift(self, node):
        """A per-channel vector, unsqueezed for the Mul or Add of a scale layer."""
        name = node.input[0]
        users = {user.op_type for user in self.model.graph.node if node.output[0] in user.input}
        self.set(name, self.uniform(name, 0.5, 1.5) if users == {"Mul"} else self.normal(name, 0.2))

    def draw(self, node, is_last_linear):
        wanted = [node.input[i] for i in PARAMETER_INPUTS.get(node.op_type, ()) if i < len(node.input)]
        if not any(name in self.shapes and name not in self.values for name in wanted):
            return
        if node.op_type in ("Conv", "Gemm"):
            self.draw_linear(node, gain=6.0 if is_last_linear else 2.0)
        elif node.op_type == "BatchNormalization":
            self.draw_normalisation(node)
        else:
            self.draw_scale_or_shift(node)

    def evaluate(self, node):
        """Runs one node by ONNX Runtime."""
        names = [name for name in dict.fromkeys(node.input) if name]
        inputs = [helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(self.values[name].dtype), self.values[name].shape) for name in names]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output[:1]]
        single = onnx.NodeProto()
        single.CopyFrom(node)
        del single.output[1:]
        model = helper.make_model(helper.make_graph([single], "node", inputs, outputs),
                                  opset_imports=self.model.opset_import, ir_version=8)
        feeds = {name: self.values[name] for name in names}
        self.values[node.output[0]] = cases.session(model.SerializeToString()).run(None, feeds)[0]

    def run(self, feeds):
        self.values.update(feeds)
        linear = [node for node in self.model.graph.node if node.op_type in ("Conv", "Gemm")]
        for node in self.model.graph.node:
            if node.output[0] in self.sources:
                continue
            self.draw(node, node is linear[-1])
            self.evaluate(node)

    def finish(self):
        """Puts the drawn weights into the model: initializers, listed as inputs, as IR version 3 asks."""
        graph = self.model.graph
        fed = cases.graph_inputs(self.model)
        constants = {**self.kept, **{n: self.drawn.get(n, np.zeros(s, np.float32)) for n, s in self.shapes.items()}}
        constants = {n: v for n, v in constants.items() if n not in self.sources and any(n in node.input for node in graph.node)}
        del graph.initializer[:], graph.input[:]
        graph.input.extend(fed)
        for name, value in constants.items():
            graph.initializer.append(numpy_helper.from_array(value, name))
            graph.input.append(helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))
        return sum(value.nbytes for value in constants.values())


def write_case(folder, model, seed):
    """Writes one test-case folder for the topology of model, and returns its (rtol, atol)."""
    drawing = Drawing(model, seed)
    feeds = {}
    for value in cases.graph_inputs(model):
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        feeds[value.name] = drawing.rng.standard_normal(shape, np.float32)
    drawing.run(feeds)
    size = drawing.finish()
    cases.write_case(folder, model, [], external=size > EXTERNAL_BYTES)
    outputs = cases.session(str(folder / "model.onnx")).run(None, feeds)
    softmax = model.graph.node[-1].op_type == "Softmax"
    for output in outputs:
        if not np.all(np.isfinite(output)) or output.std() < 1e-4 or (softmax and output.max() > 0.9):
            raise ValueError(f"{folder.name}: degenerate outputs")
    cases.write_data_set(folder / "test_data_set_0", model, list(feeds.values()), outputs)
    return RTOL, max(1e-7, float(f"{ATOL_OF_LARGEST * max(np.abs(output).max() for output in outputs):.1g}"))
