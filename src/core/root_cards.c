// SPDX-License-Identifier: Apache-2.0
// The root as a directory: where each rank can be found in a network, for those who ask.
//
// Algorithm: a card a rank and kind, kept as it comes; a question for one that is not there yet
// waits with that rank. Advantage: nobody is told what he has not asked for. Disadvantage: rank 0
// answers every question, one a pair of ranks of different hosts that speak to each other.

#define _GNU_SOURCE
#include "core/root_internal.h"

#include "core/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct root_card *card_of(struct root *root, int number)
{
    int count = root->options.rank_count;
    return &root->rank[number % count].card[number / count];
}

// The first one stays: a rank is where it has said it is.
static bool keep(struct root *root, int number, const char *card)
{
    char *copy = strdup(card), **text = &card_of(root, number)->text;
    pthread_mutex_lock(&root->lock);
    bool first = copy && !*text;
    if (first)
        *text = copy;
    pthread_mutex_unlock(&root->lock);
    if (!first)
        free(copy);
    return first;
}

static bool known(struct root *root, int number, struct hello_event *event)
{
    pthread_mutex_lock(&root->lock);
    const char *card = card_of(root, number)->text;
    if (card)
        snprintf(event->text, sizeof event->text, "%s", card);
    pthread_mutex_unlock(&root->lock);
    return card != NULL;
}

void root_answer_all(struct root *root, int number)
{
    struct hello_event event = {.kind = HELLO_CARD, .rank = (uint32_t)number};
    struct root_ask *ask = card_of(root, number)->asks;
    if (!ask || !known(root, number, &event))
        return;
    card_of(root, number)->asks = NULL;
    while (ask) {
        struct root_ask *next = ask->next;
        if (root->rank[ask->asker].peer)
            root_say(root->rank[ask->asker].peer, &event);
        free(ask);
        ask = next;
    }
}

void root_take_card(struct root *root, int rank, uint32_t number, const char *card)
{
    const uint32_t count = (uint32_t)root->options.rank_count;
    if (number / count >= LEAT_CARDS || number % count != (uint32_t)rank)
        return; // a rank says where it is itself, and no more
    if (strlen(card) < LEAT_CARD_BYTES && keep(root, (int)number, card))
        root_answer_all(root, (int)number);
}

void root_answer(struct root *root, struct root_peer *peer, uint32_t number)
{
    struct hello_event event = {.kind = HELLO_CARD, .rank = number};
    if (number / (uint32_t)root->options.rank_count >= LEAT_CARDS)
        return;
    struct root_card *card = card_of(root, (int)number);
    if (known(root, (int)number, &event)) {
        root_say(peer, &event);
        return;
    }
    // A rank that asks twice gets one answer.
    for (struct root_ask *ask = card->asks; ask; ask = ask->next)
        if (ask->asker == peer->rank)
            return;
    struct root_ask *ask = malloc(sizeof *ask);
    if (!ask) {
        leat_log(root->options.log_level, LOG_ERROR, 0, "root: no memory for a question of rank %d",
                 peer->rank);
        return;
    }
    *ask = (struct root_ask){.next = card->asks, .asker = peer->rank};
    card->asks = ask;
}

void root_cards_free(struct root *root)
{
    for (int number = 0; number < LEAT_CARDS * root->options.rank_count; number++) {
        struct root_card *card = card_of(root, number);
        free(card->text);
        while (card->asks) {
            struct root_ask *ask = card->asks;
            card->asks = ask->next;
            free(ask);
        }
    }
}

// ---- Rank 0's calls ----

int root_publish(struct root *root, int number, const char *card)
{
    uint64_t one = 1;
    keep(root, number, card);
    // Who has asked already is answered by the thread.
    return write(root->wake_fd, &one, sizeof one) < 0
               ? leat_fail(-errno, "eventfd: %s", strerror(errno))
               : 0;
}

int root_find(struct root *root, int number, char card[LEAT_CARD_BYTES])
{
    struct hello_event event;
    if (!known(root, number, &event))
        return -EAGAIN;
    snprintf(card, LEAT_CARD_BYTES, "%.*s", LEAT_CARD_BYTES - 1, event.text);
    return 0;
}

void root_reached_at(struct root *root, char address[64])
{
    char local[64] = "";
    pthread_mutex_lock(&root->lock);
    snprintf(local, sizeof local, "%s", root->reached);
    pthread_mutex_unlock(&root->lock);
    if (*local)
        memcpy(address, local, sizeof local);
}

// ---- Addresses ----

void root_own_address(int fd, char address[64])
{
    struct sockaddr_storage own = {0};
    socklen_t bytes = sizeof own;
    if (getsockname(fd, (struct sockaddr *)&own, &bytes))
        return;
    const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)&own;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)&own;
    if (own.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        inet_ntop(AF_INET, six->sin6_addr.s6_addr + 12, address, 64);
    else if (own.ss_family == AF_INET6)
        inet_ntop(AF_INET6, &six->sin6_addr, address, 64);
    else if (own.ss_family == AF_INET)
        inet_ntop(AF_INET, &four->sin_addr, address, 64);
}
