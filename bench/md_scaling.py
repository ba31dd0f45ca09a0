#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Strong scaling of `leat md` over GPUs (or cores): sizes, grids and modes in turn, in one run.

Algorithm: at each size one GPU runs first, and every grid and mode that the GPUs allow is held to
its energy; then all of them in turn, round after round, so that a change of the machine meets all.
What counts is a run's mean step, lists included, since a GPU's plain steps are only enqueued; a
table and a picture (SVG) are written.
Advantage: one command on 1 to 8 GPUs, and ratios are of the same minutes. Disadvantage: water tiled
from one box, so every size begins alike.

usage: md_scaling.py --leat BIN [--device cuda|cpu] [--gpus N] [--sizes 1x2x3,...] [--out FOLDER]
Writes md-scaling.json, md-scaling.md and md-scaling.svg into FOLDER; the table also to stdout.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

DATA = pathlib.Path(__file__).resolve().parents[1] / "test/data"
GRIDS = {1: ["1x1x1"], 2: ["1x1x2"], 4: ["4x1x1", "2x2x1"], 8: ["8x1x1", "4x2x1", "2x2x2"]}
SETTINGS = """integrator = md
dt = 0.002
nsteps = {steps}
nstlist = {nstlist}
cutoff-scheme = Verlet
coulombtype = reaction-field
epsilon-rf = 0
rcoulomb = 1.0
rvdw = 1.0
vdw-modifier = potential-shift
nstcalcenergy = 100
nstenergy = 100
tcoupl = v-rescale
tc-grps = System
tau-t = 0.1
ref-t = 300
gen-vel = no
"""


class Side:
    """One grid and mode at one size."""

    def __init__(self, options, tile, grid, mode):
        self.grid, self.mode, self.options = grid, mode, options
        self.ranks = math.prod(int(n) for n in grid.split("x"))
        self.us, self.failed, self.energy, self.atoms, self.parts = [], None, None, None, {}
        self.command = [options.leat, "md", "--gro", DATA / "water.gro", "--top",
                        DATA / "water.top", "--tile", tile, "--device", options.device, "-n",
                        self.ranks, "--rank-threads", "--json"]
        if self.ranks > 1:
            self.command += ["--grid", grid, "--mode", mode]

    @property
    def name(self):
        return f"{self.grid} {self.mode}" if self.ranks > 1 else self.grid

    def run(self, mdp, steps):
        command = [str(word) for word in (*self.command, "--mdp", mdp, "--steps", steps)]
        done = subprocess.run(command, text=True, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=self.options.limit)
        if done.returncode:
            raise RuntimeError(f"status {done.returncode}: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)

    def look(self, mdp):
        """The coordinates as they stand."""
        report = self.run(mdp, 0)
        self.energy, self.atoms = report["energy"]["potential"], report["atoms"]

    def slice(self, mdp):
        report = self.run(mdp, self.options.steps)
        self.parts = {k: v for k, v in report["us_per_step"].items() if k != "median"}
        self.us.append(sum(self.parts.values()))

    def record(self):
        return {"grid": self.grid, "gpus": self.ranks, "mode": self.mode, "us_per_step": self.us,
                "potential": self.energy, "phases_us": self.parts, "error": self.failed}


def guarded(side, call, mdp):
    """A grid too fine for a box, or a run that fails, is said in the table."""
    if side.failed:
        return
    try:
        call(mdp)
    except (RuntimeError, subprocess.TimeoutExpired, ValueError) as error:
        side.failed = str(error)
        print(f"{side.name}: {side.failed}", file=sys.stderr)


def measure(options, tile, mdp):
    one = Side(options, tile, "1x1x1", options.modes[0])
    sides = [one] + [Side(options, tile, grid, mode) for count, grids in GRIDS.items()
                     if 1 < count <= options.gpus for grid in grids for mode in options.modes]
    for side in sides:
        guarded(side, side.look, mdp)
        if not (one.failed or side.failed) and abs(side.energy - one.energy) > 1e-5 * abs(one.energy):
            side.failed = f"potential {side.energy} where one GPU has {one.energy}"
    for _ in range(options.rounds):
        for side in sides:
            guarded(side, side.slice, mdp)
    return {"tile": tile, "atoms": one.atoms, "sides": [side.record() for side in sides]}


# ---- What is written ----

def middle(side):
    return statistics.median(side["us_per_step"]) if side["us_per_step"] else None


def cell(side, one):
    if side["error"]:
        return "no: " + side["error"].splitlines()[-1][-80:]
    us = side["us_per_step"]
    text = f"{middle(side):.1f} ({min(us):.1f}-{max(us):.1f})"
    return text if side["gpus"] == 1 or not one else f"{text}, {one / middle(side):.2f} of one"


def table(results):
    lines = []
    for result in results:
        one = middle(result["sides"][0])
        lines += [f"\n{result['atoms']} atoms ({result['tile']} of the shipped box), us a step: "
                  "median (least-most) of runs' means\n", "| grid | mode | us a step |", "|---|---|---|"]
        lines += [f"| {s['grid']} | {s['mode'] if s['gpus'] > 1 else '-'} | {cell(s, one)} |"
                  for s in result["sides"]]
        for grid in dict.fromkeys(s["grid"] for s in result["sides"] if s["gpus"] > 1):
            by = {s["mode"]: middle(s) for s in result["sides"] if s["grid"] == grid}
            if by.get("host") and by.get("fused"):
                lines.append(f"\n{grid}: host over fused {by['host'] / by['fused']:.2f}")
    return "\n".join(lines)


def best(result):
    """Least time of each number of GPUs."""
    found = {}
    for side in result["sides"]:
        if middle(side):
            found[side["gpus"]] = min(middle(side), found.get(side["gpus"], math.inf))
    return found


def picture(results):
    """Speed over one GPU's, both axes in powers of two."""
    wide, high, edge = 480, 360, 48
    most = max((max(best(r)) for r in results if best(r)), default=1)
    span = max(1.0, math.log2(most))

    def at(gpus, gain):
        x = edge + math.log2(gpus) / span * (wide - 2 * edge)
        return x, high - edge - max(0.0, math.log2(max(gain, 1e-9))) / span * (high - 2 * edge)

    marks = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide + 120}" height="{high}" '
             'font-family="sans-serif" font-size="12">',
             f'<text x="{wide / 2}" y="{high - 8}" text-anchor="middle">GPUs</text>',
             f'<text x="8" y="{edge - 16}">speed over one GPU</text>']
    for n in (2**k for k in range(int(span) + 1)):
        x, y = at(n, n)
        marks += [f'<text x="{x}" y="{high - edge + 18}" text-anchor="middle">{n}</text>',
                  f'<text x="{edge - 8}" y="{y + 4}" text-anchor="end">{n}</text>']
    (x, y), (u, v) = at(1, 1), at(2**span, 2**span)
    marks.append(f'<path d="M{x} {y}L{u} {v}" stroke="#999" stroke-dasharray="4" fill="none"/>')
    for i, result in enumerate(results):
        points = best(result)
        if 1 not in points:
            continue
        colour = f"hsl({i * 67 % 360},65%,40%)"
        path = [at(n, points[1] / us) for n, us in sorted(points.items())]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in path)
        marks.append(f'<polyline points="{line}" stroke="{colour}" fill="none"/>')
        marks += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in path]
        marks.append(f'<text x="{path[-1][0] + 8:.1f}" y="{path[-1][1] + 4:.1f}" fill="{colour}">'
                     f'{result["atoms"]}</text>')
    return "\n".join(marks) + "\n</svg>\n"


def gpus_here(options):
    if options.device == "cpu":
        return len(os.sched_getaffinity(0))
    done = subprocess.run(["nvidia-smi", "-L"], text=True, check=False, stdout=subprocess.PIPE)
    return max(1, len(done.stdout.splitlines()))


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leat", default=os.environ.get("LEAT_BIN"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--gpus", type=int, help="at most so many (all there are)")
    parser.add_argument("--sizes", default="1x2x3,2x2x3,4x4x4,8x8x8", help="tiles of 3,000 atoms")
    parser.add_argument("--modes", default="fused,host")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--nstlist", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120, help="seconds of one run")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    options = parser.parse_args()
    if not options.leat:
        parser.error("--leat or LEAT_BIN has to name the command")
    options.modes = options.modes.split(",")
    options.gpus = options.gpus or gpus_here(options)
    return options


def main():
    options = read_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    results = []
    with tempfile.TemporaryDirectory() as directory:
        mdp = pathlib.Path(directory) / "scaling.mdp"
        mdp.write_text(SETTINGS.format(steps=options.steps, nstlist=options.nstlist),
                       encoding="utf-8")
        for tile in options.sizes.split(","):
            results.append(measure(options, tile, mdp))
            # What there is, should time run out.
            (options.out / "md-scaling.json").write_text(json.dumps(results, indent=1),
                                                         encoding="utf-8")
            (options.out / "md-scaling.md").write_text(table(results) + "\n", encoding="utf-8")
            (options.out / "md-scaling.svg").write_text(picture(results), encoding="utf-8")
            print(table(results[-1:]), flush=True)
    return int(any(side["error"] for result in results for side in result["sides"]))


if __name__ == "__main__":
    sys.exit(main())
