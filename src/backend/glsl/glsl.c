/* glsl.c — librlx-glsl.so: GLSL to SPIR-V by glslang's C interface. */
#include "backend/glsl/glsl.h"

#include <glslang/build_info.h>
#include <glslang/Include/glslang_c_interface.h>
#include <glslang/Public/resource_limits_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT rlx_glsl_compile_function rlx_glsl_compile;
EXPORT rlx_glsl_identity_function rlx_glsl_identity;

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *rlx_glsl_identity(void) {
  return "glslang " TEXT(GLSLANG_VERSION_MAJOR) "." TEXT(GLSLANG_VERSION_MINOR) "." TEXT(GLSLANG_VERSION_PATCH);
}

static int link_words(glslang_program_t *program, uint32_t **words, size_t *bytes, char *log, size_t log_size) {
  if (!glslang_program_link(program, GLSLANG_MSG_SPV_RULES_BIT | GLSLANG_MSG_VULKAN_RULES_BIT)) {
    snprintf(log, log_size, "%s", glslang_program_get_info_log(program));
    return 1;
  }
  glslang_program_SPIRV_generate(program, GLSLANG_STAGE_COMPUTE);
  size_t count = glslang_program_SPIRV_get_size(program);
  uint32_t *copy = malloc(count * sizeof *copy);
  if (!copy || !count) {
    const char *messages = glslang_program_SPIRV_get_messages(program);
    snprintf(log, log_size, "%s", messages ? messages : "no code was made");
    free(copy);
    return 1;
  }
  glslang_program_SPIRV_get(program, copy);
  *words = copy;
  *bytes = count * sizeof *copy;
  return 0;
}

int rlx_glsl_compile(const char *source, uint32_t **words, size_t *bytes, char *log, size_t log_size) {
  static int initialised;
  if (!initialised) initialised = glslang_initialize_process();
  const glslang_input_t input = {
      .language = GLSLANG_SOURCE_GLSL,
      .stage = GLSLANG_STAGE_COMPUTE,
      .client = GLSLANG_CLIENT_VULKAN,
      .client_version = GLSLANG_TARGET_VULKAN_1_2,
      .target_language = GLSLANG_TARGET_SPV,
      .target_language_version = GLSLANG_TARGET_SPV_1_5,
      .code = source,
      .default_version = 460,
      .default_profile = GLSLANG_NO_PROFILE,
      .messages = GLSLANG_MSG_SPV_RULES_BIT | GLSLANG_MSG_VULKAN_RULES_BIT,
      .resource = glslang_default_resource(),
  };
  glslang_shader_t *shader = glslang_shader_create(&input);
  glslang_program_t *program = glslang_program_create();
  int failed = 1;
  if (!shader || !program) {
    snprintf(log, log_size, "out of memory");
  } else if (!glslang_shader_preprocess(shader, &input) || !glslang_shader_parse(shader, &input)) {
    snprintf(log, log_size, "%s", glslang_shader_get_info_log(shader));
  } else {
    glslang_program_add_shader(program, shader);
    failed = link_words(program, words, bytes, log, log_size);
  }
  if (program) glslang_program_delete(program);
  if (shader) glslang_shader_delete(shader);
  return failed;
}
