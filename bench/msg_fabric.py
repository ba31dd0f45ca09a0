#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Messages of leat over libfabric's TCP providers beside fi_pingpong, on loopback; MPIs over TCP too.

Algorithm: ranks of leat and of each MPI are started once and led through pipes (bench/slice.h), as
`leat bench p2p` leads them; fi_pingpong is a new pair of processes a slice, the client started once
the server listens. All sides take turns in short slices of equal length, size by size, and from each
a few messages are taken off again, measured alone: those that connect, and that find caches cold and
cores asleep. Advantage: a change of the machine meets all; a ratio is of slices side by side, and the
median of the rounds' ratios is what counts. Disadvantage: what fi_pingpong does before its clock runs
takes longer than a slice, so slices of one round are a tenth of a second apart.

usage: msg_fabric.py --leat BIN [--providers net,'tcp;ofi_rxm'] [--sizes N,...] [--rounds 9]
                     [--slice 60] [--mpi openmpi,mpich|none] [--first] [--json FILE]
--first lets slices go before all else on the machine (SCHED_FIFO, root only), for a shared one.
Prints half round trips in us and fi_pingpong's time over leat's, as median (least-most) of the rounds.
"""
import argparse
import json
import os
import pathlib
import re
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = "8,64,512,4096,16384,32768,65536,131072,262144,1048576,4194304"
PORT = 21000
PORTS = 5
ANSWER_S = 60
FEW = 10
MPI = {
    "openmpi": (["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
                 "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include",
                 "lo", "-n", "2"], {}),
    "mpich": (["mpirun.mpich", "-n", "2"],
              {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}),
}


class Absent(Exception):
    pass


class Side:
    """Slices less a few messages, as long for all sides; once() is a run of a side."""

    def __init__(self, name):
        self.name = name
        self.iterations = {}

    def once(self, size, count):
        raise NotImplementedError

    def less(self, size, count):
        whole = (count + FEW) * self.once(size, count + FEW)
        return (whole - FEW * self.once(size, FEW)) / count

    def slice(self, size, slice_us):
        if size not in self.iterations:
            took = max(2, self.less(size, 100))
            self.iterations[size] = max(20, int(slice_us / 2 / took))
        return self.less(size, self.iterations[size])


class Ranks(Side):
    """Two ranks that sleep in pipes, led as bench/slice.h says."""

    def __init__(self, name, command, environment, directory):
        super().__init__(name)
        self.text = ""
        for end in ("0", "1", "out"):
            os.mkfifo(directory / f"{name}.{end}")
        self.answers = os.open(directory / f"{name}.out", os.O_RDWR)
        self.commands = [os.open(directory / f"{name}.{rank}", os.O_RDWR) for rank in (0, 1)]
        self.process = subprocess.Popen(command, env={**os.environ, **environment},
                                        stdin=subprocess.DEVNULL, stdout=sys.stderr)

    def line(self):
        while "\n" not in self.text:
            if not select.select([self.answers], [], [], ANSWER_S)[0]:
                sys.exit(f"{self.name}: no answer within {ANSWER_S} s")
            self.text += os.read(self.answers, 4096).decode()
        line, self.text = self.text.split("\n", 1)
        return line

    def once(self, size, count):
        for command in self.commands:
            os.write(command, f"p2p {size} {count}\n".encode())
        values = [self.line() for _ in self.commands]
        if any(" error " in value for value in values):
            sys.exit(f"{self.name}: {values}")
        return max(float(value.split()[1]) for value in values) / 1e3

    def close(self):
        for command in self.commands:
            os.write(command, b"end 0 0\n")
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def listens(port):
    rows = pathlib.Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    return any(row.split()[1].endswith(f":{port:04X}") and row.split()[3] == "0A" for row in rows)


class PingPong(Side):
    """A new pair of processes a run."""

    def __init__(self, provider, port):
        super().__init__("fi_pingpong")
        self.command = ["fi_pingpong", "-e", "rdm", "-p", provider, "-d", "lo"]
        self.port = port
        self.once(8, FEW)

    def serve(self, command):
        """A server that listens; a port may be somebody's, so several are tried."""
        for _ in range(PORTS):
            self.port += 1
            server = subprocess.Popen(["taskset", "-c", "0", *command, "-B", str(self.port)],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            until = time.monotonic() + ANSWER_S
            while server.poll() is None and time.monotonic() < until:
                if listens(self.port):
                    return server
                os.sched_yield()
            server.kill()
        raise Absent("no server listens")

    def once(self, size, count):
        command = [*self.command, "-S", str(size), "-I", str(count)]
        server = self.serve(command)
        client = subprocess.run(["taskset", "-c", "1", *command, "-P", str(self.port), "127.0.0.1"],
                                text=True, capture_output=True, check=False, timeout=ANSWER_S)
        if client.returncode or server.wait(ANSWER_S):
            server.kill()
            raise Absent(client.stderr.strip().splitlines()[-1:] or ["it failed"])
        # bytes, sent, acknowledged, total, time, MB/sec, usec/xfer, Mxfers/sec
        return float(client.stdout.split()[-2])

    def close(self):
        pass


def mpi_sides(options, directory):
    sides = []
    for name in options.mpi.split(","):
        program = options.leat.parent / f"leat-peer-{name}-msg"
        if name not in MPI:
            continue
        command, environment = MPI[name]
        if not shutil.which(command[0]) or not program.exists():
            print(f"{name}: {command[0]} or {program.name} is not there", file=sys.stderr)
            continue
        sides.append(Ranks(name, [*command, program, directory, name], environment, directory))
    return sides


def measure(sides, options):
    times = {size: {side.name: [] for side in sides} for size in options.sizes}
    for size in options.sizes:
        for number in range(options.rounds + 1):
            for i in range(len(sides)):
                side = sides[(number + i) % len(sides)]
                took = side.slice(size, options.slice * 1e3)
                if number: # the first round warms up
                    times[size][side.name].append(took)
    return times


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def report(provider, sides, times):
    names = [side.name for side in sides]
    print(f"\n| {provider}, bytes | " + " | ".join(f"{name}, us" for name in names)
          + " | leat, GB/s | fi_pingpong / leat |\n|" + "---|" * (len(names) + 3))
    for size, runs in times.items():
        leat, ping = runs["leat"], runs["fi_pingpong"]
        cells = [spread(runs[name]) for name in names]
        print(f"| {size} | " + " | ".join(cells)
              + f" | {size / statistics.median(leat) / 1e3:.3f}"
              f" | {spread([other / own for other, own in zip(ping, leat)])} |", flush=True)


def run(provider, number, options):
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        try:
            ping = PingPong(provider, PORT + 500 * number)
        except (Absent, OSError) as why:
            print(f"\n{provider}: not measured, fi_pingpong says: {why}")
            return {}
        settings = {"LEAT_PATHS": "require:fabric", "LEAT_FABRIC": provider}
        leat = [options.leat, "run", "-n", "2", options.leat, "bench", "msg-rank", name, "leat"]
        sides = [Ranks("leat", leat, settings, directory), ping]
        sides += mpi_sides(options, directory)
        times = measure(sides, options)
        for side in sides:
            side.close()
    report(provider, sides, times)
    return times


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leat", default=os.environ.get("LEAT_BIN"))
    parser.add_argument("--providers", default="net,tcp;ofi_rxm")
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--slice", type=float, default=60, help="of a side, in ms")
    parser.add_argument("--mpi", default="openmpi,mpich", help="or none")
    parser.add_argument("--first", action="store_true", help="before all else on the machine")
    parser.add_argument("--json", help="file for all slices")
    options = parser.parse_args()
    if not options.leat:
        parser.error("--leat or LEAT_BIN has to name the command")
    options.leat = pathlib.Path(options.leat).resolve()
    options.sizes = [int(size) for size in options.sizes.split(",")]
    return options


def main():
    options = read_arguments()
    if not shutil.which("fi_pingpong"):
        sys.exit("fi_pingpong is not there; libfabric-bin brings it")
    if options.first:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = re.search(r"^model name\s*: (.*)$", text, re.M)
    print(f"{time.strftime('%Y-%m-%d')} · {model[1] if model else 'unknown processor'}, "
          f"{len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f} · half round "
          f"trips, {options.rounds} rounds of slices of {options.slice:.0f} ms"
          f"{', SCHED_FIFO' if options.first else ''}")
    times = {provider: run(provider, number, options)
             for number, provider in enumerate(options.providers.split(","))}
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(times), encoding="utf-8")


if __name__ == "__main__":
    main()
