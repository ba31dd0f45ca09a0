#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Step time of `leat md` beside `gmx mdrun`, and where it goes, on this host's CPU.

Algorithm: runs of all sides in turn, round after round, so that a change of the machine meets all;
medians over rounds, with least and most, of each run's mean step. Advantage: one command, and the
ratios are of the same minutes. Disadvantage: each run starts anew, so its first list and its caches
are in it; take steps enough.

usage: md_step.py --leat BIN [--rounds 7] [--steps 500] [--tile 2x2x2] [--threads N] [--json FILE]
                  [--gro G --top T --mdp M]     (shared/cases/md/water5k by default)
Prints a table in Markdown. Without gmx on the PATH leat is measured alone.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
CASES = pathlib.Path(os.environ.get("LEAT_SHARED", ROOT.parent / "shared")) / "cases/md"
# Rows of GROMACS' table of cycles, by the words leat has for what they do.
GMX_PARTS = {
    "Domain decomp.": "list", "DD comm. load": "list", "Neighbor search": "list",
    "Force": "nonbonded", "NB X/F buffer ops.": "nonbonded",
    "Comm. coord.": "halo", "Wait + Comm. F": "halo",
    "Update": "update", "Constraints": "update",
    "Comm. energies": "other", "Rest": "other", "Write traj.": "other",
}
PARTS = ("nonbonded", "halo", "update", "list", "other")


def run(command, directory):
    done = subprocess.run([str(word) for word in command], cwd=directory, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"{' '.join(str(word) for word in command)}: status {done.returncode}\n"
                 f"{done.stderr[-2000:]}")
    return done.stdout


class Leat:
    def __init__(self, options, ranks, *more):
        self.name = f"leat -n {ranks}" + "".join(f" {word}" for word in more)
        self.command = [options.leat, "md", "--gro", options.gro, "--top", options.top, "--mdp",
                        options.mdp, "--tile", options.tile, "--steps", options.steps, "-n", ranks,
                        "--json", *more]
        self.dt_ps = options.dt_ps

    def slice(self, directory):
        report = json.loads(run(self.command, directory))
        took = {part: value * 1e-3 for part, value in report["us_per_step"].items()}
        parts = dict.fromkeys(PARTS, 0.0)
        for part, value in took.items():
            if part != "median":
                parts[part.split("_")[0] if part.split("_")[0] in parts else "other"] += value
        return self.dt_ps * 86400 / report["ns_per_day"], parts, took["median"]


class Gmx:
    def __init__(self, options, ranks, tpr):
        self.name = f"gmx mdrun -ntmpi {ranks} -ntomp 1"
        self.steps = options.steps
        self.command = ["gmx", "mdrun", "-s", tpr, "-ntmpi", ranks, "-ntomp", 1, "-nsteps",
                        options.steps, "-noconfout", "-deffnm", "run"]
        self.dt_ps = options.dt_ps

    def slice(self, directory):
        run(self.command, directory)
        log = (pathlib.Path(directory) / "run.log").read_text(encoding="utf-8", errors="replace")
        for file in pathlib.Path(directory).glob("*run.*"):
            file.unlink()
        parts = dict.fromkeys(PARTS, 0.0)
        for row in re.finditer(r"^ (\S.*?)  +(?:\d+ +\d+ +(?:\d+ +)?)?(\d+\.\d+) +\d+\.\d+ +\d+\.\d+$",
                               log, re.M):
            part = GMX_PARTS.get(row[1].strip())
            if part:
                parts[part] += float(row[2]) * 1e3 / (self.steps + 1)
        found = re.search(r"^Performance: +([\d.]+)", log, re.M)
        if not found:
            sys.exit("gmx mdrun's log has no line Performance")
        return self.dt_ps * 86400 / float(found[1]), parts, None


def tiled_for_gmx(options, directory):
    """The tiled input as a .tpr."""
    tile = options.tile.split("x")
    times = int(tile[0]) * int(tile[1]) * int(tile[2])
    run(["gmx", "genconf", "-f", options.gro, "-nbox", *tile, "-o", "tiled.gro"], directory)
    head, molecules = re.split(r"^\[ *molecules *\].*$", pathlib.Path(options.top).read_text(
        encoding="utf-8"), flags=re.M)
    rows = [line.split() for line in molecules.splitlines() if line.split(";")[0].strip()]
    text = "".join(f"{row[0]} {int(row[1])}\n" for _ in range(times) for row in rows)
    (pathlib.Path(directory) / "tiled.top").write_text(head + "[ molecules ]\n" + text,
                                                       encoding="utf-8")
    run(["gmx", "grompp", "-f", options.mdp, "-c", "tiled.gro", "-p", "tiled.top", "-o",
         "tiled.tpr", "-maxwarn", 2], directory)
    return pathlib.Path(directory) / "tiled.tpr"


def processor():
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = re.search(r"^model name\s*: (.*)$", text, re.M)
    return f"{model[1] if model else 'unknown'}, {len(os.sched_getaffinity(0))} processors"


def measure(sides, rounds, directory):
    slices = {side.name: [] for side in sides}
    loads = []
    for number in range(rounds):
        loads.append(os.getloadavg()[0])
        for side in sides:
            slices[side.name].append(side.slice(directory))
            print(f"round {number + 1}: {side.name}: {slices[side.name][-1][0]:.2f} ms",
                  file=sys.stderr)
    return slices, loads


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def ratio(slices, one, other):
    """Of two sides in the same round."""
    values = [a[0] / b[0] for a, b in zip(slices[one], slices[other])]
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


def report(options, slices, loads):
    print(f"{processor()}; load {min(loads):.1f} to {max(loads):.1f}; {pathlib.Path(options.gro).name}"
          f" tiled {options.tile}, {options.steps} steps, {options.rounds} rounds in turn\n")
    print("| ms a step, median (least-most) | mean step | median step | "
          + " | ".join(PARTS) + " |")
    print("|---|---|---|" + "---|" * len(PARTS))
    for name, runs in slices.items():
        median = [one[2] for one in runs if one[2] is not None]
        parts = (f"{statistics.median(one[1][part] for one in runs):.2f}" for part in PARTS)
        print(f"| {name} | {spread([one[0] for one in runs])} | "
              f"{spread(median) if median else '-'} | {' | '.join(parts)} |")
    print("\n| ratio of mean steps, by round | median (least-most) |\n|---|---|")
    names = list(slices)
    print(f"| one rank over two, leat | {ratio(slices, names[0], names[1])} |")
    for one, other in options.pairs:
        print(f"| {one} over {other} | {ratio(slices, one, other)} |")


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leat", default=os.environ.get("LEAT_BIN"), required=False)
    for name in ("gro", "top"):
        parser.add_argument(f"--{name}", default=CASES / f"water5k.{name}")
    parser.add_argument("--mdp", default=CASES / "nve.mdp")
    parser.add_argument("--tile", default="2x2x2")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2, help="of one rank, in one more row")
    parser.add_argument("--json", help="file for all slices")
    options = parser.parse_args()
    if not options.leat:
        parser.error("--leat or LEAT_BIN has to name the command")
    for name in ("leat", "gro", "top", "mdp"):
        setattr(options, name, pathlib.Path(getattr(options, name)).resolve())
    text = options.mdp.read_text(encoding="utf-8")
    found = re.search(r"^\s*dt\s*=\s*([\d.eE+-]+)", text, re.M)
    options.dt_ps = float(found[1]) if found else 0.001
    return options


def main():
    options = read_arguments()
    options.pairs = []
    with tempfile.TemporaryDirectory() as directory:
        sides = [Leat(options, 1), Leat(options, 2)]
        if options.threads > 1:
            sides.append(Leat(options, 1, "--threads", options.threads))
        if shutil.which("gmx"):
            tpr = tiled_for_gmx(options, directory)
            gmx = [Gmx(options, ranks, tpr) for ranks in (1, 2)]
            options.pairs = [(sides[0].name, gmx[0].name), (sides[1].name, gmx[1].name)]
            sides += gmx
        slices, loads = measure(sides, options.rounds, directory)
    report(options, slices, loads)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"loads": loads, "slices": slices}),
                                              encoding="utf-8")


if __name__ == "__main__":
    main()
