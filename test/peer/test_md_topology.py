# SPDX-License-Identifier: Apache-2.0
"""Force fields made at random against GROMACS: which parameters a line gets that gives none.

A few types and many tables for them: wildcards, several lines for the same types, both orders of
types, 1-4 pairs given and generated under each combination rule. One molecule with every function
type is evaluated by `gmx_d mdrun -rerun` and by all pairs. Advantage: a wrong parameter of any term
shows in the energy of its kind. Disadvantage: which term it was is for a debugger.
"""
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import gromacs  # noqa: E402
import inputs  # noqa: E402
import leat_md  # noqa: E402

BONDED = "ABCD"
ATOMS = 14
TYPES = 6


class Field:
    """The text of a topology, by one generator of random numbers."""

    def __init__(self, seed, rule, generate):
        self.random, self.rule, self.generate, self.lines = random.Random(seed), rule, generate, []
        self.nonbonded()
        self.tables()
        self.dihedral_tables()
        self.molecule()

    def number(self, low, high):
        return f"{self.random.uniform(low, high):.6g}"

    def pair(self):
        if self.rule == 1:
            return f"{self.number(1e-4, 2e-3)} {self.number(1e-7, 1e-6)}"
        return f"{self.number(0.15, 0.3)} {self.number(0.1, 0.9)}"

    def turned(self, *types):
        return " ".join(types if self.random.random() < 0.5 else types[::-1])

    def type_pairs(self, chance):
        return [self.turned(f"t{a}", f"t{b}") for a in range(TYPES) for b in range(a, TYPES)
                if self.random.random() < chance]

    def nonbonded(self):
        self.lines += ["[ defaults ]", f"1 {self.rule} {self.generate} 0.5 0.8333", "[ atomtypes ]"]
        self.lines += [f"t{i} {BONDED[i % 4]} {i + 1} 12.0 0 A {self.pair()}" for i in range(TYPES)]
        self.lines.append("[ nonbond_params ]")
        self.lines += [f"{types} 1 {self.pair()}" for types in self.type_pairs(0.3)]
        self.lines.append("[ pairtypes ]")
        every = 0.3 if self.generate == "yes" else 1.0
        self.lines += [f"{types} 1 {self.pair()}" for types in self.type_pairs(every)]

    def tables(self):
        self.lines.append("[ bondtypes ]")
        self.lines += [f"{self.turned(a, b)} 1 {self.number(.1, .2)} {self.number(1e3, 1e4)}"
                       for a in BONDED for b in BONDED if a <= b]
        self.lines.append("[ angletypes ]")
        self.lines += [f"{self.turned(a, b, c)} 1 {self.number(90, 150)} {self.number(10, 99)}"
                       for a in BONDED for b in BONDED for c in BONDED if a <= c]

    def parameters(self, function):
        if function in (1, 4, 9):
            return f"{self.number(-180, 180)} {self.number(1, 9)} {self.random.randint(1, 6)}"
        if function == 2:
            return f"{self.number(-180, 180)} {self.number(1, 9)}"
        return " ".join(self.number(-9, 9) for _ in range(6))

    def dihedral_tables(self):
        # Whatever the types are, there is a line.
        self.lines.append("[ dihedraltypes ]")
        blocks, seen = [], set()
        for _ in range(70):
            types = [self.random.choice(BONDED + "XX") for _ in range(4)]
            function = self.random.choice((9, 9, 9, 1, 2, 3, 4))
            key = (function % 8, min(types, types[::-1]))
            if str(key) in seen:
                continue
            seen.add(str(key))
            count = self.random.randint(1, 3) if function == 9 else 1
            blocks.append([f"{' '.join(types)} {function} {self.parameters(function)}"
                           for _ in range(count)])
        for block in blocks:
            self.lines += block
        self.lines += [f"X X X X {function} {self.parameters(function)}" for function in (1, 2, 3, 4)
                       if str((function, ["X"] * 4)) not in seen]

    def atoms(self, count):
        return " ".join(map(str, self.random.sample(range(1, ATOMS + 1), count)))

    def molecule(self):
        self.lines += ["[ moleculetype ]", "Random 3", "[ atoms ]"]
        self.lines += [f"{i} t{self.random.randrange(TYPES)} 1 RND C {i} {self.number(-1, 1)}"
                       for i in range(1, ATOMS + 1)]
        self.lines += ["[ bonds ]"] + [f"{i} {self.random.randrange(1, i)} 1"
                                       for i in range(2, ATOMS + 1)]
        self.lines += ["[ angles ]"] + [self.atoms(3) for _ in range(20)]
        self.lines += ["[ dihedrals ]"]
        self.lines += [f"{self.atoms(4)} {self.random.choice((1, 2, 3, 4, 9, 9))}"
                       for _ in range(60)]
        self.lines += [f"{self.atoms(4)} 5 1 -2 3 4", f"{self.atoms(4)} 9 40 3 2"]
        self.lines += ["[ pairs ]"] + [f"{self.atoms(2)} 1" for _ in range(12)]
        self.lines += [f"{self.atoms(2)} 2 0.5 0.3 -0.7 {self.pair()}",
                       f"{self.atoms(2)} 1 {self.pair()}"]
        self.lines += ["[ system ]", "random", "[ molecules ]", "Random 1"]

    def coordinates(self):
        lines = ["random", str(ATOMS)]
        for i in range(ATOMS):
            x = [0.3 * (i // 9) + 1.1, 0.3 * (i // 3 % 3) + 1.1, 0.3 * (i % 3) + 1.1]
            lines.append(f"{1:5d}{'RND':<5}{'C':>5}{i + 1:5d}" + "".join(
                f"{value + self.random.uniform(-0.1, 0.1):8.3f}" for value in x))
        return "\n".join([*lines, "   3.00000" * 3]) + "\n"


def check(directory, seed, rule, generate):
    leat_md.leat_bin()
    field = Field(seed, rule, generate)
    files = (inputs.write(directory, "random.gro", field.coordinates()),
             inputs.write(directory, "random.top", "\n".join(field.lines) + "\n"),
             inputs.settings(directory))
    energy, _ = gromacs.rerun(directory, files)
    # Forces of 1-4 pairs come from tables where energies are wanted.
    forces = gromacs.plain_forces(directory, files)
    for term in ("bond", "angle", "dihedral", "ryckaert_bellemans", "improper", "lj14", "coulomb14"):
        assert abs(energy.get(term, 0.0)) > 0.1, (term, energy)
    leat_md.assert_agrees(leat_md.run(directory, files, "--oracle"), 1e-8, energy, forces)


def test_generated_pairs_and_rule_1(directory):
    check(directory, 1, 1, "yes")


def test_given_pairs_and_rule_2(directory):
    check(directory, 2, 2, "no")


def test_generated_pairs_and_rule_3(directory):
    check(directory, 3, 3, "yes")


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
