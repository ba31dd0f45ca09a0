#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""leat torus beside SimGrid: a broadcast and an exchange with neighbours at 512 and 2,048 nodes.

Both model a torus whose sides all close, without interfaces or processor time. SimGrid's flows
share links by their latency, as TCP does; with no latency at all they share alike, which is what
leat's pieces do. Bytes take far longer than the latencies that leat then has and SimGrid has not.
Broadcasts run in a box of a larger torus, so that no two ranks are half a ring apart, where the
ways may differ. Skipped without g++ or SimGrid (libsimgrid-dev).
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

LEAT = os.environ["LEAT_BIN"]
SOURCE = os.environ["LEAT_SOURCE_DIR"]
TOLERANCE = 0.10
HOP_NS = 100

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
<cluster id="t" prefix="n" radical="0-{last}" suffix="" speed="1Gf" bw="4.7GBps" lat="0ns"
 topology="TORUS" topo_parameters="{2},{1},{0}" sharing_policy="SPLITDUPLEX"/>
</platform>
"""

MACHINE = """name = beside SimGrid
kind = torus
sides = {0} {1} {2}
axes = X Y Z
wrap = X Y Z
link_gb_per_s = 4.7
hop_ns = {hop}
latency_ns = {hop}
tni_count = 16
packet_bytes = 1024
software_send_ns = 0
software_receive_ns = 0
copy_gb_per_s = 100000
"""

CASES = [  # operation, bytes, ranks, torus
    ("bcast", 1 << 20, (8, 8, 8), (17, 17, 17)),
    ("bcast", 1 << 16, (8, 8, 8), (17, 17, 17)),
    ("bcast", 1 << 20, (8, 16, 16), (17, 33, 33)),
    ("exchange", 1 << 20, (8, 8, 8), (8, 8, 8)),
    ("exchange", 1 << 20, (8, 16, 16), (8, 16, 16)),
]


def skip(reason):
    print(reason)
    sys.exit(77)


def build(folder):
    compiler = shutil.which("g++")
    if not compiler:
        skip("g++ is not there")
    program = os.path.join(folder, "simgrid_ranks")
    probe = subprocess.run([compiler, "-E", "-x", "c++", "-"], input="#include <simgrid/s4u.hpp>\n",
                           capture_output=True, text=True, check=False)
    if probe.returncode:
        skip("SimGrid is not there: libsimgrid-dev")
    subprocess.run([compiler, "-O1", "-std=c++17", os.path.join(SOURCE, "test/peer/simgrid_ranks.cpp"),
                    "-lsimgrid", "-o", program], check=True)
    return program


def simgrid_seconds(program, folder, operation, size, ranks, torus):
    path = os.path.join(folder, "platform.xml")
    with open(path, "w", encoding="ascii") as file:
        file.write(PLATFORM.format(*torus, last=torus[0] * torus[1] * torus[2] - 1))
    command = [program, path, operation, str(size), *map(str, ranks), *map(str, torus),
               "--cfg=network/model:CM02", "--cfg=network/crosstraffic:0", "--log=root.thres:error",
               "--cfg=contexts/stack-size:64", "--cfg=contexts/guard-size:0"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def leat_run(folder, operation, size, ranks, torus):
    path = os.path.join(folder, "beside.machine")
    with open(path, "w", encoding="ascii") as file:
        file.write(MACHINE.format(*torus, hop=HOP_NS))
    command = [LEAT, "torus", path, operation, "--nodes", "x".join(map(str, ranks)), "--bytes",
               str(size), "--json"]
    if operation == "bcast":
        command += ["--algorithm", "binomial"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder)
        for case in CASES:
            peer = simgrid_seconds(program, folder, *case)
            own = leat_run(folder, *case)
            apart = own["seconds"] / peer - 1
            right = own["checked"] and abs(apart) <= TOLERANCE and own["seconds"] >= own["bound_seconds"]
            failures += not right
            print(f"{case[0]:8} {case[1]:8} bytes, {own['ranks']:5} ranks: leat {own['seconds'] * 1e6:10.2f} us, "
                  f"SimGrid {peer * 1e6:10.2f} us, {apart * 100:+.2f} %{'' if right else '  WRONG'}")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
