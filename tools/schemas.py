"""Compares the registered ops (rlx ops --json) with every operator version of the installed onnx package.

Usage: tools/schemas.py RLX. For each (domain, operator, since_version) the record that rlx would take must exist, and
have the operator's attributes (name, kind, default, required), inputs and outputs (number, names, optional, variadic,
other kinds of values) and element types. A record may serve several versions: what it has beyond one of them must come
from another that it serves; of element types it may take more. Prints each difference; the exit code says whether there are any that EXPECTED does not list.
"""

import json
import subprocess
import sys

import onnx
from onnx.defs import OpSchema

Option = OpSchema.FormalParameterOption

# Differences that are meant: (operator, or * for any; the beginning of the difference; why).
EXPECTED = (
    ("*", "attribute consumed_inputs", "without meaning since opset 1, and left out by files that should have it"),
    ("onnx.Clip", "attribute m", "versions 1 and 6 differ: a bound that is not written does not bound"),
    ("onnx.Concat", "attribute axis: default 1", "what the text of version 1 says"),
    ("onnx.GRU", "attribute direction: default 'forward', not 'foward'", "a slip of version 1"),
    ("onnx.GridSample", "attribute mode: default 'linear', not 'bilinear'", "version 16's names of the same modes"),
    ("onnx.Loop", "input 2 (v_initial): at least 0", "version 1 wanted a carried value; newer ones do not"),
    ("onnx.LpPool", "attribute kernel_shape: required", "without it version 1 means nothing"),
    ("onnx.LpPool", "attribute dilations", "of version 18, without effect unless given"),
    ("onnx.RNN", "attribute activations: default None", "the same functions, chosen by the number of directions"),
    ("onnx.RoiAlign", "attribute coordinate_transformation_mode", "of version 16, with version 10's mode as default"),
    ("onnx.SequenceEmpty", "attribute dtype: default 1", "what the text says: float"),
    ("onnx.StringSplit", "attribute maxsplit: default -1", "what the text says: no limit"),
    ("onnx.Col2Im", "", "sums of strings do not exist; sums of complex numbers are not offered"),
    ("onnx.GridSample", "", "means of strings do not exist; those of complex numbers are not offered"),
    ("onnx.Erf", "", "an integer's error function is -1, 0 or 1: not offered"),
    ("ai.onnx.preview.training.Ada", "input 2 (inputs): at least 3", "a tensor, its gradient and its state are three"),
    ("ai.onnx.preview.training.Momentum", "input 2 (inputs): at least 3", "as above"),
    ("ai.onnx.preview.training.Gradient", "no such op", "not offered yet"),
)


def expected(name, difference):
    for operator, start, _ in EXPECTED:
        if operator != "*" and not name.startswith(operator):
            continue
        if difference.startswith(start) if start else "does not take" in difference:
            return True
    return False


def record_name(schema):
    return ("onnx" if schema.domain in ("", "ai.onnx") else schema.domain) + "." + schema.name


def default_of(attribute):
    """The default as the record would have it: ONNX leaves most zero and empty ones unsaid."""
    kind = attribute.type.name.lower()
    value = attribute.default_value
    if value is None or not value.name:
        return {"int": 0, "float": 0.0, "string": "", "ints": [], "floats": []}.get(kind)
    value = onnx.helper.get_attribute_value(value)
    if isinstance(value, bytes):
        return value.decode()
    return list(value) if kind in ("ints", "floats") else value


def same_value(a, b):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b))
    if isinstance(a, float) or isinstance(b, float):
        return abs(a - b) <= 1e-6 * max(abs(a), abs(b))
    return a == b


def attribute_differences(schema, record, group):
    have = {a["name"]: a for a in record["attributes"]}
    for name, attribute in schema.attributes.items():
        a = have.get(name)
        kind = attribute.type.name.lower()
        if a is None:
            yield f"attribute {name} is missing"
            continue
        # Sparse tensors are made dense when a model is read; a type needs no name of its own.
        same = {"string": ("bytes",), "sparse_tensor": ("tensor",), "type_proto": ("type",)}
        if a["kind"] not in (kind, *same.get(kind, ())):
            yield f"attribute {name} is {a['kind']}, not {kind}"
        if bool(a.get("required")) != attribute.required:
            others = [s.attributes[name].required for s in group if name in s.attributes]
            if a.get("required") or not any(not r for r in others):
                yield f"attribute {name}: required is {bool(a.get('required'))}, not {attribute.required}"
        elif not attribute.required and not same_value(a.get("default"), default_of(attribute)):
            yield f"attribute {name}: default {a.get('default')!r}, not {default_of(attribute)!r}"
    known = {name for s in group for name in s.attributes}
    for name in have:
        if name not in known:
            yield f"attribute {name} is not ONNX's"


def parameter_types(schema, parameter):
    """Element types as rlx names them, and whether anything but tensors is permitted."""
    tensors, others = set(), False
    for text in parameter.types:
        if text.startswith("tensor("):
            tensors.add(text[len("tensor(") : -1])
        else:
            others = True
    return tensors, others


def port_of(ports, i):
    if i < len(ports):
        return ports[i]
    return ports[-1] if ports and ports[-1].get("variadic") else None


def port_differences(kind, schema, parameters, ports, group_parameters):
    for i, parameter in enumerate(parameters):
        port = port_of(ports, i)
        label = f"{kind} {i} ({parameter.name})"
        if port is None:
            yield f"{label} is missing"
            continue
        if kind == "input" and parameter.option == Option.Single and port.get("optional"):
            if not any(i < len(p) and p[i].option == Option.Optional or i >= len(p) for p in group_parameters):
                yield f"{label} is optional"
        if kind == "input" and parameter.option == Option.Optional and not port.get("optional") and not port.get("variadic"):
            yield f"{label} is not optional"
        if (parameter.option == Option.Variadic) != bool(port.get("variadic")):
            yield f"{label}: variadic is {bool(port.get('variadic'))}"
        if parameter.option == Option.Variadic and port.get("variadic"):
            if kind == "input" and port["min_count"] != parameter.min_arity:
                yield f"{label}: at least {port['min_count']}, not {parameter.min_arity}"
            if parameter.is_homogeneous == bool(port.get("heterogeneous")):
                yield f"{label}: heterogeneous is {bool(port.get('heterogeneous'))}"
        tensors, others = parameter_types(schema, parameter)
        permitted = set(port["dtypes"])
        if others and not port.get("any_kind"):
            yield f"{label} must also take values that are no tensors"
        if tensors - permitted:
            yield f"{label} does not take {', '.join(sorted(tensors - permitted))}"
    if len(ports) > max(len(p) for p in group_parameters):
        yield f"{len(ports)} {kind}s, not {len(parameters)}"


def main():
    listing = json.loads(subprocess.run([sys.argv[1], "ops", "--json"], check=True, stdout=subprocess.PIPE).stdout)
    records = {}
    for record in listing:
        if record["owner"] == "rlx":
            records.setdefault(record["name"], []).append(record)
    schemas = onnx.defs.get_all_schemas_with_history()
    served = {}
    for schema in schemas:
        candidates = [r for r in records.get(record_name(schema), []) if r["version"] <= schema.since_version]
        record = max(candidates, key=lambda r: r["version"], default=None)
        served[id(schema)] = record
    count = unexpected = 0
    for schema in sorted(schemas, key=lambda s: (s.domain, s.name, s.since_version)):
        name = f"{record_name(schema)}@{schema.since_version}"
        record = served[id(schema)]
        if record is None:
            differences = ["no such op"]
        else:
            group = [s for s in schemas if served[id(s)] is record]
            differences = list(attribute_differences(schema, record, group))
            differences += port_differences(
                "input", schema, schema.inputs, record["inputs"], [s.inputs for s in group])
            differences += port_differences(
                "output", schema, schema.outputs, record["outputs"], [s.outputs for s in group])
        for difference in differences:
            if not expected(record_name(schema), difference):
                print(f"{name}: {difference}")
                unexpected += 1
        count += 1
    print(f"{count} operator versions, {unexpected} differences")
    return unexpected != 0


if __name__ == "__main__":
    sys.exit(main())
