// ops.c — rlx ops: the ops that are registered, with versions, what defines them, and kernels.
#include "cli/model.h"

#include <cjson/cJSON.h>
#include <rlx/extend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
  cli_target target;
  bool json;
  bool markdown;
} settings;

// One (op, version) and what of it the listing says.
typedef struct op_row {
  char *name;
  char *owner;
  int version;
  bool eval, lower, vjp, jvp, derive;
  const char *reverse, *forward;        // where its derivatives come from
  char *why;                            // why it has none, or ""
  cJSON *inputs, *outputs, *attributes; // NULL unless the listing is JSON
} op_row;

typedef struct kernel_row {
  char *op;
  char *backend;
  char *name;
  char *owner;
  const char *tier;
  int version_min, version_max, priority;
} kernel_row;

typedef struct listing {
  op_row *ops;
  kernel_row *kernels;
  int op_count, kernel_count;
  bool json;
  const char *backend; // only kernels of this one (and portable ones on a GPU), or NULL
} listing;

static bool floats(const rlx_port *ports) {
  for (; ports && ports->name; ports++)
    if (!ports->dtypes || (ports->dtypes & RLX_SET_FLOATS)) return true;
  return false;
}

// What takes the place of a missing vjp or jvp; "": nothing flows, "none": reaching the op is an error.
static const char *derivative(const rlx_op *op, bool forward) {
  if ((op->traits & RLX_STOP_GRADIENT) || !floats(op->inputs) || !floats(op->outputs)) return "";
  if (forward && op->jvp) return "jvp";
  if (op->vjp) return forward ? "vjp transposed" : "vjp";
  if (op->derive) return "derive";
  return op->lower && !(op->traits & RLX_LOWER_FIRST) ? "lower" : "none";
}

static cJSON *ports_json(const rlx_port *ports) {
  static const struct {
    uint32_t flag;
    const char *name;
  } flags[] = {{RLX_OPTIONAL, "optional"},
               {RLX_VARIADIC, "variadic"},
               {RLX_HOST, "host"},
               {RLX_HETEROGENEOUS, "heterogeneous"},
               {RLX_ANY_KIND, "any_kind"}};
  cJSON *list = cJSON_CreateArray();
  for (; ports && ports->name; ports++) {
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", ports->name);
    if (ports->variable) cJSON_AddStringToObject(object, "variable", ports->variable);
    cJSON *dtypes = cJSON_AddArrayToObject(object, "dtypes");
    for (int d = RLX_UNDEFINED + 1; d < RLX_DTYPE_COUNT; d++)
      if (!ports->dtypes || (ports->dtypes >> d & 1))
        cJSON_AddItemToArray(dtypes, cJSON_CreateString(rlx_dtype_name((rlx_dtype)d)));
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
      if (ports->flags & flags[i].flag) cJSON_AddTrueToObject(object, flags[i].name);
    if (ports->flags & RLX_VARIADIC) cJSON_AddNumberToObject(object, "min_count", ports->min_count);
    cJSON_AddItemToArray(list, object);
  }
  return list;
}

static void add_default(cJSON *object, const rlx_attr_def *a) {
  if (a->flags & RLX_REQUIRED) return;
  cJSON *list;
  switch (a->kind) {
    case RLX_ATTR_INT: cJSON_AddNumberToObject(object, "default", (double)a->default_int); return;
    case RLX_ATTR_FLOAT: cJSON_AddNumberToObject(object, "default", (double)a->default_float); return;
    case RLX_ATTR_STRING:
      cJSON_AddStringToObject(object, "default", a->default_string ? a->default_string : "");
      return;
    case RLX_ATTR_INTS:
      list = cJSON_AddArrayToObject(object, "default");
      for (int64_t i = 0; i < a->default_ints.count; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)a->default_ints.data[i]));
      return;
    case RLX_ATTR_FLOATS:
      list = cJSON_AddArrayToObject(object, "default");
      for (int64_t i = 0; i < a->default_floats.count; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)a->default_floats.data[i]));
      return;
    default: return;
  }
}

static cJSON *attributes_json(const rlx_attr_def *attrs) {
  static const char *const kinds[] = {
      "",        "float",   "int",    "string",        "tensor",         "graph", "floats", "ints",
      "strings", "tensors", "graphs", "sparse_tensor", "sparse_tensors", "type",  "types"};
  cJSON *list = cJSON_CreateArray();
  for (; attrs && attrs->name; attrs++) {
    cJSON *object = cJSON_CreateObject();
    bool bytes = attrs->kind == RLX_ATTR_BYTES;
    cJSON_AddStringToObject(object, "name", attrs->name);
    cJSON_AddStringToObject(object, "kind", bytes ? "bytes" : kinds[attrs->kind]);
    if (attrs->flags & RLX_REQUIRED) cJSON_AddTrueToObject(object, "required");
    add_default(object, attrs);
    cJSON_AddItemToArray(list, object);
  }
  return list;
}

static bool add_op(void *user, const rlx_op_info *info) {
  listing *l = user;
  const rlx_op *op = info->op;
  l->ops = cli_grow(l->ops, l->op_count, sizeof *l->ops);
  l->ops[l->op_count++] = (op_row){cli_strdup(op->name),
                                   cli_strdup(info->owner),
                                   op->version ? op->version : 1,
                                   op->eval != NULL,
                                   op->lower != NULL,
                                   op->vjp != NULL,
                                   op->jvp != NULL,
                                   op->derive != NULL,
                                   derivative(op, false),
                                   derivative(op, true),
                                   cli_strdup(op->no_derivative ? op->no_derivative : ""),
                                   NULL,
                                   NULL,
                                   NULL};
  op_row *row = &l->ops[l->op_count - 1];
  if (!l->json) return true;
  row->inputs = ports_json(op->inputs);
  row->outputs = ports_json(op->outputs);
  row->attributes = attributes_json(op->attrs);
  return true;
}

static bool wanted(const listing *l, const char *backend) {
  if (!l->backend || strcmp(l->backend, backend) == 0 || strcmp(backend, "cpu") == 0) return true;
  return strcmp(backend, "gpu") == 0 && strcmp(l->backend, "cpu") != 0;
}

static bool add_kernel(void *user, const rlx_kernel_info *info) {
  listing *l = user;
  const rlx_kernel *head = info->head;
  if (!wanted(l, info->backend)) return true;
  l->kernels = cli_grow(l->kernels, l->kernel_count, sizeof *l->kernels);
  l->kernels[l->kernel_count++] = (kernel_row){cli_strdup(head->op),
                                               cli_strdup(info->backend),
                                               cli_strdup(head->name ? head->name : ""),
                                               cli_strdup(info->owner),
                                               rlx_tier_name(info->tier),
                                               head->version_min,
                                               head->version_max,
                                               head->priority};
  return true;
}

static void free_listing(listing *l) {
  for (int i = 0; i < l->op_count; i++) {
    free(l->ops[i].name);
    free(l->ops[i].owner);
    free(l->ops[i].why);
  }
  for (int i = 0; i < l->kernel_count; i++) {
    free(l->kernels[i].op);
    free(l->kernels[i].backend);
    free(l->kernels[i].name);
    free(l->kernels[i].owner);
  }
  free(l->ops);
  free(l->kernels);
}

static int by_name(const void *a, const void *b) {
  const op_row *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order ? order : x->version - y->version;
}

static int by_op(const void *a, const void *b) {
  const kernel_row *x = a, *y = b;
  int order = strcmp(x->op, y->op);
  if (!order) order = strcmp(x->backend, y->backend);
  return order ? order : strcmp(x->name, y->name);
}

static bool serves(const kernel_row *k, const op_row *op) {
  if (strcmp(k->op, op->name) != 0) return false;
  return op->version >= k->version_min && (k->version_max == 0 || op->version <= k->version_max);
}

// "cpu/cpu:onednn, …": device, tier and name of every kernel of an op.
static char *kernels_text(const listing *l, const op_row *op) {
  char *text = cli_strdup("");
  for (int i = 0; i < l->kernel_count; i++) {
    const kernel_row *k = &l->kernels[i];
    if (!serves(k, op)) continue;
    char *longer = cli_format("%s%s%s:%s", text, *text ? ", " : "", k->backend, k->name);
    free(text);
    text = longer;
  }
  return text;
}

// What stands in the record, as words: "eval lower vjp".
static const char *defined_text(const op_row *op, char text[48]) {
  snprintf(text, 48, "%s%s%s%s%s", op->eval ? "eval " : "", op->lower ? "lower " : "", op->vjp ? "vjp " : "",
           op->jvp ? "jvp " : "", op->derive ? "derive " : "");
  size_t length = strlen(text);
  if (length) text[length - 1] = '\0';
  return text;
}

static void print_text(const listing *l) {
  for (int i = 0; i < l->op_count; i++) {
    char defined[48], *kernels = kernels_text(l, &l->ops[i]);
    printf("%-36s %3d  %-20s %s\n", l->ops[i].name, l->ops[i].version, defined_text(&l->ops[i], defined), kernels);
    free(kernels);
  }
  printf("%d ops, %d kernels\n", l->op_count, l->kernel_count);
}

static void print_derivatives(const listing *l) {
  puts("\n## Derivatives\n");
  puts("Where the reverse and the forward derivative of an op come from: its own rule, its vjp transposed, or the ops "
       "that");
  puts("derive or lower make of it. Each is held against central differences, in double where the op takes it, over "
       "the");
  puts("samples of its record and the rows of tests/test_grad_rows.c. An empty column: nothing flows.\n");
  puts("| op | since | reverse | forward | why not |\n|---|---|---|---|---|");
  for (int i = 0; i < l->op_count; i++) {
    const op_row *op = &l->ops[i];
    if (!*op->reverse && !*op->why) continue; // no floats go in, or none come out
    printf("| %s | %d | %s | %s | %s |\n", op->name, op->version, op->reverse, op->forward, op->why);
  }
}

static void print_markdown(const listing *l) {
  puts("| op | since | in the record | kernels | from |\n|---|---|---|---|---|");
  for (int i = 0; i < l->op_count; i++) {
    const op_row *op = &l->ops[i];
    char defined[48], *kernels = kernels_text(l, op);
    printf("| %s | %d | %s | %s | %s |\n", op->name, op->version, defined_text(op, defined), kernels, op->owner);
    free(kernels);
  }
  print_derivatives(l);
}

static cJSON *kernel_json(const kernel_row *k) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "backend", k->backend);
  cJSON_AddStringToObject(object, "tier", k->tier);
  cJSON_AddStringToObject(object, "name", k->name);
  cJSON_AddNumberToObject(object, "priority", k->priority);
  cJSON_AddStringToObject(object, "owner", k->owner);
  return object;
}

static cJSON *ops_json(const listing *l) {
  cJSON *list = cJSON_CreateArray();
  for (int i = 0; i < l->op_count; i++) {
    const op_row *op = &l->ops[i];
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", op->name);
    cJSON_AddNumberToObject(object, "version", op->version);
    cJSON_AddBoolToObject(object, "eval", op->eval);
    cJSON_AddBoolToObject(object, "lower", op->lower);
    cJSON_AddBoolToObject(object, "vjp", op->vjp);
    cJSON_AddBoolToObject(object, "jvp", op->jvp);
    cJSON_AddStringToObject(object, "reverse", op->reverse);
    cJSON_AddStringToObject(object, "forward", op->forward);
    cJSON_AddStringToObject(object, "no_derivative", op->why);
    cJSON_AddStringToObject(object, "owner", op->owner);
    cJSON_AddItemToObject(object, "inputs", op->inputs);
    cJSON_AddItemToObject(object, "outputs", op->outputs);
    cJSON_AddItemToObject(object, "attributes", op->attributes);
    cJSON *kernels = cJSON_AddArrayToObject(object, "kernels");
    for (int j = 0; j < l->kernel_count; j++)
      if (serves(&l->kernels[j], op)) cJSON_AddItemToArray(kernels, kernel_json(&l->kernels[j]));
    cJSON_AddItemToArray(list, object);
  }
  return list;
}

// "vulkan:1" → "vulkan"; fails for a device that rlx does not know.
static int find_backend(const char *device, char backend[64]) {
  size_t length = strcspn(device, ":");
  for (int i = 0; i < rlx_device_count(); i++) {
    rlx_device_info info = {.struct_size = sizeof info};
    CLI_CALL(rlx_device_get(i, &info));
    if (strcspn(info.name, ":") == length && strncmp(info.name, device, length) == 0 && length < 64) {
      memcpy(backend, device, length);
      backend[length] = '\0';
      return CLI_OK;
    }
  }
  return cli_fail("no device '%s' (rlx devices lists them)", device);
}

static int run(const void *opaque, const cli_list *arguments) {
  const settings *set = opaque;
  char backend[64];
  rlx_registry *registry = NULL;
  listing l = {.json = set->json};
  (void)arguments;
  if (set->json && set->markdown) return cli_usage("ops: --json and --markdown exclude each other");
  if (set->target.device) {
    CLI_TRY(find_backend(set->target.device, backend));
    l.backend = backend;
  }
  CLI_TRY(cli_load_ops(&set->target.ops, &registry));
  CLI_CALL(rlx_registry_each_op(registry, add_op, &l));
  CLI_CALL(rlx_registry_each_kernel(registry, add_kernel, &l));
  if (l.op_count) qsort(l.ops, (size_t)l.op_count, sizeof *l.ops, by_name);
  if (l.kernel_count) qsort(l.kernels, (size_t)l.kernel_count, sizeof *l.kernels, by_op);
  if (set->json)
    cli_print_json(ops_json(&l));
  else if (set->markdown)
    print_markdown(&l);
  else
    print_text(&l);
  free_listing(&l);
  rlx_registry_destroy(registry);
  return CLI_OK;
}

static const cli_option options[] = {
    {"--device", "D", "only kernels that serve this device", CLI_TEXT, offsetof(settings, target.device), 0, 0, 0},
    CLI_OPTION_OPS(settings),
    {"--markdown", NULL, "print a Markdown table", CLI_FLAG, offsetof(settings, markdown), 0, 0, 0},
    CLI_OPTION_JSON(settings),
    CLI_OPTION_END,
};

const cli_command cli_ops = {
    .name = "ops",
    .arguments = "",
    .summary = "list the registered ops: versions, what defines them, their kernels",
    .options = options,
    .settings_size = sizeof(settings),
    .run = run,
};
