// SPDX-License-Identifier: Apache-2.0
// leat info: what this build and this host have.
//
// Algorithm: everything is put into one JSON object first; the text is printed from it. Advantage:
// the two forms cannot differ. Disadvantage: fields that only people want have to be in the JSON.

#define _GNU_SOURCE
#include "commands.h"
#include "core/config.h"
#include "core/job.h"
#include "device/ops.h"
#include "info_machine.h"
#include "options.h"
#include "transport/transport.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#if defined(__clang__)
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

enum { OPTION_CONFIG = OPTION_LONG, OPTION_JSON };

static const struct option_row rows[] = {
    {OPTION_CONFIG, "config", NULL, "the settings too: value and where it comes from"},
    {OPTION_JSON, "json", NULL, "print one JSON object (schema leat.info/4)"},
};

static const struct option_table table = {
    .command = "info",
    .synopsis = "[--config] [--json]",
    .summary =
        "Prints the version, the machine, what the system permits, how ranks can be started, "
        "the devices, the transports and by what files can be read; and for what is missing, what "
        "that costs.",
    .row = rows,
    .row_count = sizeof rows / sizeof *rows,
};

static const char *const source_words[] = {[FROM_DEFAULT] = "default",
                                           [FROM_FILE] = "file",
                                           [FROM_ENVIRONMENT] = "environment",
                                           [FROM_ARGUMENT] = "argument"};

// What a job does without it, by row of the table.
static const char *costs_of(int row)
{
    switch (row) {
    case ROW_PEER:
        return "no kernels on GPUs here: the cpu device computes";
    case ROW_NVSHMEM:
        return "GPUs of different hosts cannot store to each other";
    case ROW_FABRIC:
        return "ranks of different hosts start as one job, but send no messages to each other";
    case ROW_HOSTCOPY:
        return "GPUs without access to each other, or registered in another process, have no path";
    default:
        return NULL;
    }
}

static json_t *describe_transports(void)
{
    json_t *list = json_array();
    for (int row = 0; row < ROW_COUNT; row++) {
        const struct transport *transport = leat_transports[row];
        const char *absent = leat_transport_absent(transport);
        json_array_append_new(list, json_pack("{s:s, s:b, s:s?, s:s?}", "name", transport->name,
                                              "present", absent == NULL, "absent", absent, "costs",
                                              absent ? costs_of(row) : NULL));
    }
    return list;
}

// The CPU, and every GPU; `absent` says why there is none.
static json_t *describe_devices(void)
{
    json_t *list = json_pack("[{s:s, s:s}]", "name", "cpu", "what", "threads of the host");
    for (int number = 0;; number++) {
        char text[512], name[16];
        snprintf(name, sizeof name, "cuda:%d", number);
        if (!leat_device_describe(number, text, sizeof text))
            json_array_append_new(list, json_pack("{s:s, s:s}", "name", name, "what", text));
        else if (number == 0)
            json_array_append_new(
                list, json_pack("{s:s, s:s}", "name", "cuda", "absent", leat_error_detail()));
        else
            return list;
        if (number == 0 && json_object_get(json_array_get(list, 1), "absent"))
            return list;
    }
}

static json_t *describe_settings(const struct config *config)
{
    json_t *list = json_array();
    for (int id = 0; id < SETTING_COUNT; id++) {
        char value[160];
        leat_config_print(config, (enum setting_id)id, value, sizeof value);
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", leat_settings[id].name, "value",
                            value, "source", source_words[config->source[id]], "default",
                            leat_settings[id].fallback, "help", leat_settings[id].help));
    }
    return list;
}

static json_t *describe(const struct config *config)
{
    char version[32], file[256];
    snprintf(version, sizeof version, "%d.%d.%d", LEAT_VERSION_MAJOR, LEAT_VERSION_MINOR,
             LEAT_VERSION_PATCH);
    json_t *info = json_pack(
        "{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", "leat.info/4", "version",
        version, "build", leat_build_id(), "compiler", COMPILER, "host", machine_describe(),
        "permissions", machine_permissions(), "launchers", machine_launchers(), "devices",
        describe_devices(), "transports", describe_transports(), "files", machine_files());
    if (!info || !config)
        return info;
    if (leat_config_file(file, sizeof file))
        json_object_set_new(info, "settings_file",
                            json_pack("{s:s, s:b}", "path", file, "present", !access(file, F_OK)));
    json_object_set_new(info, "settings", describe_settings(config));
    return info;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void print_settings(const json_t *info)
{
    const json_t *file = json_object_get(info, "settings_file");
    const json_t *settings = json_object_get(info, "settings");
    if (file)
        printf("\nsettings file: %s%s\n", text_of(file, "path"),
               json_is_true(json_object_get(file, "present")) ? "" : " (absent)");
    printf("\n%-22s %-12s %-12s %s\n", "setting", "value", "source", "what it is");
    for (size_t i = 0; i < json_array_size(settings); i++) {
        const json_t *setting = json_array_get(settings, i);
        printf("%-22s %-12s %-12s %s\n", text_of(setting, "name"), text_of(setting, "value"),
               text_of(setting, "source"), text_of(setting, "help"));
    }
}

static double gib_of(const json_t *object, const char *key)
{
    return (double)json_integer_value(json_object_get(object, key)) / (1 << 30);
}

static void print_host(const json_t *host)
{
    const json_t *numa = json_object_get(host, "numa");
    int packages = (int)json_integer_value(json_object_get(host, "packages"));
    printf("host:       %s, %s\n", text_of(host, "name"), text_of(host, "model"));
    printf("            %d cores, %d of them usable, %d package%s\n",
           (int)json_integer_value(json_object_get(host, "cores")),
           (int)json_integer_value(json_object_get(host, "usable_cores")), packages,
           packages == 1 ? "" : "s");
    printf("            %.1f GiB of memory, %.1f GiB available", gib_of(host, "memory_bytes"),
           gib_of(host, "available_bytes"));
    if (json_object_get(host, "limit_bytes"))
        printf(", limited to %.1f GiB here", gib_of(host, "limit_bytes"));
    putchar('\n');
    for (size_t i = 0; i < json_array_size(numa); i++) {
        const json_t *node = json_array_get(numa, i);
        printf("            NUMA node %d: cores %s, %.1f GiB\n",
               (int)json_integer_value(json_object_get(node, "node")), text_of(node, "cores"),
               gib_of(node, "memory_bytes"));
    }
}

// Things that are there or not: what they are, or why not and what that costs.
static void print_things(const char *heading, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *thing = json_array_get(list, i);
        const char *absent = text_of(thing, "absent"), *what = text_of(thing, "what");
        const char *state = text_of(thing, "state"), *costs = text_of(thing, "costs");
        printf("%-11s %-10s  %s%s\n", i ? "" : heading, text_of(thing, "name"),
               *absent ? "absent: " : "",
               *absent  ? absent
               : *what  ? what
               : *state ? state
                        : "present");
        if (*costs)
            printf("%-11s %-10s  so %s\n", "", "", costs);
    }
}

static void print_text(const json_t *info, int with_config)
{
    printf("leat %s (%s; %s)\n", text_of(info, "version"), text_of(info, "build"),
           text_of(info, "compiler"));
    print_host(json_object_get(info, "host"));
    print_things("permitted:", json_object_get(info, "permissions"));
    print_things("launchers:", json_object_get(info, "launchers"));
    print_things("devices:", json_object_get(info, "devices"));
    print_things("transports:", json_object_get(info, "transports"));
    print_things("files:", json_object_get(info, "files"));
    if (with_config)
        print_settings(info);
}

int cmd_info(int argc, char **argv)
{
    int with_config = 0, as_json = 0;
    struct option_reader reader;
    options_begin(&reader, &table, argc, argv);
    while (options_next(&reader)) {
        with_config |= reader.id == OPTION_CONFIG;
        as_json |= reader.id == OPTION_JSON;
    }
    if (reader.exit_status >= 0 || !options_no_operands(&reader))
        return reader.exit_status;
    struct config config;
    int error = leat_config_load(NULL, 0, &config);
    if (error)
        return command_fail("info", error);
    json_t *info = describe(with_config ? &config : NULL);
    if (!info)
        return command_fail("info", leat_fail(-ENOMEM, "no memory for the report"));
    if (as_json) {
        json_dumpf(info, stdout, JSON_INDENT(2));
        putchar('\n');
    } else {
        print_text(info, with_config);
    }
    json_decref(info);
    return EXIT_DONE;
}
