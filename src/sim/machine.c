// SPDX-License-Identifier: Apache-2.0
// Machine files: parsing; see machine.h.
//
// The text is cut into lines, each key's value is noted with its line, and then one table, which
// says for each key its kind of value, its range and whether it has to be there, is worked off. So
// the order of lines does not matter and a key that came twice is told.
//
// Advantage: a new figure is one line of the table. Disadvantage: a range is that of the key alone;
// what two keys have to do with each other is checked by hand at the end.

#include "sim/machine.h"

#include "core/error.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum value { INTEGER, REAL, YES_NO, BYTES, NAME, SIDES, LETTERS, WRAP, ROUTE, OUTSIDE };
enum belongs { ANY, TORUS, CLUSTER, FAT_TREE, DRAGONFLY };

struct key {
    const char *name;
    enum value value;
    enum belongs belongs;
    bool required;
    size_t offset;
    double least, most;
};

#define AT(member) offsetof(struct sim_machine, member)
#define RATE_MOST  1e6
#define NS_MOST    1e9

// SIDES comes before LETTERS, WRAP and ROUTE, which count and name them; OUTSIDE before what it
// decides on.
static const struct key keys[] = {
    {"name", NAME, ANY, false, AT(name), 0, 0},
    {"sides", SIDES, TORUS, true, 0, 1, SIM_NODES_MAX},
    {"axes", LETTERS, TORUS, false, 0, 0, 0},
    {"wrap", WRAP, TORUS, true, 0, 0, 0},
    {"route", ROUTE, TORUS, false, 0, 0, 0},
    {"link_gb_per_s", REAL, TORUS, true, AT(torus.link_gb_per_s), 1e-6, RATE_MOST},
    {"link_raw_gb_per_s", REAL, TORUS, false, AT(torus.link_raw_gb_per_s), 1e-6, RATE_MOST},
    {"hop_ns", REAL, TORUS, true, AT(torus.hop_ns), 0, NS_MOST},
    {"latency_ns", REAL, TORUS, true, AT(torus.latency_ns), 0, NS_MOST},
    {"hosts", INTEGER, CLUSTER, true, AT(cluster.hosts), 1, SIM_NODES_MAX},
    {"gpus_per_host", INTEGER, CLUSTER, true, AT(cluster.gpus_per_host), 1, 1024},
    {"gpus_per_nvlink", INTEGER, CLUSTER, true, AT(cluster.gpus_per_nvlink), 1, 1024},
    {"nics_per_host", INTEGER, CLUSTER, true, AT(cluster.nics_per_host), 1, 1024},
    {"nvlink_gb_per_s", REAL, CLUSTER, true, AT(cluster.nvlink_gb_per_s), 1e-6, RATE_MOST},
    {"nvlink_ns", REAL, CLUSTER, true, AT(cluster.nvlink_ns), 0, NS_MOST},
    {"pcie_gb_per_s", REAL, CLUSTER, true, AT(cluster.pcie_gb_per_s), 1e-6, RATE_MOST},
    {"pcie_ns", REAL, CLUSTER, true, AT(cluster.pcie_ns), 0, NS_MOST},
    {"nic_gb_per_s", REAL, CLUSTER, true, AT(cluster.nic_gb_per_s), 1e-6, RATE_MOST},
    {"nic_ns", REAL, CLUSTER, true, AT(cluster.nic_ns), 0, NS_MOST},
    {"base_ns", REAL, CLUSTER, true, AT(cluster.base_ns), 0, NS_MOST},
    {"outside", OUTSIDE, CLUSTER, true, 0, 0, 0},
    {"switch_gb_per_s", REAL, CLUSTER, true, AT(cluster.switch_gb_per_s), 1e-6, RATE_MOST},
    {"switch_ns", REAL, CLUSTER, true, AT(cluster.switch_ns), 0, NS_MOST},
    {"levels", INTEGER, FAT_TREE, true, AT(cluster.levels), 2, 3},
    {"hosts_per_pod", INTEGER, FAT_TREE, true, AT(cluster.hosts_per_pod), 1, 65536},
    {"leaf_rails", INTEGER, FAT_TREE, true, AT(cluster.leaf_rails), 1, 1024},
    {"leaf_uplinks", INTEGER, FAT_TREE, true, AT(cluster.leaf_uplinks), 1, 1024},
    {"spine_uplinks", INTEGER, FAT_TREE, false, AT(cluster.spine_uplinks), 1, 1024},
    {"routers_per_group", INTEGER, DRAGONFLY, true, AT(cluster.routers_per_group), 1, 1024},
    {"hosts_per_router", INTEGER, DRAGONFLY, true, AT(cluster.hosts_per_router), 1, 1024},
    {"global_links", INTEGER, DRAGONFLY, true, AT(cluster.global_links), 1, 1024},
    {"tni_count", INTEGER, ANY, true, AT(tni_count), 1, 1024},
    {"tni_gb_per_s", REAL, ANY, false, AT(tni_gb_per_s), 0, RATE_MOST},
    {"node_gb_per_s", REAL, ANY, false, AT(node_gb_per_s), 0, RATE_MOST},
    {"node_both_gb_per_s", REAL, ANY, false, AT(node_both_gb_per_s), 0, RATE_MOST},
    {"packet_bytes", INTEGER, ANY, true, AT(packet_bytes), 1, 1 << 20},
    {"piggyback_bytes", INTEGER, ANY, false, AT(piggyback_bytes), 0, 1 << 16},
    {"descriptor_fetch_ns", REAL, ANY, false, AT(descriptor_fetch_ns), 0, NS_MOST},
    {"descriptor_push", YES_NO, ANY, false, AT(descriptor_push), 0, 0},
    {"software_send_ns", REAL, ANY, true, AT(software_send_ns), 0, NS_MOST},
    {"software_receive_ns", REAL, ANY, true, AT(software_receive_ns), 0, NS_MOST},
    {"command_ns", REAL, ANY, false, AT(command_ns), 0, NS_MOST},
    {"combine_gb_per_s", REAL, ANY, false, AT(combine_gb_per_s), 0, RATE_MOST},
    {"copy_gb_per_s", REAL, ANY, true, AT(copy_gb_per_s), 1e-6, RATE_MOST},
    {"memory_bytes", BYTES, ANY, false, AT(memory_bytes), 0, 1e18},
    {"barrier_words", INTEGER, ANY, false, AT(barrier_words), 0, 1024},
    {"barrier_start_ns", REAL, ANY, false, AT(barrier_start_ns), 0, NS_MOST},
    {"barrier_stage_ns", REAL, ANY, false, AT(barrier_stage_ns), 0, NS_MOST},
};

#define KEY_COUNT (sizeof keys / sizeof *keys)

struct parser {
    struct sim_machine *machine;
    const char *name; // of the file
    struct {
        char *value; // NULL: the file does not have it
        int line;
    } found[KEY_COUNT];
    char *kind;
    int kind_line;
};

// ---- Lines ----------------------------------------------------------------------------------

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        length--;
    text[length] = 0;
    return text;
}

static int add_dead(struct parser *parser, bool is_link, const char *value, int line)
{
    struct sim_machine *machine = parser->machine;
    if (strlen(value) >= sizeof machine->dead->text)
        return leat_fail(-EINVAL, "%s:%d: expected the name of a %s in less than %zu bytes",
                         parser->name, line, is_link ? "link" : "node", sizeof machine->dead->text);
    struct sim_dead *dead =
        realloc(machine->dead, ((size_t)machine->dead_count + 1) * sizeof *dead);
    if (!dead)
        return leat_fail(-ENOMEM, "%s:%d: no memory for dead nodes and links", parser->name, line);
    machine->dead = dead;
    dead += machine->dead_count++;
    dead->is_link = is_link;
    dead->line = line;
    memset(dead->text, 0, sizeof dead->text);
    memcpy(dead->text, value, strlen(value));
    return 0;
}

static int twice(const struct parser *parser, const char *key, int line, int first)
{
    return leat_fail(-EINVAL, "%s:%d: %s was given in line %d already; keep one of the two",
                     parser->name, line, key, first);
}

static int note_key(struct parser *parser, const char *key, char *value, int line)
{
    if (!strcmp(key, "dead_node") || !strcmp(key, "dead_link"))
        return add_dead(parser, !strcmp(key, "dead_link"), value, line);
    if (!strcmp(key, "kind")) {
        if (parser->kind)
            return twice(parser, key, line, parser->kind_line);
        parser->kind = value;
        parser->kind_line = line;
        return 0;
    }
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strcmp(key, keys[i].name) != 0)
            continue;
        if (parser->found[i].value)
            return twice(parser, key, line, parser->found[i].line);
        parser->found[i].value = value;
        parser->found[i].line = line;
        return 0;
    }
    return leat_fail(-EINVAL, "%s:%d: '%.40s' is no key of a machine file", parser->name, line,
                     key);
}

static int read_line(struct parser *parser, char *text, int line)
{
    text[strcspn(text, "#")] = 0;
    text = trim(text);
    if (!*text)
        return 0;
    char *equals = strchr(text, '=');
    if (!equals)
        return leat_fail(-EINVAL, "%s:%d: expected 'key = value', got '%.40s'", parser->name, line,
                         text);
    *equals = 0;
    char *key = trim(text), *value = trim(equals + 1);
    if (!*value)
        return leat_fail(-EINVAL, "%s:%d: %.40s has no value", parser->name, line, key);
    return note_key(parser, key, value, line);
}

static int read_lines(struct parser *parser, char *text)
{
    if (!strncmp(text, "\xef\xbb\xbf", 3))
        text += 3; // some editors begin a text with this mark
    for (int line = 1; text; line++) {
        char *end = strchr(text, '\n');
        if (end)
            *end++ = 0;
        int error = read_line(parser, text, line);
        if (error)
            return error;
        text = end;
    }
    return 0;
}

// ---- Values ---------------------------------------------------------------------------------

static int wrong(const struct parser *parser, size_t key, const char *expected)
{
    return leat_fail(-EINVAL, "%s:%d: %s: expected %s, got '%.40s'", parser->name,
                     parser->found[key].line, keys[key].name, expected, parser->found[key].value);
}

static int set_number(struct parser *parser, size_t key)
{
    char *end;
    double value = strtod(parser->found[key].value, &end);
    char *unit = end;
    double factor = 1;
    if (keys[key].value == BYTES && *unit) {
        const char *letter = strchr("KMG", toupper((unsigned char)*unit));
        if (letter)
            factor = ldexp(1, 10 * (int)(letter - "KMG" + 1));
        unit += letter != NULL;
    }
    value *= factor;
    bool whole = keys[key].value == REAL || value == floor(value);
    if (end == parser->found[key].value || *unit || !isfinite(value) || !whole)
        return wrong(parser, key,
                     keys[key].value == REAL    ? "a number"
                     : keys[key].value == BYTES ? "bytes as a whole number, with K, M or G (2^10)"
                                                : "a whole number");
    if (value < keys[key].least || value > keys[key].most)
        return leat_fail(-EINVAL, "%s:%d: %s: expected %g to %g, got %g", parser->name,
                         parser->found[key].line, keys[key].name, keys[key].least, keys[key].most,
                         value);
    char *member = (char *)parser->machine + keys[key].offset;
    if (keys[key].value == REAL)
        memcpy(member, &value, sizeof value);
    else if (keys[key].value == BYTES)
        memcpy(member, &(uint64_t){(uint64_t)value}, sizeof(uint64_t));
    else
        memcpy(member, &(int){(int)value}, sizeof(int)); // those in uint32_t fit alike
    return 0;
}

static int set_yes_no(struct parser *parser, size_t key)
{
    const char *text = parser->found[key].value;
    bool yes = !strcmp(text, "yes");
    if (!yes && strcmp(text, "no") != 0)
        return wrong(parser, key, "yes or no");
    memcpy((char *)parser->machine + keys[key].offset, &yes, sizeof yes);
    return 0;
}

static int set_name(struct parser *parser, size_t key)
{
    size_t length = strlen(parser->found[key].value);
    if (length >= SIM_NAME_BYTES)
        return wrong(parser, key, "a name of at most 63 bytes");
    memcpy(parser->machine->name, parser->found[key].value, length + 1);
    return 0;
}

static int set_sides(struct parser *parser, size_t key)
{
    struct sim_torus_shape *torus = &parser->machine->torus;
    const char *expected = "one to six sides, such as 24 18 16 2 3 2, and at most 2^24 nodes";
    int64_t nodes = 1;
    for (char *text = parser->found[key].value; *text;) {
        char *end;
        errno = 0;
        long side = strtol(text, &end, 10);
        if (end == text || errno || side < 1 || side > SIM_NODES_MAX)
            return wrong(parser, key, expected);
        nodes *= side;
        if (torus->axis_count == SIM_AXES_MAX || nodes > SIM_NODES_MAX)
            return wrong(parser, key, expected);
        torus->letter[torus->axis_count] = "XYZABC"[torus->axis_count];
        torus->route[torus->axis_count] = torus->axis_count;
        torus->side[torus->axis_count++] = (int)side;
        while (*end == ' ' || *end == '\t' || *end == 'x')
            end++;
        text = end;
    }
    return 0;
}

static int axis_of(const struct sim_torus_shape *torus, int letter)
{
    for (int axis = 0; axis < torus->axis_count; axis++)
        if (torus->letter[axis] == letter)
            return axis;
    return -1;
}

static int set_letters(struct parser *parser, size_t key)
{
    struct sim_torus_shape *torus = &parser->machine->torus;
    memset(torus->letter, 0, sizeof torus->letter);
    int count = 0;
    for (const char *text = parser->found[key].value; *text; text++) {
        if (*text == ' ' || *text == '\t')
            continue;
        if (!isupper((unsigned char)*text) || count == torus->axis_count ||
            axis_of(torus, *text) >= 0)
            return wrong(parser, key, "a different capital letter for each side");
        torus->letter[count++] = *text;
    }
    if (count != torus->axis_count)
        return wrong(parser, key, "as many letters as there are sides");
    return 0;
}

static int set_wrap(struct parser *parser, size_t key)
{
    struct sim_torus_shape *torus = &parser->machine->torus;
    if (!strcmp(parser->found[key].value, "none"))
        return 0;
    for (const char *text = parser->found[key].value; *text; text++) {
        if (*text == ' ' || *text == '\t')
            continue;
        int axis = axis_of(torus, *text);
        if (axis < 0 || torus->wrap[axis])
            return wrong(parser, key, "letters of the axes that are rings, each once, or 'none'");
        torus->wrap[axis] = true;
    }
    return 0;
}

static int set_route(struct parser *parser, size_t key)
{
    struct sim_torus_shape *torus = &parser->machine->torus;
    bool taken[SIM_AXES_MAX] = {false};
    int count = 0;
    for (const char *text = parser->found[key].value; *text; text++) {
        if (isspace((unsigned char)*text))
            continue;
        int axis = axis_of(torus, *text);
        if (axis < 0 || taken[axis])
            return wrong(parser, key, "the letters of all axes in the order of travel, each once");
        taken[axis] = true;
        torus->route[count++] = axis;
    }
    if (count != torus->axis_count)
        return wrong(parser, key, "the letters of all axes in the order of travel, each once");
    return 0;
}

static int set_outside(struct parser *parser, size_t key)
{
    const char *text = parser->found[key].value;
    if (!strcmp(text, "dragonfly"))
        parser->machine->cluster.outside = SIM_DRAGONFLY;
    else if (strcmp(text, "fat-tree") != 0)
        return wrong(parser, key, "fat-tree or dragonfly");
    return 0;
}

static int set_key(struct parser *parser, size_t key)
{
    switch (keys[key].value) {
    case NAME:
        return set_name(parser, key);
    case SIDES:
        return set_sides(parser, key);
    case LETTERS:
        return set_letters(parser, key);
    case WRAP:
        return set_wrap(parser, key);
    case ROUTE:
        return set_route(parser, key);
    case OUTSIDE:
        return set_outside(parser, key);
    case YES_NO:
        return set_yes_no(parser, key);
    default:
        return set_number(parser, key);
    }
}

// ---- The whole ------------------------------------------------------------------------------

static bool applies(const struct sim_machine *machine, enum belongs belongs)
{
    bool cluster = machine->kind == SIM_CLUSTER;
    bool dragonfly = cluster && machine->cluster.outside == SIM_DRAGONFLY;
    switch (belongs) {
    case ANY:
        return true;
    case TORUS:
        return !cluster;
    case CLUSTER:
        return cluster;
    case FAT_TREE:
        return cluster && !dragonfly;
    default:
        return dragonfly;
    }
}

static const char *kind_text(const struct sim_machine *machine)
{
    if (machine->kind == SIM_TORUS)
        return "torus";
    return machine->cluster.outside == SIM_DRAGONFLY ? "cluster with a dragonfly"
                                                     : "cluster with a fat tree";
}

static int set_keys(struct parser *parser)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        bool here = parser->found[i].value != NULL;
        if (!applies(parser->machine, keys[i].belongs)) {
            if (here)
                return leat_fail(-EINVAL, "%s:%d: %s is no key of a %s", parser->name,
                                 parser->found[i].line, keys[i].name, kind_text(parser->machine));
            continue;
        }
        if (!here && keys[i].required)
            return leat_fail(-EINVAL, "%s: a %s needs a line '%s = ...'", parser->name,
                             kind_text(parser->machine), keys[i].name);
        int error = here ? set_key(parser, i) : 0;
        if (error)
            return error;
    }
    return 0;
}

static int set_kind(struct parser *parser)
{
    if (!parser->kind)
        return leat_fail(-EINVAL, "%s: expected a line 'kind = torus' or 'kind = cluster'",
                         parser->name);
    if (!strcmp(parser->kind, "cluster"))
        parser->machine->kind = SIM_CLUSTER;
    else if (strcmp(parser->kind, "torus") != 0)
        return leat_fail(-EINVAL, "%s:%d: kind: expected torus or cluster, got '%.40s'",
                         parser->name, parser->kind_line, parser->kind);
    return 0;
}

static int check_cluster(const struct parser *parser)
{
    const struct sim_cluster_shape *cluster = &parser->machine->cluster;
    if (cluster->gpus_per_host % cluster->gpus_per_nvlink)
        return leat_fail(-EINVAL, "%s: gpus_per_nvlink, %d, has to divide gpus_per_host, %d",
                         parser->name, cluster->gpus_per_nvlink, cluster->gpus_per_host);
    if ((int64_t)cluster->hosts * cluster->gpus_per_host > SIM_NODES_MAX)
        return leat_fail(-EINVAL, "%s: %d hosts of %d GPUs are more than %d nodes", parser->name,
                         cluster->hosts, cluster->gpus_per_host, SIM_NODES_MAX);
    if (cluster->levels == 3 && cluster->spine_uplinks == 0)
        return leat_fail(-EINVAL, "%s: levels = 3 needs a line 'spine_uplinks = ...'",
                         parser->name);
    if (cluster->levels == 2 && cluster->spine_uplinks)
        return leat_fail(-EINVAL, "%s: spine_uplinks is for levels = 3, and levels is 2",
                         parser->name);
    return 0;
}

static int finish(struct parser *parser)
{
    struct sim_machine *machine = parser->machine;
    if (!machine->name[0]) {
        const char *slash = strrchr(parser->name, '/');
        const char *base = slash ? slash + 1 : parser->name;
        size_t length = strcspn(base, ".");
        length = length < SIM_NAME_BYTES ? length : SIM_NAME_BYTES - 1;
        memcpy(machine->name, base, length);
    }
    if (machine->kind == SIM_CLUSTER)
        return check_cluster(parser);
    struct sim_torus_shape *torus = &machine->torus;
    if (torus->link_raw_gb_per_s == 0)
        torus->link_raw_gb_per_s = torus->link_gb_per_s;
    if (torus->link_raw_gb_per_s < torus->link_gb_per_s)
        return leat_fail(-EINVAL, "%s: link_raw_gb_per_s, %g, is less than link_gb_per_s, %g",
                         parser->name, torus->link_raw_gb_per_s, torus->link_gb_per_s);
    if (torus->latency_ns < torus->hop_ns)
        return leat_fail(-EINVAL,
                         "%s: latency_ns, %g, holds the first hop but is less than hop_ns, %g",
                         parser->name, torus->latency_ns, torus->hop_ns);
    return 0;
}

int sim_machine_parse(const char *text, size_t bytes, const char *name, struct sim_machine *machine)
{
    memset(machine, 0, sizeof *machine);
    size_t length = strlen(name);
    length = length < sizeof machine->file ? length : sizeof machine->file - 1;
    memcpy(machine->file, name, length);
    if (memchr(text, 0, bytes))
        return leat_fail(-EINVAL, "%s: there is a NUL byte in it, so this is no machine file",
                         name);
    char *copy = malloc(bytes + 1);
    if (!copy)
        return leat_fail(-ENOMEM, "%s: no memory for its %zu bytes", name, bytes);
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    struct parser parser = {.machine = machine, .name = machine->file};
    int error = read_lines(&parser, copy);
    if (!error)
        error = set_kind(&parser);
    if (!error)
        error = set_keys(&parser);
    if (!error)
        error = finish(&parser);
    free(copy);
    if (error)
        sim_machine_end(machine);
    return error;
}

void sim_machine_end(struct sim_machine *machine)
{
    free(machine->dead);
    machine->dead = NULL;
    machine->dead_count = 0;
}
