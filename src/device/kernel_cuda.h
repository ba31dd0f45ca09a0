/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of kernel.h on a GPU.
 *
 * Signals come from other GPUs, so they are stored with release and read with acquire at system
 * scope; what only the blocks of one grid share has the GPU's scope. Included by kernel.h only.
 * Advantage: the compiler sees the whole kernel, words included. Disadvantage: what is asked of the
 * memory model is asm that no tool on a machine without a GPU can check.
 */
#ifndef LEAT_DEVICE_KERNEL_CUDA_H
#define LEAT_DEVICE_KERNEL_CUDA_H

#define K_FN        static __device__ __forceinline__
#define K_UNROLL    _Pragma("unroll")
#define K_COALESCES 1 /* neighbouring lanes do best with neighbouring words */

/* A domain's share of the launch: several domains of one GPU are one grid. */
struct k_grid {
    uint32_t block, block_count;
    /* Known when a kernel is compiled: whether it may write orders to a proxy, and whether it may
     * send by bulk copies. */
    uint32_t orders, bulk;
};
#define K_ORDERS(grid) ((grid)->orders)
#define K_BULK(grid)   ((grid)->bulk)

K_FN uint32_t k_block(const struct k_grid *grid)
{
    return grid->block;
}
K_FN uint32_t k_block_count(const struct k_grid *grid)
{
    return grid->block_count;
}
K_FN uint32_t k_lane(const struct k_grid *grid)
{
    (void)grid;
    return threadIdx.x;
}
/* Neighbouring lanes take neighbouring elements: loads and stores coalesce. */
#define K_FOR_EACH(i, begin, end, grid)                                                            \
    for (uint32_t i = (begin) + (grid)->block * blockDim.x + threadIdx.x; i < (end);               \
         i += (grid)->block_count * blockDim.x)

K_FN void k_sync_block(const struct k_grid *grid)
{
    (void)grid;
    __syncthreads();
}

/* Bulk copies from the block's shared memory, two halves by turns: lane 0 hands them over and waits
 * for them. What the lanes have stored in shared memory has to be fenced from this proxy to the
 * copy unit's before lane 0 is told; so has what the receiver has read of its landing before it
 * said, and lane 0 acquired, that this is free. What the copies have stored is visible to lane 0
 * once its wait has ended (PTX ISA, cp.async.bulk.wait_group without .read), and so to who acquires
 * what lane 0 releases after that. */
#define K_BLOCK_LANES(grid)             blockDim.x
#define K_TILE(grid, type, name, count) __shared__ __align__(16) type name[2][count]
/* Before the block's tile of that number, from 0, is filled: the last but one has been read. */
K_FN void k_tile_take(const struct k_grid *grid, uint32_t number)
{
    (void)grid;
    if (number < 2)
        return;
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    __syncthreads();
}
K_FN void k_tile_send(const struct k_grid *grid, void *to, const void *half, uint32_t bytes)
{
    (void)grid;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("fence.proxy.async.global;\n\t"
                     "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n\t"
                     "cp.async.bulk.commit_group;" ::"l"(to),
                     "r"((uint32_t)__cvta_generic_to_shared(half)), "r"(bytes)
                     : "memory");
}
/* All of them are in, and both halves free. */
K_FN void k_tile_done(const struct k_grid *grid, uint32_t count)
{
    (void)grid;
    if (!count)
        return;
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    __syncthreads();
}
/* Whether any lane of the block says so; also a barrier of the block. */
K_FN uint32_t k_any(const struct k_grid *grid, uint32_t value)
{
    (void)grid;
    return (uint32_t)__syncthreads_or((int)value);
}
K_FN uint64_t k_load_acquire(const uint64_t *word)
{
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}
K_FN void k_signal_raise(struct leat_signal *signal, uint64_t value)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(&signal->value), "l"(value)
                 : "memory");
}
/* For the ring to the proxy, in memory of the host. It looks there by itself: no GPU wakes it. */
#define K_COLD                                                                                     \
    static __device__                                                                              \
        __noinline__ /* its registers are not those of a kernel that stores by itself */
K_FN uint64_t k_ticket(uint64_t *next)
{
    return atomicAdd((unsigned long long *)next, 1ull);
}
K_FN uint64_t k_room(const struct leat_signal *carried)
{
    return k_load_acquire(&carried->value);
}
K_FN void k_order_put(uint64_t *turn, uint64_t value)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(turn), "l"(value) : "memory");
}
K_FN void k_bell(struct leat_signal *bell)
{
    (void)bell;
}
K_FN uint32_t k_add_acq_rel(uint32_t *word, uint32_t by)
{
    uint32_t old;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(word), "r"(by)
                 : "memory");
    return old;
}
K_FN void k_store_relaxed(uint32_t *word, uint32_t value)
{
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
/* The host reads it. */
K_FN void k_store_release(uint32_t *word, uint32_t value)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
K_FN uint32_t k_claim(uint32_t *word)
{
    return atomicCAS(word, 0u, 1u) == 0u;
}
/* Which exchange this is, from 1: exchanges in the upper 48 bits, blocks that have come for the
 * next one below; one addition answers both, and the last to come moves the number on. Nobody else
 * writes the word while the kernel runs. Once a kernel, by all lanes. The host gives the number
 * where it knows it, which saves the way to memory; 0 in what a graph may replay. */
K_FN uint64_t k_turn(const struct k_grid *grid, uint64_t *word, uint64_t given)
{
    if (given) {
        if (threadIdx.x == 0 && grid->block == 0)
            *word = given << 16;
        return given;
    }
    __shared__ uint64_t turn;
    if (threadIdx.x == 0) {
        unsigned long long *at = (unsigned long long *)word;
        uint64_t old = atomicAdd(at, 1ull);
        if ((old & 0xffff) + 1 == grid->block_count)
            atomicAdd(at, 0x10000ull - grid->block_count);
        turn = old >> 16;
    }
    __syncthreads();
    return turn + 1;
}
/* The caller's functions are the CPU device's; a GPU's consumer is compiled into its kernel. */
#define K_CALL(function, user, grid, step) ((void)(function), 0)

K_FN uint32_t k_failed(const struct k_error *error)
{
    uint32_t value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(&error->failed)
                 : "memory");
    return value;
}
K_FN uint64_t k_now_ns(void)
{
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}
K_FN void k_pause(uint32_t ns)
{
    uint64_t until = k_now_ns() + ns;
    while (k_now_ns() < until)
        continue;
}
#define K_POLLS 64 /* between two looks at the clock, which takes longer than a poll */

/* What a wait that goes on for long looks at: 0, or why it ends. *deadline is 0 at first. */
K_FN int k_overdue(const struct k_wait *wait, uint64_t *deadline)
{
    uint64_t now = k_now_ns();
    if (!*deadline)
        *deadline = now + wait->timeout_ns;
    if (k_failed(wait->error))
        return -125;                   /* ECANCELED: another block has said why */
    return now > *deadline ? -110 : 0; /* ETIMEDOUT */
}
K_FN int k_wait_word(const struct k_wait *wait, struct leat_signal *signal, uint64_t wanted,
                     int peer, uint64_t *seen)
{
    uint64_t deadline = 0;
    (void)peer;
    for (;;) {
        for (int poll = 0; poll < K_POLLS; poll++) {
            *seen = k_load_acquire(&signal->value);
            if (leat_signal_reached(*seen, wanted))
                return 0;
        }
        int code = k_overdue(wait, &deadline);
        if (code)
            return code;
    }
}
/* The gate counts blocks, all rounds together, so nobody has to open it. */
#define K_MEET
K_FN int k_meet(const struct k_grid *grid, const struct k_wait *wait, uint32_t *arrived,
                struct leat_signal *gate, uint64_t round, uint64_t *seen)
{
    const uint64_t wanted = round * grid->block_count;
    uint64_t deadline = 0;
    (void)arrived;
    asm volatile("red.release.gpu.global.add.u64 [%0], 1;" ::"l"(&gate->value) : "memory");
    for (;;) {
        for (int poll = 0; poll < K_POLLS; poll++) {
            asm volatile("ld.acquire.gpu.global.u64 %0, [%1];"
                         : "=l"(*seen)
                         : "l"(&gate->value)
                         : "memory");
            if (leat_signal_reached(*seen, wanted))
                return 0;
        }
        int code = k_overdue(wait, &deadline);
        if (code)
            return code;
    }
}
/* Sixteen bytes as one: nobody sees a part of them. */
K_FN void k_fail(const struct k_wait *wait, int code, int peer, int pulse, const void *signal,
                 uint64_t wanted, uint64_t seen);
K_FN void k_packet_put(struct k_packet *packet, const uint32_t word[3], uint32_t tag)
{
    const uint64_t low = (uint64_t)word[1] << 32 | word[0], high = (uint64_t)tag << 32 | word[2];
    asm volatile("{\n\t"
                 ".reg .b128 whole;\n\t"
                 "mov.b128 whole, {%1, %2};\n\t"
                 "st.relaxed.sys.global.b128 [%0], whole;\n\t"
                 "}" ::"l"(packet),
                 "l"(low), "l"(high)
                 : "memory");
}
K_FN uint32_t k_packet_wait(const struct k_wait *wait, const struct k_packet *packet, uint32_t tag,
                            uint32_t word[3])
{
    uint64_t deadline = 0;
    for (;;) {
        uint32_t seen = 0;
        for (int poll = 0; poll < K_POLLS; poll++) {
            uint64_t low, high;
            asm volatile("{\n\t"
                         ".reg .b128 whole;\n\t"
                         "ld.relaxed.sys.global.b128 whole, [%2];\n\t"
                         "mov.b128 {%0, %1}, whole;\n\t"
                         "}"
                         : "=l"(low), "=l"(high)
                         : "l"(packet)
                         : "memory");
            seen = (uint32_t)(high >> 32);
            word[0] = (uint32_t)low;
            word[1] = (uint32_t)(low >> 32);
            word[2] = (uint32_t)high;
            if (seen == tag)
                return 0;
        }
        int code = k_overdue(wait, &deadline);
        if (code == -110)
            k_fail(wait, code, -1, -1, packet, tag, seen);
        if (code)
            return 1;
    }
}

#endif
