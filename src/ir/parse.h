/* parse.h — the parser of the text form.
 *
 * The text form is ONNX's textual syntax (github.com/onnx/onnx/blob/main/docs/Syntax.md) with extensions:
 * - comments from "#" or "//" to the end of the line;
 * - "float[...]" besides "float[]" for an unknown rank; "undefined" for an unknown dtype; dims that are no plain name
 *   in quotes; the inner type of a seq, optional or map that is itself one, and the key of a map, are read and not
 * kept;
 * - a type in front of a node's output, "float[2] y = Relu (x)";
 * - "Op@13", "Op@newest": the node means that version of its domain, whatever opset_import says; an op name in quotes
 * is taken whole;
 * - "[name: "origin"]" before a node;
 * - "float[1,8,4,4]@2 y": the value's layout, a number of the backend;
 * - "^x": the x of the graph around the one that has an x of its own (a "^" for each graph outwards);
 * - "y = x" among a graph's outputs: the output y is the value x;
 * - in strings \n, \t, \r, \xHH; attributes of opaque bytes, bytes"00ff"; lists of tensors, graphs and types;
 * - all element types have contents; numbers as in tensor_text.h; nan(0x7fc00001) for the bits of a NaN;
 * - contents in a side file, ONNX's ["location": "f.bin", "offset": "0", "length": "8"], also for tensors of attributes
 *   and with "xxh3": "<hash>", which must fit.
 * An input that is given contents, in its place or among the constants, is a constant, as when an ONNX file is loaded.
 * What a model says about itself (ir_version, producer, doc_string …) is read and not kept; metadata_props is kept.
 * The header "<…>" may be left out: then nodes mean the newest versions. */
#ifndef IR_PARSE_H
#define IR_PARSE_H

#include "ir/graph.h"

/* Subgraphs and types may nest this deep. */
enum { PARSE_MAX_DEPTH = 64 };

/* `name` is for messages ("model.rlx:12:3: …"); `folder` is where side files of tensors are looked for, NULL: refused.
 * The graph is finished. Fails with RLX_MALFORMED for what breaks the syntax, RLX_INVALID for what breaks a rule of
 * graphs, RLX_UNSUPPORTED for model-local functions and sparse tensors. */
rlx_status graph_parse(const char *source, size_t size, const char *name, const char *folder,
                       const rlx_registry *registry, rlx_graph **out);
/* A sample row of an op record: "float[2,3], float[3] {axis = 1}": types and attributes into a graph with one node and
 * an input a type. "int64[2] = {1, 2}" makes a constant; nothing between commas leaves an input out; here float[] is a
 * scalar too. "… => 2" at the end gives the node that many outputs; else it has those that are not optional. */
rlx_status sample_parse(const char *row, const char *op, const rlx_registry *registry, rlx_graph **out);
/* The same for a record of any version. */
rlx_status sample_parse_for(const char *row, const op_entry *e, const rlx_registry *registry, rlx_graph **out);

#endif
