// SPDX-License-Identifier: Apache-2.0
// A binomial broadcast and an exchange with neighbours on a SimGrid platform, beside which
// test_sim_simgrid.py holds leat torus.
//
// usage: simgrid_ranks PLATFORM bcast|exchange BYTES A B C OF_A OF_B OF_C
// Ranks are a box of A x B x C hosts in a torus of OF_A x OF_B x OF_C, the last side running
// fastest. Prints the seconds that it takes.

#include <cstdio>
#include <cstdlib>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace s4u = simgrid::s4u;

static int side[3], of[3], ranks;
static double bytes;
static int payload;

static s4u::Mailbox *box(int from, int to, int tag)
{
    return s4u::Mailbox::by_name(std::to_string(from) + ">" + std::to_string(to) + ":" +
                                 std::to_string(tag));
}

static void broadcast(int rank)
{
    int mask = 1;
    while (mask < ranks && !(rank & mask))
        mask <<= 1;
    if (rank)
        box(rank - mask, rank, 0)->get<int>();
    std::vector<s4u::CommPtr> sends;
    for (mask >>= 1; mask; mask >>= 1)
        if (rank + mask < ranks)
            sends.push_back(box(rank, rank + mask, 0)->put_async(&payload, bytes));
    s4u::Comm::wait_all(sends);
}

static void exchange(int rank)
{
    const int at[3] = {rank / side[2] / side[1], rank / side[2] % side[1], rank % side[2]};
    std::vector<s4u::CommPtr> all;
    std::vector<int *> got(6);
    for (int sends = 0; sends < 2; sends++)
        for (int direction = 0; direction < 6; direction++) {
            int to[3] = {at[0], at[1], at[2]}, i = direction / 2;
            to[i] = (to[i] + (direction % 2 ? side[i] - 1 : 1)) % side[i];
            int peer = (to[0] * side[1] + to[1]) * side[2] + to[2];
            if (sends)
                all.push_back(box(rank, peer, direction)->put_async(&payload, bytes));
            else
                all.push_back(box(peer, rank, direction ^ 1)->get_async<int>(&got[direction]));
        }
    s4u::Comm::wait_all(all);
}

static std::string host_of(int rank)
{
    int a = rank / side[2] / side[1], b = rank / side[2] % side[1], c = rank % side[2];
    return "n" + std::to_string((a * of[1] + b) * of[2] + c);
}

int main(int argc, char **argv)
{
    s4u::Engine engine(&argc, argv);
    if (argc != 10)
        return 2;
    engine.load_platform(argv[1]);
    const std::string what = argv[2];
    bytes = atof(argv[3]);
    for (int i = 0; i < 3; i++) {
        side[i] = atoi(argv[4 + i]);
        of[i] = atoi(argv[7 + i]);
    }
    ranks = side[0] * side[1] * side[2];
    for (int rank = 0; rank < ranks; rank++)
        s4u::Actor::create("rank", s4u::Host::by_name(host_of(rank)), [what, rank] {
            if (what == "bcast")
                broadcast(rank);
            else
                exchange(rank);
        });
    engine.run();
    printf("%.12f\n", s4u::Engine::get_clock());
}
