// SPDX-License-Identifier: Apache-2.0
// Ranks that find one another by LEAT_ROOT: how they start, who does not get in, who dies.

#define _GNU_SOURCE
#include "multi/root_job.h"

#include "core/hello.h"
#include "core/job.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS 4

static struct started ranks[RANKS];

static void expect_status(const struct started *started, int status, int expected)
{
    if (!WIFEXITED(status) || WEXITSTATUS(status) != expected)
        fail_msg("wait status %#x, expected exit status %d: %s", status, expected, started->text);
}

static void finish_all(int count, int expected, const char *words)
{
    for (int rank = 0; rank < count; rank++) {
        expect_status(&ranks[rank], root_finish(&ranks[rank]), expected);
        root_expect(&ranks[rank], words);
    }
}

// ---- Starting ----

static void test_ranks_started_by_hand_in_any_order_become_one_job(void **state)
{
    (void)state;
    int port = root_free_port();
    for (int rank = RANKS - 1; rank >= 0; rank--)
        root_start(&ranks[rank], &(struct root_rank_options){
                                     .port = port, .rank = rank, .size = RANKS, .role = "sum"});
    finish_all(RANKS, 0, "sum 10 of rank ");
}

static void test_a_job_of_one_needs_nobody(void **state)
{
    (void)state;
    root_start(ranks, &(struct root_rank_options){
                          .port = root_free_port(), .rank = 0, .size = 1, .role = "sum"});
    finish_all(1, 0, "sum 1 of rank 0");
}

static void test_closed_standard_descriptors_are_left_to_the_program(void **state)
{
    (void)state;
    int port = root_free_port();
    for (int rank = 0; rank < 2; rank++)
        root_start(&ranks[rank], &(struct root_rank_options){
                                     .port = port, .rank = rank, .size = 2, .role = "closed"});
    finish_all(2, 0, "taken 0\nsum 3 of rank ");
    root_start(ranks, &(struct root_rank_options){.port = port, .size = 1, .role = "alone"});
    finish_all(1, 0, "taken 0\nsum 1 of rank 0");
}

static void test_who_is_missing_is_named(void **state)
{
    (void)state;
    int port = root_free_port();
    for (int rank = 1; rank >= 0; rank--)
        root_start(&ranks[rank], &(struct root_rank_options){.port = port,
                                                             .rank = rank,
                                                             .size = 4,
                                                             .timeout_s = rank ? "10" : "2",
                                                             .role = "sum"});
    finish_all(2, 3, "2 of 4 ranks (2, 3) have not come to LEAT_ROOT=");
}

static void test_a_rank_without_a_root_says_so(void **state)
{
    (void)state;
    root_start(
        ranks,
        &(struct root_rank_options){
            .port = root_free_port(), .rank = 1, .size = 2, .timeout_s = "0.5", .role = "sum"});
    finish_all(1, 3, "is rank 0 started?");
}

static void test_a_short_key_is_refused(void **state)
{
    (void)state;
    root_start(ranks, &(struct root_rank_options){
                          .port = root_free_port(), .size = 1, .key = "short", .role = "sum"});
    finish_all(1, 3, "LEAT_JOB_KEY has 5 characters");
}

static void test_two_jobs_at_once_never_meet(void **state)
{
    (void)state;
    int ports[2] = {root_free_port(), root_free_port()};
    static const char *const keys[2] = {"the key of the first job", "the key of the other one"};
    static struct started stray;
    static const int order[4] = {0, 2, 3, 1}; // the first job's rank 1 last
    for (int i = 0; i < 4; i++) {
        if (i == 3) {
            // One that has the key of the other job is in neither.
            root_start(&stray,
                       &(struct root_rank_options){
                           .port = ports[0], .rank = 1, .size = 2, .key = keys[1], .role = "sum"});
            expect_status(&stray, root_finish(&stray), 3);
            root_expect(&stray, "the same LEAT_JOB_KEY");
        }
        int at = order[i];
        root_start(&ranks[at], &(struct root_rank_options){.port = ports[at / 2],
                                                           .rank = at % 2,
                                                           .size = 2,
                                                           .key = keys[at / 2],
                                                           .role = at % 2 ? "idle" : "watch"});
    }
    for (int i = 0; i < 4; i++)
        root_await(&ranks[i], "open ");
    // The end of one job is not the other's.
    kill(ranks[1].pid, SIGKILL);
    root_finish(&ranks[1]);
    expect_status(&ranks[0], root_finish(&ranks[0]), 0);
    root_expect(&ranks[0], "wait -104");
    assert_int_equal(kill(ranks[2].pid, 0), 0);
    assert_null(strstr(ranks[2].text, "wait "));
    kill(ranks[3].pid, SIGKILL);
    root_finish(&ranks[3]);
    expect_status(&ranks[2], root_finish(&ranks[2]), 0);
    root_expect(&ranks[2], "wait -104");
}

// Rank 0 listens at the first address of localhost, and nobody at another.
static void test_another_address_of_the_name_does_not_hide_the_reason(void **state)
{
    (void)state;
    int port = root_free_port();
    for (int rank = 0; rank < 2; rank++)
        root_start(&ranks[rank],
                   &(struct root_rank_options){.port = port,
                                               .address = "localhost",
                                               .rank = rank,
                                               .size = 2,
                                               .key = rank ? "another key 0123" : NULL,
                                               .role = "sum"});
    uint64_t since_ms = root_now_ms();
    expect_status(&ranks[1], root_finish(&ranks[1]), 3);
    root_expect(&ranks[1], "the same LEAT_JOB_KEY");
    assert_true(root_now_ms() - since_ms < 5000);
    kill(ranks[0].pid, SIGKILL);
    root_finish(&ranks[0]);
}

// Whatever it is that has no descriptor left: it ends, and says what to raise.
static void test_too_few_descriptors_are_an_error_that_says_so(void **state)
{
    (void)state;
    int failed = 0, limit = 1, status;
    do {
        int port = root_free_port();
        for (int rank = 0; rank < 2; rank++)
            root_start(&ranks[rank], &(struct root_rank_options){.port = port,
                                                                 .rank = rank,
                                                                 .size = 2,
                                                                 .files = rank ? 0 : limit,
                                                                 .timeout_s = "0.5",
                                                                 .role = "sum"});
        status = root_finish(&ranks[0]);
        root_finish(&ranks[1]);
        root_expect(&ranks[0], status ? "ulimit -n" : "sum 3 of rank 0");
        failed += status != 0;
    } while (status && limit++ < 64);
    assert_true(failed > 3);
    assert_int_equal(status, 0);
}

static void test_a_port_of_another_program_is_named(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(door, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(getsockname(door, (struct sockaddr *)&address, &bytes), 0);
    assert_int_equal(listen(door, 8), 0);
    root_start(ranks, &(struct root_rank_options){
                          .port = ntohs(address.sin_port), .rank = 1, .size = 2, .role = "sum"});
    int fd = accept(door, NULL, NULL);
    assert_true(fd >= 0);
    assert_int_equal(send(fd, "220 mail.example ESMTP\r\n", 24, MSG_NOSIGNAL), 24);
    finish_all(1, 3, ": something else than leat answers at this address; choose another port");
    close(fd);
    close(door);
}

static void test_an_address_too_long_is_refused_whole(void **state)
{
    (void)state;
    char name[256];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    root_start(ranks, &(struct root_rank_options){
                          .port = 7000, .address = name, .size = 1, .role = "sum"});
    finish_all(1, 3, "LEAT_ROOT has 260 characters; at most 255 are taken");
}

// A name for 127.0.0.1 that needs no server of names.
static void test_rank_0_warns_of_an_address_of_its_host_alone(void **state)
{
    (void)state;
    root_start(ranks, &(struct root_rank_options){.port = root_free_port(),
                                                  .address = "127.1",
                                                  .size = 2,
                                                  .timeout_s = "0.2",
                                                  .role = "sum"});
    root_await(ranks, "on this host, which no other host reaches");
    finish_all(1, 3, "; rank 0 listens at 127.0.0.1:");
}

static void test_a_descriptor_that_is_no_job_is_named(void **state)
{
    (void)state;
    int fds[2] = {memfd_create("no job", 0), open("/dev/null", O_RDWR)};
    assert_int_equal(ftruncate(fds[0], 1 << 20), 0);
    for (int i = 0; i < 2; i++) {
        char number[16], words[96];
        snprintf(number, sizeof number, "%d", fds[i]);
        snprintf(words, sizeof words, "LEAT_JOB_FD=%d: this descriptor is not of a leat job",
                 fds[i]);
        setenv("LEAT_JOB_FD", number, 1);
        root_start(ranks, &(struct root_rank_options){.port = 7000, .size = 1, .role = "sum"});
        unsetenv("LEAT_JOB_FD");
        finish_all(1, 3, words);
        close(fds[i]);
    }
}

// ---- Strangers ----

static const struct hello_key right_key = {.text = ROOT_KEY, .bytes = sizeof ROOT_KEY - 1};

static int knock(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // Rank 0 may not listen yet.
    for (uint64_t until_ms = root_now_ms() + ROOT_LIMIT_MS; root_now_ms() < until_ms;) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        if (!connect(fd, (struct sockaddr *)&address, sizeof address))
            return fd;
        close(fd);
        poll(NULL, 0, 5);
    }
    fail_msg("nobody listens at port %d", port);
    return -1;
}

static void expect_closed(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
}

static void send_bytes(int fd, const void *bytes, size_t count)
{
    assert_int_equal(send(fd, bytes, count, MSG_NOSIGNAL), count);
}

// Until the root hangs up; what it said last.
static struct hello_event listen_to_the_end(int fd, struct hello_channel *channel,
                                            const struct hello_key *key)
{
    struct hello_event last = {.kind = HELLO_NONE};
    uint8_t bytes[HELLO_FRAME_BYTES];
    ssize_t got;
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    while (poll(&poller, 1, ROOT_LIMIT_MS) == 1 && (got = recv(fd, bytes, sizeof bytes, 0)) > 0)
        for (size_t at = 0, used; at < (size_t)got; at += used) {
            struct hello_event event;
            if (hello_take(channel, key, leat_build_id(), bytes + at, (size_t)got - at, &used,
                           &event))
                return last;
            if (event.kind != HELLO_NONE)
                last = event;
        }
    close(fd);
    return last;
}

struct visit {
    struct hello_claim claim;
    struct hello_key key;
    struct hello_channel channel;
    struct hello_frame hello, proof;
};

static void draw(uint8_t nonce[HELLO_NONCE_BYTES])
{
    assert_int_equal(getrandom(nonce, HELLO_NONCE_BYTES, 0), HELLO_NONCE_BYTES);
}

// The handshake as far as the proof; a visitor with a wrong key answers all the same.
static int visit(int port, struct visit *visit)
{
    uint8_t nonce[HELLO_NONCE_BYTES], bytes[HELLO_FRAME_BYTES];
    struct hello_event event = {.kind = HELLO_NONE};
    int fd = knock(port);
    draw(nonce);
    hello_make(&visit->channel, &visit->claim, nonce, &visit->hello);
    send_bytes(fd, visit->hello.byte, visit->hello.bytes);
    size_t have = 0, used;
    while (have < 120) { // a challenge
        ssize_t got = recv(fd, bytes + have, 120 - have, 0);
        if (got <= 0)
            return fd;
        have += (size_t)got;
    }
    int error =
        hello_take(&visit->channel, &visit->key, leat_build_id(), bytes, have, &used, &event);
    assert_true(!error || error == -EACCES);
    memcpy(visit->channel.challenge.byte, bytes, have);
    visit->channel.challenge.bytes = have;
    hello_make_proof(&visit->channel, &visit->key, &visit->proof);
    send_bytes(fd, visit->proof.byte, visit->proof.bytes);
    return fd;
}

static struct visit visitor(uint32_t rank, uint32_t size, const char *key)
{
    struct visit made = {.claim = {.rank = rank, .size = size, .host = "elsewhere"}};
    snprintf(made.claim.build, sizeof made.claim.build, "%s", leat_build_id());
    snprintf(made.key.text, sizeof made.key.text, "%s", key);
    made.key.bytes = strlen(key);
    return made;
}

static void expect_refusal(int port, struct visit *who, const char *words)
{
    int fd = visit(port, who);
    struct hello_event last = listen_to_the_end(fd, &who->channel, &who->key);
    if (last.kind != HELLO_REFUSED || !strstr(last.text, words))
        fail_msg("expected a refusal with \"%s\", got kind %d: %s", words, last.kind, last.text);
}

static void hang_up(int port, const void *bytes, size_t count)
{
    struct hello_channel channel = {.expected = HELLO_CHALLENGE};
    int fd = knock(port);
    send_bytes(fd, bytes, count);
    listen_to_the_end(fd, &channel, &right_key);
}

static void with_wrong_key(int port)
{
    struct visit wrong = visitor(1, 2, "another secret of the test");
    int fd = visit(port, &wrong);
    struct hello_channel plain = {.expected = HELLO_CHALLENGE};
    assert_int_equal(listen_to_the_end(fd, &plain, &right_key).kind, HELLO_REFUSED);
}

static void with_garbage(int port)
{
    uint8_t noise[4096];
    assert_int_equal(getrandom(noise, sizeof noise, 0), sizeof noise);
    hang_up(port, "GET / HTTP/1.1\r\nHost: leat\r\n\r\n", 30);
    hang_up(port, noise, 1);
    noise[0] = 'x';
    hang_up(port, noise, 64);
    hang_up(port, "leat\x01\x01\xff\xff", 8);
    hang_up(port, "leat\x09\x01\x00\x70", 8);
}

static void with_another_build(int port)
{
    struct visit other = visitor(1, 2, ROOT_KEY);
    snprintf(other.claim.build, sizeof other.claim.build, "leat 9.8.7 layout 6");
    uint8_t nonce[HELLO_NONCE_BYTES];
    draw(nonce);
    int fd = knock(port);
    hello_make(&other.channel, &other.claim, nonce, &other.hello);
    send_bytes(fd, other.hello.byte, other.hello.bytes);
    struct hello_event last = listen_to_the_end(fd, &other.channel, &right_key);
    assert_int_equal(last.kind, HELLO_REFUSED);
    assert_non_null(strstr(last.text, "leat 9.8.7 layout 6"));
    assert_non_null(strstr(last.text, leat_build_id()));
}

// Frames of a real rank of an earlier job with the same key.
static struct visit overheard_visit(void)
{
    static struct started earlier;
    struct visit honest = visitor(1, 2, ROOT_KEY);
    int port = root_free_port();
    root_start(&earlier,
               &(struct root_rank_options){.port = port, .rank = 0, .size = 2, .role = "sum"});
    close(visit(port, &honest));
    // That it was proven shows in its loss.
    expect_status(&earlier, root_finish(&earlier), 3);
    root_expect(&earlier, "the job has not begun: rank 1 was lost");
    return honest;
}

static void replay(int port, const struct visit *overheard)
{
    struct hello_channel plain = {.expected = HELLO_CHALLENGE};
    uint8_t bytes[HELLO_FRAME_BYTES];
    int fd = knock(port);
    send_bytes(fd, overheard->hello.byte, overheard->hello.bytes);
    assert_true(recv(fd, bytes, 120, MSG_WAITALL) == 120);
    send_bytes(fd, overheard->proof.byte, overheard->proof.bytes);
    struct hello_event last = listen_to_the_end(fd, &plain, &right_key);
    assert_int_equal(last.kind, HELLO_REFUSED);
    assert_non_null(strstr(last.text, "does not have this job's key"));
}

static void test_strangers_neither_join_nor_stop_a_job_that_forms(void **state)
{
    (void)state;
    struct visit overheard = overheard_visit();
    int port = root_free_port();
    root_start(&ranks[0],
               &(struct root_rank_options){.port = port, .rank = 0, .size = 3, .role = "watch"});
    int half = knock(port);
    send_bytes(half, overheard.hello.byte, 20);
    with_wrong_key(port);
    with_wrong_key(port);
    with_garbage(port);
    with_another_build(port);
    replay(port, &overheard);
    struct visit other_size = visitor(1, 2, ROOT_KEY), too_high = visitor(3, 3, ROOT_KEY);
    expect_refusal(port, &other_size, "LEAT_SIZE is 2 there and 3 here");
    expect_refusal(port, &too_high, "LEAT_RANK is 3");
    setenv("LEAT_LOG", "info", 1);
    root_start(&ranks[1],
               &(struct root_rank_options){.port = port, .rank = 1, .size = 3, .role = "idle"});
    unsetenv("LEAT_LOG");
    root_await(&ranks[1], "joined the job of 3 ranks");
    struct visit twice = visitor(1, 3, ROOT_KEY), root_twice = visitor(0, 3, ROOT_KEY);
    expect_refusal(port, &twice, "rank 1 is in the job already, from 127.0.0.1:");
    expect_refusal(port, &root_twice, "LEAT_RANK is 0");
    with_garbage(port);
    root_start(&ranks[2],
               &(struct root_rank_options){.port = port, .rank = 2, .size = 3, .role = "idle"});
    for (int rank = 0; rank < 3; rank++)
        root_await(&ranks[rank], "open ");
    expect_closed(port);
    // Half a hello has its deadline, also then.
    struct hello_channel plain = {.expected = HELLO_CHALLENGE};
    listen_to_the_end(half, &plain, &right_key);
    for (int rank = 1; rank < 3; rank++) {
        kill(ranks[rank].pid, SIGKILL);
        root_finish(&ranks[rank]);
    }
    expect_status(&ranks[0], root_finish(&ranks[0]), 0);
    root_expect(&ranks[0], "wait -104");
    // Each misdeed is named once, with the address it came from.
    static const char *const misdeeds[] = {"it does not have this job's key",
                                           "what it sent is no hello of leat",
                                           "\"leat 9.8.7 layout 6\"",
                                           "LEAT_SIZE is 2 there and 3 here",
                                           "rank 1 is in the job already, from",
                                           "did not prove the job's key within 5 s",
                                           "version 9 of the hello",
                                           "LEAT_RANK is 3"};
    for (size_t i = 0; i < sizeof misdeeds / sizeof *misdeeds; i++)
        if (root_count(ranks[0].text, misdeeds[i]) != 1)
            fail_msg("\"%s\" is not once in: %s", misdeeds[i], ranks[0].text);
    root_expect(&ranks[0], "turned away 127.0.0.1:");
}

static void test_a_thousand_connections_do_not_keep_a_rank_out(void **state)
{
    (void)state;
    static int fds[1000];
    int port = root_free_port(), count = 0;
    root_start(&ranks[0],
               &(struct root_rank_options){.port = port, .rank = 0, .size = 2, .role = "sum"});
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max < 1100 ? limit.rlim_max : 1100;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    // The root keeps 256 of them.
    while (count < 1000 && count + 50 < (int)limit.rlim_cur)
        fds[count++] = knock(port);
    root_start(&ranks[1],
               &(struct root_rank_options){.port = port, .rank = 1, .size = 2, .role = "sum"});
    finish_all(2, 0, "sum 3 of rank ");
    for (int i = 0; i < count; i++)
        close(fds[i]);
    assert_int_equal(root_count(ranks[0].text, "too many connections at once"), 1);
    assert_true(count > 500);
}

// ---- Deaths ----

static void test_a_killed_rank_is_named_to_the_others(void **state)
{
    (void)state;
    for (int victim = 0; victim < 2; victim++) {
        int port = root_free_port();
        for (int rank = 0; rank < 2; rank++)
            root_start(&ranks[rank],
                       &(struct root_rank_options){.port = port,
                                                   .rank = rank,
                                                   .size = 2,
                                                   .role = rank == victim ? "idle" : "halo"});
        root_await(&ranks[victim], "open ");
        kill(ranks[victim].pid, SIGKILL);
        root_finish(&ranks[victim]);
        uint64_t since_ms = root_now_ms();
        root_finish(&ranks[1 - victim]);
        assert_true(root_now_ms() - since_ms < 2000);
        char words[32];
        snprintf(words, sizeof words, "rank %d (process %d) has died", victim,
                 (int)ranks[victim].pid);
        root_expect(&ranks[1 - victim], words);
    }
}

static void test_a_rank_that_fails_to_open_ends_the_start(void **state)
{
    (void)state;
    int port = root_free_port();
    struct visit honest = visitor(1, 3, ROOT_KEY);
    setenv("LEAT_LOG", "info", 1);
    root_start(&ranks[0],
               &(struct root_rank_options){.port = port, .rank = 0, .size = 3, .role = "sum"});
    root_start(&ranks[1],
               &(struct root_rank_options){.port = port, .rank = 2, .size = 3, .role = "sum"});
    unsetenv("LEAT_LOG");
    root_await(&ranks[1], "joined the job of 3 ranks");
    close(visit(port, &honest));
    finish_all(2, 3, "rank 1 was lost");
}

int main(int argc, char **argv)
{
    root_play_role(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_started_by_hand_in_any_order_become_one_job),
        cmocka_unit_test(test_a_job_of_one_needs_nobody),
        cmocka_unit_test(test_closed_standard_descriptors_are_left_to_the_program),
        cmocka_unit_test(test_who_is_missing_is_named),
        cmocka_unit_test(test_a_rank_without_a_root_says_so),
        cmocka_unit_test(test_a_short_key_is_refused),
        cmocka_unit_test(test_two_jobs_at_once_never_meet),
        cmocka_unit_test(test_another_address_of_the_name_does_not_hide_the_reason),
        cmocka_unit_test(test_too_few_descriptors_are_an_error_that_says_so),
        cmocka_unit_test(test_a_port_of_another_program_is_named),
        cmocka_unit_test(test_an_address_too_long_is_refused_whole),
        cmocka_unit_test(test_rank_0_warns_of_an_address_of_its_host_alone),
        cmocka_unit_test(test_a_descriptor_that_is_no_job_is_named),
        cmocka_unit_test(test_strangers_neither_join_nor_stop_a_job_that_forms),
        cmocka_unit_test(test_a_thousand_connections_do_not_keep_a_rank_out),
        cmocka_unit_test(test_a_killed_rank_is_named_to_the_others),
        cmocka_unit_test(test_a_rank_that_fails_to_open_ends_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
