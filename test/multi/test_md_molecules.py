# SPDX-License-Identifier: Apache-2.0
"""Runs of flexible and constrained molecules: ranks, modes, integrators, groups and minimisation.

The molecules are chains of four sites, of two kinds that differ in name only, made here.
"""
import math
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import compare  # noqa: E402
import leat_md  # noqa: E402

DOUBLE = ("--precision", "double")
EDGE = 4  # cells along x and y, twice as many along z

CHAIN = """[ moleculetype ]
{name} 3
[ atoms ]
1 CH3 1 {name} C1 1 0.1 15.035
2 CH2 1 {name} C2 1 -0.1 14.027
3 CH2 1 {name} C3 1 -0.1 14.027
4 HO  1 {name} H4 1 0.1 6.0
[ bonds ]
1 2 1 0.153 224262.4
2 3 1 0.153 224262.4
3 4 1 0.153 224262.4
[ angles ]
1 2 3 1 112.0 488.273
2 3 4 1 112.0 488.273
[ dihedrals ]
1 2 3 4 3 8.39736 16.78632 1.13393 -26.31760 0 0
[ pairs ]
1 4 1
"""

TOP = """[ defaults ]
1 2 yes 0.5 0.5
[ atomtypes ]
CH3 6 15.035 0.0 A 0.3905 0.7322
CH2 6 14.027 0.0 A 0.3905 0.4937
HO 1 6.0 0.0 A 0.3 0.3
""" + CHAIN.format(name="ONE") + CHAIN.format(name="TWO") + """[ system ]
chains
[ molecules ]
ONE {half}
TWO {half}
"""

SETTINGS = {"integrator": "md", "dt": "0.001", "nsteps": "40", "cutoff-scheme": "Verlet",
            "coulombtype": "reaction-field", "epsilon-rf": "0", "rcoulomb": "0.9", "rvdw": "0.9",
            "nstlist": "10", "nstenergy": "10", "nstcalcenergy": "10", "gen-vel": "yes",
            "gen-temp": "250", "gen-seed": "7"}


def files(directory, spread=0.01, **changed):
    """(gro, top, mdp): chains on a lattice, each site `spread` nm off."""
    base, source, cell = pathlib.Path(directory), random.Random(3), (0.62, 0.55, 0.48)
    sites = ((0.0, 0.0), (0.127, 0.086), (0.254, 0.0), (0.381, 0.086))
    lines, number = [], 0
    for m in range(2 * EDGE ** 3):
        corner = (m // (2 * EDGE * EDGE), m // (2 * EDGE) % EDGE, m % (2 * EDGE))
        for index, (x, y) in enumerate(sites):
            number += 1
            place = [corner[d] * cell[d] + (x, y, 0.0)[d] + 0.1 + source.uniform(-spread, spread)
                     for d in range(3)]
            kind = "ONE" if m < EDGE ** 3 else "TWO"
            name = ("C1", "C2", "C3", "H4")[index]
            lines.append(f"{m + 1:5d}{kind:<5}{name:>5}{number:5d}" +
                         "".join(f"{value:8.3f}" for value in place))
    box = (EDGE * cell[0], EDGE * cell[1], 2 * EDGE * cell[2])
    text = ["chains", str(number), *lines, "".join(f"{edge:10.5f}" for edge in box)]
    (base / "chains.gro").write_text("\n".join(text) + "\n", encoding="utf-8")
    (base / "chains.top").write_text(TOP.format(half=EDGE ** 3), encoding="utf-8")
    values = {**SETTINGS, **{key.replace("_", "-"): value for key, value in changed.items()}}
    (base / "chains.mdp").write_text("".join(f"{key} = {value}\n" for key, value in values.items()),
                                     encoding="utf-8")
    return base / "chains.gro", base / "chains.top", base / "chains.mdp"


def outcome(directory, inputs, *options):
    done = leat_md.run(directory, inputs, "--out", "out.gro", *options)
    return done, (pathlib.Path(directory) / "out.gro").read_text(encoding="utf-8")


def assert_ranks_agree(directory, inputs):
    one, three = (leat_md.run(directory, inputs, *DOUBLE, "--images", "-n", n, "--steps", 1)
                  for n in (1, 3))
    assert compare.force_deviation(three.forces, one.forces) < 1e-12
    for term in ("potential", "kinetic", "angle", "lj14", "coulomb14"):
        values = [done.report()["energy"][term] for done in (three, one)]
        assert abs(values[0] - values[1]) <= 1e-11 * abs(values[1]), (term, values)


def test_ranks_agree_after_a_step_flexible_and_constrained(directory):
    for constraints in ("none", "h-bonds", "all-bonds"):
        for integrator in ("md", "md-vv"):
            assert_ranks_agree(directory, files(directory, constraints=constraints,
                                                integrator=integrator))


def test_modes_agree_to_the_bit(directory):
    for integrator in ("md", "md-vv"):
        inputs = files(directory, constraints="h-bonds", integrator=integrator,
                       tcoupl="v-rescale", tc_grps="ONE TWO", tau_t="0.1 0.2", ref_t="240 260",
                       nsttcouple="4", nstcomm="6")
        run = (directory, inputs, "--images", "-n", 3)
        first, text = outcome(*run)
        for mode in ("host", "resident"):
            other, again = outcome(*run, "--mode", mode)
            assert text == again, (integrator, mode)
            assert first.report()["energy"] == other.report()["energy"], (integrator, mode)


def test_the_oracle_has_the_energies_within_molecules(directory):
    inputs = files(directory)
    plain = leat_md.run(directory, inputs, *DOUBLE, "--steps", 0)
    oracle = leat_md.run(directory, inputs, "--oracle")
    for term, value in oracle.report()["energy"].items():
        if term in ("kinetic", "total", "conserved"):
            continue  # velocities are generated, and the oracle makes none
        got = plain.report()["energy"][term]
        assert abs(got - value) <= 1e-9 * max(1.0, abs(value)), (term, got, value)
    assert compare.force_deviation(plain.forces, oracle.forces) < 1e-10
    assert oracle.report()["energy"]["ryckaert_bellemans"] != 0.0


def test_energy_is_conserved(directory):
    for constraints in ("none", "all-bonds"):
        for integrator in ("md", "md-vv"):
            inputs = files(directory, constraints=constraints, integrator=integrator,
                           nsteps="300", verlet_buffer_tolerance="1e-5")
            # The lattice falls apart first; then the kinetic energy is some 15 kJ/mol an atom.
            report = leat_md.run(directory, inputs, *DOUBLE, "--drift-after", "0.15").report()
            assert abs(report["drift_kj_mol_ps_atom"]) < 0.2, report["drift_kj_mol_ps_atom"]
            assert report["energy"]["bond"] >= 0.0
            assert (report["energy"]["bond"] == 0.0) == (constraints == "all-bonds")


def test_groups_come_to_temperatures_of_their_own(directory):
    inputs = files(directory, nsteps="100", tcoupl="v-rescale", tc_grps="ONE TWO",
                   tau_t="0.005 0.005", ref_t="100 400", nsttcouple="1", gen_temp="250")
    both, _ = outcome(directory, inputs)
    assert 200.0 < both.report()["temperature_k"] < 300.0
    gro = (pathlib.Path(directory) / "out.gro").read_text(encoding="utf-8").splitlines()[2:-1]
    warmth = {"ONE": 0.0, "TWO": 0.0}
    for line in gro:
        v = [float(line[44 + 8 * d:52 + 8 * d]) for d in range(3)]
        warmth[line[5:10].strip()] += sum(c * c for c in v)
    assert warmth["TWO"] > 2.0 * warmth["ONE"], warmth


def test_groups_that_miss_or_share_atoms_are_refused(directory):
    for groups, word in (("ONE", "none of the groups"), ("ONE TWO System", "in both"),
                         ("ONE THREE", "THREE")):
        count = len(groups.split())
        inputs = files(directory, tcoupl="v-rescale", tc_grps=groups, tau_t="0.1 " * count,
                       ref_t="300 " * count)
        done = leat_md.Run(directory, inputs, "--steps", 1)
        assert done.status == 1 and word in done.err, done.err


def test_a_rattled_box_is_minimised_and_then_runs(directory):
    for constraints in ("none", "all-bonds"):
        inputs = files(directory, spread=0.03, constraints=constraints, integrator="steep",
                       emtol="200", nsteps="1000")
        start = leat_md.run(directory, inputs, "--steps", 0).report()["energy"]["potential"]
        ends = []
        for ranks in (1, 3):
            done, _ = outcome(directory, inputs, *DOUBLE, "--images", "-n", ranks)
            found = done.report()["minimisation"]
            assert found["converged"] and 0.0 < found["max_force"] < 200.0, found
            ends.append(done.report()["energy"]["potential"])
            if constraints == "none":
                most = max(math.hypot(*force) for force in done.forces)
                assert abs(most - found["max_force"]) < 1e-6 * most, (most, found)
        assert ends[0] < start and abs(ends[1] - ends[0]) < 1e-3 * abs(ends[0]), (start, ends)
        relaxed = (pathlib.Path(directory) / "out.gro", inputs[1],
                   files(directory, constraints=constraints, nsteps="100")[2])
        assert abs(leat_md.run(directory, relaxed).report()["drift_kj_mol_ps_atom"]) < 1.0


def test_atoms_in_one_place_are_named(directory):
    gro, top, mdp = files(directory, integrator="steep", nsteps="10")
    lines = gro.read_text(encoding="utf-8").splitlines()
    lines[2 + 40] = lines[2 + 40][:20] + lines[2][20:]
    gro.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = leat_md.Run(directory, (gro, top, mdp))
    assert done.status == 1 and "atom 1 " in done.err, done.err


def test_devices_refuse_by_name(directory):
    for changed, word in (({"integrator": "steep"}, "steep"), ({"integrator": "md-vv"}, "md-vv")):
        done = leat_md.Run(directory, files(directory, **changed), "--device", "emulated")
        assert done.status == 77 and word in done.err and "--device cpu" in done.err, done.err


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
