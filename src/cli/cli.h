// cli.h — what the commands share: the table of commands, options read from tables, messages, exit codes.
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <rlx/rlx.h>

#include <stddef.h>

// Exit codes. A command's functions return one of them; anything but CLI_OK comes with a message.
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

typedef struct cli_list {
  const char **items;
  int count;
} cli_list;

typedef enum cli_kind {
  CLI_FLAG, // bool
  CLI_TEXT, // const char *, NULL if not given
  CLI_INT,  // int64_t within [min, max]
  CLI_LIST  // cli_list: may be given several times
} cli_kind;

typedef struct cli_option {
  const char *name;  // "--device"
  const char *value; // what stands for its value in help; NULL for a flag
  const char *help;
  cli_kind kind;
  size_t offset; // of the member of the command's settings
  int64_t min, max;
  int64_t initial; // of CLI_INT
} cli_option;

typedef struct cli_command {
  const char *name;
  const char *arguments;     // "MODEL"
  const char *summary;       // one line
  const char *details;       // more lines, or NULL
  const cli_option *options; // ends with a NULL name
  size_t settings_size;
  int min_arguments;
  int max_arguments; // -1: any number
  int (*run)(const void *settings, const cli_list *arguments);
} cli_command;

// Ends with NULL; in the order of `rlx help`.
extern const cli_command *const cli_commands[];
const cli_command *cli_find(const char *name);

// Fills settings (settings_size bytes) and arguments (as many items as argv holds; the caller's memory) from argv.
int cli_parse(const cli_command *command, int argc, char **argv, void *settings, cli_list *arguments);
void cli_settings_finish(const cli_command *command, void *settings);

// Keep one message for main to print; return the exit code of their kind.
__attribute__((format(printf, 1, 2))) int cli_fail(const char *format, ...);
__attribute__((format(printf, 1, 2))) int cli_usage(const char *format, ...);
int cli_library_failure(void); // the library's message
const char *cli_message(void);

#define CLI_TRY(expr)                                                                                                  \
  do {                                                                                                                 \
    int try_code_ = (expr);                                                                                            \
    if (try_code_ != CLI_OK) return try_code_;                                                                         \
  } while (0)
#define CLI_CALL(expr)                                                                                                 \
  do {                                                                                                                 \
    if ((expr) != RLX_OK) return cli_library_failure();                                                                \
  } while (0)

// Memory: zeroed; ends the program with a message if there is none.
void *cli_alloc(size_t count, size_t size);
char *cli_strdup(const char *text);
__attribute__((format(printf, 1, 2))) char *cli_format(const char *format, ...);
// Makes room for one more item in an array of `count` items whose room doubles.
void *cli_grow(void *items, int count, size_t size);

// Whether text is wholly a whole number or a number.
bool cli_parse_int(const char *text, int64_t *out);
bool cli_parse_number(const char *text, double *out);

double cli_now_ms(void);
// A line on stderr that the next one overwrites, if stderr is a terminal; NULL clears it.
void cli_progress(const char *line);

// Whether the library's informative lines are shown on stderr (warnings always are).
extern bool cli_shows_info;

struct cJSON;
// Prints and deletes.
int cli_print_json(struct cJSON *json);

extern const cli_command cli_run, cli_explain, cli_test, cli_bench, cli_ops, cli_devices, cli_check, cli_check_op,
    cli_grad, cli_help;

#endif
