// SPDX-License-Identifier: Apache-2.0
// Handles: names of this rank's requests that peers may use on the wire.
//
// Algorithm: a table of fixed size; a handle is a place in it and how often that place was used.
// Advantage: what comes from the wire is checked before it leads to memory, and a late packet for a
// finished request finds nothing. Disadvantage: the table bounds how many announcements are out;
// beyond it messages wait at their sender, who says so (hold.c).

#include "msg/internal.h"

#include <errno.h>

#define PLACE_BITS 16

int msg_handles_open(struct msg_engine *engine)
{
    uint32_t limit = engine->tuning.handle_limit;
    engine->handle = msg_alloc(&engine->pools, POOL_WORK, (limit + 1ULL) * sizeof *engine->handle);
    if (!engine->handle)
        return -ENOMEM;
    engine->handle_count = limit;
    for (uint32_t i = limit; i >= 1; i--) {
        engine->handle[i].next_free = engine->handle_free;
        engine->handle_free = i;
    }
    return 0;
}

void msg_handles_close(struct msg_engine *engine)
{
    if (engine->handle)
        msg_free(&engine->pools, POOL_WORK, engine->handle,
                 (engine->handle_count + 1ULL) * sizeof *engine->handle);
    engine->handle = NULL;
}

uint32_t msg_handle_take(struct msg_engine *engine, struct msg_request *request, uint32_t reserve)
{
    if (engine->handle_count - engine->handles_live <= reserve)
        return 0;
    uint32_t place = engine->handle_free;
    struct msg_handle *handle = &engine->handle[place];
    engine->handle_free = handle->next_free;
    engine->handles_live++;
    handle->request = request;
    request->handle = handle->generation << PLACE_BITS | place;
    return request->handle;
}

struct msg_request *msg_handle_request(struct msg_engine *engine, uint32_t name, int peer,
                                       enum msg_request_kind kind)
{
    uint32_t place = name & ((1u << PLACE_BITS) - 1);
    if (!place || place > engine->handle_count)
        return NULL;
    struct msg_request *request = engine->handle[place].request;
    if (!request || request->handle != name || request->peer != peer || request->kind != kind)
        return NULL;
    return request;
}

void msg_handle_give(struct msg_engine *engine, struct msg_request *request)
{
    if (!request->handle)
        return;
    uint32_t place = request->handle & ((1u << PLACE_BITS) - 1);
    struct msg_handle *handle = &engine->handle[place];
    handle->request = NULL;
    handle->generation = (handle->generation + 1) & ((1u << PLACE_BITS) - 1);
    handle->next_free = engine->handle_free;
    engine->handle_free = place;
    engine->handles_live--;
    request->handle = 0;
}
