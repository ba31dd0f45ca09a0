#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what `leat md` says with a reference, by the tolerance of the cases.

usage: compare.py -t T --json RUN.json (--ref REF.json | --run OTHER.json)
                  [--forces F --ref-forces G[.gz]]

|difference| <= T * (|pairs| + |exclusions| + |self|) for Coulomb, T * |value| for every other single
term (1e-9 kJ/mol where that is 0), the sum of the terms' allowances for sums; forces by
RMS(difference) <= T * RMS(reference). A reference is either {"LJ (SR)": ..., "Coulomb (SR)": ...,
"Potential": ...} as GROMACS names terms, or another run's JSON. Terms within molecules are compared
where the reference has them; a run without them has to be of a reference without them.

Advantage: one rule in one place for all tests. Disadvantage: the allowance of Coulomb comes from the
run that is judged; it depends on the coordinates only, so a wrong one would show in the energy.
"""
import argparse
import gzip
import json
import math
import sys

TERMS = {"lj": "LJ (SR)", "coulomb": "Coulomb (SR)", "potential": "Potential"}
# What atoms of one molecule do to each other.
BONDED = ("bond", "angle", "dihedral", "ryckaert_bellemans", "improper", "lj14", "coulomb14")


def read_forces(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="ascii") as file:
        return [tuple(float(word) for word in line.split()) for line in file if line.strip()]


def allowances(tolerance, reference, gross):
    allowed = {"lj": tolerance * abs(reference["lj"]) or 1e-9, "coulomb": tolerance * gross or 1e-9}
    for term in BONDED:
        allowed[term] = tolerance * abs(reference.get(term, 0.0)) or 1e-9
    allowed["potential"] = sum(allowed.values())
    return allowed


def compare_energies(tolerance, run, reference):
    """Lines of failures, and the worst ratio of difference to allowance."""
    failures, worst = [], 0.0
    allowed = allowances(tolerance, reference, run["coulomb_gross"])
    for term, limit in allowed.items():
        wanted = reference.get(term, 0.0)
        difference = abs(run["energy"].get(term, 0.0) - wanted)
        worst = max(worst, difference / limit)
        if not difference <= limit:
            failures.append(f"{term}: {run['energy'].get(term)!r}, expected {wanted!r}, "
                            f"differs by {difference:.3e}, allowed {limit:.3e}")
    return failures, worst


def force_deviation(forces, reference):
    """RMS(difference) / RMS(reference)."""
    if len(forces) != len(reference):
        raise ValueError(f"{len(forces)} forces, expected {len(reference)}")
    difference = total = 0.0
    for got, wanted in zip(forces, reference):
        if len(got) != 3 or len(wanted) != 3:
            raise ValueError("a line of forces has not three columns")
        difference += sum((a - b) ** 2 for a, b in zip(got, wanted))
        total += sum(b * b for b in wanted)
    return math.sqrt(difference / total) if total else math.sqrt(difference)


def read_reference(arguments):
    with open(arguments.ref or arguments.run, encoding="utf-8") as file:
        content = json.load(file)
    if arguments.run:
        return content["energy"]
    return {ours: content[theirs] for ours, theirs in TERMS.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("-t", type=float, required=True, help="tolerance")
    parser.add_argument("--json", required=True)
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--ref")
    group.add_argument("--run")
    parser.add_argument("--forces")
    parser.add_argument("--ref-forces")
    arguments = parser.parse_args()
    with open(arguments.json, encoding="utf-8") as file:
        run = json.load(file)
    failures, worst = compare_energies(arguments.t, run, read_reference(arguments))
    line = f"energies within {worst * arguments.t:.2e}"
    if arguments.forces:
        deviation = force_deviation(read_forces(arguments.forces),
                                    read_forces(arguments.ref_forces))
        line += f", forces within {deviation:.2e}"
        if not deviation <= arguments.t:
            failures.append(f"forces: RMS deviation {deviation:.3e}, allowed {arguments.t:.1e}")
    print(line)
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
