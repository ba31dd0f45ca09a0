#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does water of `leat md` have the structure, the pressure and the energy of GROMACS'?

usage: md_water_statistics.py [--ps 100] [--skip 10] [-n 2] [--gro F --top F] [--keep DIRECTORY]

Runs one box of water (test/data, 1,000 SPC/E) through both programs with the same settings, at
constant temperature (v-rescale), and compares radial distribution function O-O, mean potential
energy, mean pressure and mean temperature. LEAT_BIN names the command (leat), GMX GROMACS' (gmx).

Standard errors are those of averages over blocks, the largest over lengths of block (Flyvbjerg and
Petersen, J. Chem. Phys. 91 (1989) 461); the distribution function is averaged over ten blocks, each
of its bins has an error of its own. Agreement is a difference of means within 3 standard errors, and
over the bins of the distribution function differences of 1.5 standard errors at most in the root
mean square and of 4.5 anywhere. Exits 0 on agreement, 1 on none, 77 where a program is missing.

Advantage: nothing is trusted but what either program wrote, and GROMACS' own tool counts both
trajectories. Disadvantage: a fault smaller than the statistics of the run stays unseen; four times
the time sees half as much.
"""
import argparse
import concurrent.futures
import csv
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

DATA = pathlib.Path(__file__).resolve().parents[1] / "test/data"
BLOCKS, BIN_NM, FROM_NM, TO_NM = 10, 0.02, 0.24, 1.2
DT_PS, ENERGY_STEPS, FRAME_STEPS = 0.002, 50, 100

MDP = """integrator = md
dt = {dt}
nsteps = {steps}
nstlist = 20
cutoff-scheme = Verlet
coulombtype = reaction-field
epsilon-rf = 0
rcoulomb = 0.9
rvdw = 0.9
vdw-modifier = potential-shift
tcoupl = v-rescale
tc-grps = System
tau-t = 0.5
ref-t = 300
gen-vel = yes
gen-temp = 300
gen-seed = 31
ld-seed = 31
nstcalcenergy = 10
nstenergy = {energy}
nstxout = {frame}
nstlog = 0
"""


def call(directory, *words, text=None):
    """Runs a program to its end; returns the seconds it took."""
    command = [str(word) for word in words]
    begin = time.monotonic()
    done = subprocess.run(command, cwd=directory, input=text, capture_output=True, text=True,
                          check=False, env={**os.environ, "GMX_MAXBACKUP": "-1"})
    if done.returncode:
        raise RuntimeError(" ".join(command) + "\n" + done.stdout + done.stderr)
    return time.monotonic() - begin


def run_both(directory, arguments, leat, gmx):
    """Seconds that each took; leat.csv, leat.trr, gmx.edr and gmx.trr are there afterwards."""
    steps = round((arguments.ps + arguments.skip) / DT_PS)
    (directory / "run.mdp").write_text(MDP.format(dt=DT_PS, steps=steps, energy=ENERGY_STEPS,
                                                  frame=FRAME_STEPS), encoding="utf-8")
    files = (arguments.gro.resolve(), arguments.top.resolve(), "run.mdp")
    call(directory, gmx, "-quiet", "grompp", "-c", files[0], "-p", files[1], "-f", files[2], "-o",
         "gmx.tpr", "-po", "out.mdp", "-maxwarn", 5)
    with concurrent.futures.ThreadPoolExecutor() as side_by_side:
        sides = [side_by_side.submit(call, directory, *words) for words in (
            (leat, "md", "--gro", files[0], "--top", files[1], "--mdp", files[2], "-n", arguments.n,
             "--energies", "leat.csv", "--trajectory", "leat.trr"),
            (gmx, "-quiet", "mdrun", "-deffnm", "gmx", "-ntmpi", 1, "-ntomp", 1))]
        return [side.result() for side in sides]


def leat_series(directory, skip):
    with open(directory / "leat.csv", encoding="ascii") as file:
        rows = [row for row in csv.DictReader(file) if float(row["time_ps"]) >= skip]
    return {"potential": [float(row["potential_kj_mol"]) for row in rows],
            "pressure": [float(row["pressure_bar"]) for row in rows],
            "temperature": [float(row["temperature_k"]) for row in rows]}


def gmx_series(directory, gmx, skip):
    terms = ("potential", "temperature", "pressure")
    call(directory, gmx, "-quiet", "energy", "-f", "gmx.edr", "-o", "gmx.xvg", "-xvg", "none",
         text="\n".join(terms) + "\n\n")
    rows = [[float(word) for word in line.split()] for line in
            (directory / "gmx.xvg").read_text(encoding="ascii").splitlines()]
    rows = [row for row in rows if row[0] >= skip]
    return {term: [row[1 + i] for row in rows] for i, term in enumerate(terms)}


def distribution(directory, gmx, trajectory, begin, end):
    """g(r) of oxygens by distance, between two times."""
    call(directory, gmx, "-quiet", "rdf", "-f", trajectory, "-s", "gmx.tpr", "-o", "rdf.xvg", "-xvg",
         "none", "-ref", "name OW", "-sel", "name OW", "-bin", BIN_NM, "-b", begin, "-e", end,
         "-rmax", TO_NM)
    rows = [[float(word) for word in line.split()] for line in
            (directory / "rdf.xvg").read_text(encoding="ascii").splitlines()]
    return {round(row[0], 4): row[1] for row in rows if FROM_NM <= row[0] <= TO_NM}


def mean_and_error(values):
    """The largest error over lengths of block, with ten blocks at least."""
    mean, worst = sum(values) / len(values), 0.0
    for length in range(1, len(values) // 10 + 1):
        count = len(values) // length
        blocks = [sum(values[length * i:length * (i + 1)]) / length for i in range(count)]
        middle = sum(blocks) / count
        variance = sum((block - middle) ** 2 for block in blocks) / (count - 1)
        worst = max(worst, math.sqrt(variance / count))
    return mean, worst


def compare_means(directory, gmx, skip):
    sides = leat_series(directory, skip), gmx_series(directory, gmx, skip)
    print(f"# {'mean of':<24}{'leat':>26}{'gromacs':>26}{'difference':>12}{'in sigma':>10}")
    agree = True
    for term, unit in (("potential", "kJ/mol"), ("pressure", "bar"), ("temperature", "K")):
        (a, da), (b, db) = (mean_and_error(side[term]) for side in sides)
        sigma = abs(a - b) / math.hypot(da, db)
        agree = agree and sigma <= 3.0
        print(f"  {term + ', ' + unit:<24}{a:>15.3f} +- {da:<7.3f}{b:>15.3f} +- {db:<7.3f}"
              f"{a - b:>12.3f}{sigma:>10.2f}")
    return agree


def compare_distributions(directory, gmx, arguments):
    edges = [arguments.skip + arguments.ps * i / BLOCKS for i in range(BLOCKS + 1)]
    half = FRAME_STEPS * DT_PS / 2
    sides = [[distribution(directory, gmx, name, begin + half, end + half)
              for begin, end in zip(edges, edges[1:])] for name in ("leat.trr", "gmx.trr")]
    # Bins on both sides of contact: those that no pair is ever in have no error.
    worst, squares, bins, peaks = (0.0, 0.0), 0.0, 0, []
    for r in sides[0][0]:
        a, b = ([block[r] for block in side] for side in sides)
        means = [sum(side) / BLOCKS for side in (a, b)]
        peaks.append((means[0], r, means[1]))
        variance = sum((value - mean) ** 2 for side, mean in zip((a, b), means) for value in side)
        if not variance > 0.0:
            continue
        sigma = abs(means[0] - means[1]) / math.sqrt(variance / (BLOCKS - 1) / BLOCKS)
        worst, squares, bins = max(worst, (sigma, r)), squares + sigma ** 2, bins + 1
    root = math.sqrt(squares / bins)
    top = max(peaks)
    print(f"  g(O-O): highest at {top[1]:.2f} nm, {top[0]:.3f} and {top[2]:.3f}; over {bins} bins of "
          f"{BIN_NM} nm up to {TO_NM} nm\n  differences of {root:.2f} sigma in the root mean square, "
          f"at most {worst[0]:.2f}, at {worst[1]:.2f} nm")
    return root <= 1.5 and worst[0] <= 4.5


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ps", type=float, default=100.0)
    parser.add_argument("--skip", type=float, default=10.0, help="ps at the beginning, left out")
    parser.add_argument("-n", type=int, default=2, help="ranks of leat")
    parser.add_argument("--gro", type=pathlib.Path, default=DATA / "water.gro")
    parser.add_argument("--top", type=pathlib.Path, default=DATA / "water.top")
    parser.add_argument("--keep", type=pathlib.Path, help="directory to work in and to leave")
    return parser.parse_args()


def main():
    arguments = parse()
    leat, gmx = os.environ.get("LEAT_BIN", "leat"), os.environ.get("GMX", "gmx")
    for program in (leat, gmx):
        if not shutil.which(program):
            print(f"{program} is not here")
            return 77
    directory = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="leat-statistics-"))
    directory.mkdir(parents=True, exist_ok=True)
    directory = directory.resolve()
    try:
        took = run_both(directory, arguments, str(pathlib.Path(shutil.which(leat)).resolve()), gmx)
        print(f"# {arguments.gro.name}, {arguments.ps:g} ps after {arguments.skip:g} ps, leat on "
              f"{arguments.n} ranks ({took[0]:.0f} s), at the same time gromacs on one thread "
              f"({took[1]:.0f} s)")
        agree = compare_means(directory, gmx, arguments.skip)
        agree = compare_distributions(directory, gmx, arguments) and agree
        print("agree" if agree else "DISAGREE")
        return 0 if agree else 1
    except RuntimeError as fault:
        print(fault, file=sys.stderr)
        return 1
    finally:
        if not arguments.keep:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
