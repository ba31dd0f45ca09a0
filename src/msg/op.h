/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types and operations of reductions: inout[i] = in[i] OP inout[i], where `in` is of lower ranks.
 *
 * One loop an operation and type, made from a list, which the compiler vectorises. Advantage: the
 * order of combining is the caller's alone. Disadvantage: a hundred small loops of code.
 */
#ifndef LEAT_MSG_OP_H
#define LEAT_MSG_OP_H

#include "leat/msg.h"

/* Bytes of one element; the user operation's where that says so. 0 for what is no type. */
uint64_t msg_type_bytes(enum leat_type type);
const char *msg_type_name(enum leat_type type);
const char *msg_operation_name(enum leat_operation operation);

/* 0 or -EINVAL naming operation and type. */
int msg_operation_check(enum leat_operation operation, enum leat_type type,
                        const leat_user_operation *user);

/* The operands must not overlap. Built-in operations give the same bits with `in` and `inout`
 * exchanged: every NaN that results, of sums and products too, is the quiet NaN of msg.h. */
void msg_combine(enum leat_operation operation, enum leat_type type,
                 const leat_user_operation *user, const void *in, void *inout, uint64_t count);

/* What the result is where only one rank has contributed: NaNs as above, and truth as 0 or 1. */
void msg_combine_alone(enum leat_operation operation, enum leat_type type, void *values,
                       uint64_t count);

#endif
