/* options.h — everything the environment can say, read in one place from one table. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include <rlx/rlx.h>

/* Switches of RLX_DEBUG, one bit each; the table with their texts is in options.c. */
enum {
  DEBUG_PRINT = 1 << 0,     /* print the graph after every pass (print=<pass>: after that one) */
  DEBUG_VALIDATE = 1 << 1,  /* validate the graph after every pass; GPU: the validation layers */
  DEBUG_DISPATCH = 1 << 2,  /* a line per step run */
  DEBUG_PLAN = 1 << 3,      /* the memory plan of each bound stage */
  DEBUG_TIME = 1 << 4,      /* time of passes, builds, binds */
  DEBUG_CHECK = 1 << 5,     /* compare every node's outputs with its eval; name the first that differs */
  DEBUG_SELECT = 1 << 6,    /* candidates and reasons of every node */
  DEBUG_SYNC = 1 << 7,      /* GPU: submit and wait after every step */
  DEBUG_POISON = 1 << 8,    /* fill memory with NaN patterns before and after its life */
  DEBUG_STREAM = 1 << 10,   /* GPU: what is recorded, submitted, waited for and copied, in order */
  DEBUG_DISCRETE = 1 << 11, /* GPU: treat device memory as hidden from the host */
  DEBUG_CUSTOM = 1 << 9     /* RLX_DBG_CUSTOM=1: a line per custom op run */
};

/* Parsed settings. Owned by a session; made once when it is created. */
typedef struct debug_options {
  uint32_t switches;
  char print_pass[64]; /* "" : all */
} debug_options;

/* Parses "print,validate,…" (NULL: RLX_DEBUG and RLX_DBG_CUSTOM). Unknown words are an error naming them. */
rlx_status debug_options_parse(const char *text, debug_options *out);
/* The table, for `rlx help debug`: NULL past the end. */
const char *debug_option_name(int i);
const char *debug_option_help(int i);

typedef enum option_name {
  OPTION_PACKAGE_PATH,   /* RLX_PACKAGE_PATH: folders, ':' between */
  OPTION_PIPELINE_CACHE, /* RLX_PIPELINE_CACHE: path, or 0 */
  OPTION_FALLBACK,       /* RLX_FALLBACK: allow, warn, forbid, budget=TRIPS[,BYTES] */
  OPTION_DEBUG,          /* RLX_DEBUG */
  OPTION_DBG_CUSTOM,     /* RLX_DBG_CUSTOM */
  OPTION_THREADS,        /* RLX_THREADS */
  OPTION_METAL_LIBRARY,  /* RLX_METAL_LIBRARY: opened instead of the system's Metal */
  OPTION_COUNT
} option_name;
/* The environment's word, or NULL. */
const char *option_get(option_name name);
/* The folder for compiled kernels: RLX_PIPELINE_CACHE, else rlx in the user's cache folder. False: keep nothing on
 * disk. */
bool option_cache_folder(char *path, size_t size);
/* "RLX_PACKAGE_PATH" and its one-line help. */
const char *option_env(option_name name);
const char *option_help(option_name name);

#endif
