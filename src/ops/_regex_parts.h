/* _regex_parts.h — the inside of a compiled pattern. */
#ifndef OPS_REGEX_PARTS_H
#define OPS_REGEX_PARTS_H

#include "base/vector.h"
#include "ops/_regex.h"

typedef struct char_range {
  uint32_t low, high;
} char_range;

typedef enum tree_kind { TREE_EMPTY, TREE_SET, TREE_CAT, TREE_OR, TREE_REPEAT, TREE_ASSERT } tree_kind;

/* SET: ranges [a, b); CAT, OR: nodes a and b; REPEAT: node a, b to c times (c -1: any number); ASSERT: a says what. */
typedef struct tree_node {
  tree_kind kind;
  int a, b, c;
} tree_node;

enum { ASSERT_BEGIN, ASSERT_END, ASSERT_LINE_BEGIN, ASSERT_LINE_END, ASSERT_WORD, ASSERT_NO_WORD };

typedef enum step_kind { STEP_SET, STEP_SPLIT, STEP_ASSERT, STEP_MATCH } step_kind;

/* SET: a character of ranges [a, b), then the next step; SPLIT: on at a and at b; ASSERT: a says what. */
typedef struct regex_step {
  step_kind kind;
  int a, b;
} regex_step;

struct regex {
  VECTOR(tree_node) nodes;
  VECTOR(char_range) ranges;
  VECTOR(regex_step) steps;
  int work;       /* done in making the steps: nested repeats of nothing must end too */
  bool too_large; /* why a step could not be made, if not for want of memory */
  int *lists;     /* scratch: two lists of steps, marks, a stack */
};

#endif
