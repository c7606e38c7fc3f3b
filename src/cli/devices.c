// devices.c — rlx devices: the devices that rlx knows, present or not.
#include "cli/model.h"

#include <cjson/cJSON.h>
#include <stdio.h>

typedef struct settings {
  bool json;
} settings;

static int run(const void *opaque, const cli_list *arguments) {
  const settings *set = opaque;
  (void)arguments;
  cJSON *list = set->json ? cJSON_CreateArray() : NULL;
  for (int i = 0; i < rlx_device_count(); i++) {
    rlx_device_info info = {.struct_size = sizeof info};
    if (rlx_device_get(i, &info) != RLX_OK) {
      cJSON_Delete(list);
      return cli_library_failure();
    }
    if (list) {
      cJSON *object = cJSON_CreateObject();
      cJSON_AddStringToObject(object, "name", info.name);
      cJSON_AddBoolToObject(object, "present", info.present);
      cJSON_AddStringToObject(object, "description", info.description);
      cJSON_AddItemToArray(list, object);
    } else {
      printf("%-12s %-8s %s\n", info.name, info.present ? "present" : "absent", info.description);
    }
  }
  return list ? cli_print_json(list) : CLI_OK;
}

static const cli_option options[] = {CLI_OPTION_JSON(settings), CLI_OPTION_END};

const cli_command cli_devices = {
    .name = "devices",
    .arguments = "",
    .summary = "list the devices, present or absent",
    .options = options,
    .settings_size = sizeof(settings),
    .run = run,
};
