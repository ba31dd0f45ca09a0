/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says about this machine, for `leat info`.
 */
#ifndef LEAT_CLI_INFO_MACHINE_H
#define LEAT_CLI_INFO_MACHINE_H

#include <jansson.h>

/* {"model", "cores", "usable_cores", "packages", "memory_bytes", "available_bytes", "limit_bytes"?,
 * "numa": [{"node", "cores", "memory_bytes"}]} */
json_t *machine_describe(void);
/* [{"name", "state", "costs"?}]: what the system permits, and what it costs where it does not. */
json_t *machine_permissions(void);
/* [{"name", "present", "what" or "absent" and "costs"}]: how ranks can be started. */
json_t *machine_launchers(void);
/* [{"name", "present", "what" or "absent", "costs"?}]: by what files can be read. */
json_t *machine_files(void);

#endif
