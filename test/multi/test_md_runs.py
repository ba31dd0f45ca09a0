# SPDX-License-Identifier: Apache-2.0
"""Runs of `leat md` that move: what has to be the same to the bit, and what to rounding."""
import math
import os
import pathlib
import shutil
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import compare  # noqa: E402
import leat_md  # noqa: E402

DOUBLE = ("--precision", "double")


def outcome(directory, *options, files=None):
    done = leat_md.run(directory, files or leat_md.water(), "--out", "out.gro", *options)
    coordinates = (pathlib.Path(directory) / "out.gro").read_text(encoding="utf-8")
    forces = pathlib.Path(done.forces_path).read_text(encoding="utf-8")
    return done, coordinates, forces


def same(directory, first, second, files=None):
    one, two = (outcome(directory, *options, files=files) for options in (first, second))
    assert one[1] == two[1], "coordinates differ"
    assert one[2] == two[2], "forces differ"
    assert one[0].report()["energy"] == two[0].report()["energy"]


def test_two_runs_agree_to_the_bit(directory):
    for options in (("-n", 1), ("-n", 4), (*DOUBLE, "-n", 8, "--grid", "2x2x2")):
        run = (*options, "--steps", 60)
        same(directory, run, run)


def test_files_are_read_once_for_all_ranks(directory):
    pipes = [pathlib.Path(directory) / path.name for path in leat_md.water()]
    shutil.copy(leat_md.DATA / "spce.itp", directory)
    plain = leat_md.Run(directory, leat_md.water(), "-n", 4, "--steps", 0, "--json").report()
    for launch in ((), ("--rank-threads",)):
        for pipe in pipes:
            os.mkfifo(pipe)
        writers = [threading.Thread(target=pipe.write_bytes, args=(path.read_bytes(),), daemon=True)
                   for pipe, path in zip(pipes, leat_md.water())]
        for writer in writers:
            writer.start()
        run = leat_md.Run(directory, pipes, "-n", 4, "--steps", 0, "--json", *launch)
        assert run.report()["energy"] == plain["energy"]
        for writer, pipe in zip(writers, pipes):
            writer.join()
            pipe.unlink()


def test_modes_and_launches_agree_to_the_bit(directory):
    for plan in ("forwarded", "onehop"):
        run = ("-n", 4, "--grid", "2x2x1", "--steps", 60, "--plan", plan)
        for mode in ("host", "stream", "pulse", "resident"):
            same(directory, run, (*run, "--mode", mode))
        same(directory, run, (*run, "--rank-threads"))
        same(directory, run, (*run, "--rank-threads", "--mode", "resident"))


def test_steps_that_need_sums_are_alike_in_one_kernel(directory):
    gro, top, mdp = leat_md.water()
    # The thermostat, the centre's motion and energies each at their own pace, lists at another.
    mdp = leat_md.with_settings(mdp, pathlib.Path(directory) / "sums.mdp", tcoupl="v-rescale",
                                tau_t="0.05", ref_t="310", tc_grps="System", nsttcouple="4",
                                nstcomm="6", nstcalcenergy="15", nstlist="11")
    run = ("-n", 4, "--steps", 50)
    same(directory, run, (*run, "--mode", "resident"), files=(gro, top, mdp))


def test_resident_steps_launch_no_kernels(directory):
    def launches(mode, steps):
        run = leat_md.run(directory, leat_md.water(), "-n", 2, "--mode", mode, "--steps", steps,
                          "--stats")
        return run.report()["stats"]["launches"]

    # Both numbers of steps end in the life of the same list, with as many sums.
    assert launches("resident", 38) == launches("resident", 25)
    assert launches("fused", 38) - launches("fused", 25) == 2 * 2 * 13


def test_ranks_agree_after_a_step_in_double(directory):
    files = leat_md.water()
    one = leat_md.run(directory, files, *DOUBLE, "--steps", 1)
    energy = one.report()["energy"]
    for options in [("-n", 2), ("-n", 4, "--grid", "4x1x1"), ("-n", 8, "--grid", "2x2x2"),
                    ("-n", 12, "--grid", "2x3x2", "--order", "xyz")]:
        several = leat_md.run(directory, files, *DOUBLE, "--steps", 1, "--rank-threads", *options)
        leat_md.assert_agrees(several, 1e-12, energy, one.forces)


def test_domains_too_thin_for_cutoff_and_molecules_get_images(directory):
    gro, top, mdp = leat_md.water()
    mdp = leat_md.with_settings(mdp, pathlib.Path(directory) / "long.mdp", rcoulomb="1.4",
                                rvdw="1.4", verlet_buffer_tolerance="-1", rlist="1.5",
                                nstlist="5")
    files = gro, top, mdp
    one = leat_md.run(directory, files, *DOUBLE, "--steps", 25)
    several = leat_md.run(directory, files, *DOUBLE, "--steps", 25, "-n", 2, "--grid", "2x1x1")
    assert "--images" in several.err and "from step 0" in several.err, several.err
    leat_md.assert_agrees(several, 1e-10, one.report()["energy"], one.forces)


def test_ranks_agree_over_a_migration(directory):
    gro, top, mdp = leat_md.water()
    # With a buffer that no pair crosses; otherwise which pairs are missed depends on the domains.
    mdp = leat_md.with_settings(mdp, pathlib.Path(directory) / "wide.mdp",
                                verlet_buffer_tolerance="1e-7")
    files = gro, top, mdp
    one = leat_md.run(directory, files, *DOUBLE, "--steps", 45)
    several = leat_md.run(directory, files, *DOUBLE, "--steps", 45, "-n", 8, "--grid", "2x2x2",
                          "--rank-threads")
    # Molecules have changed ranks twice; rounding has grown, but nothing else has come in.
    leat_md.assert_agrees(several, 1e-9, one.report()["energy"], one.forces)


def test_two_waters_move_alike_on_empty_domains(directory):
    files = leat_md.shared_case("two", "nve.mdp")
    one = leat_md.run(directory, files, *DOUBLE, "--steps", 200)
    for ranks, grid in [(4, "2x2x1"), (8, "2x2x2"), (8, "8x1x1")]:
        several = leat_md.run(directory, files, *DOUBLE, "--steps", 200, "-n", ranks, "--grid", grid)
        leat_md.assert_agrees(several, 1e-8, one.report()["energy"], one.forces)


def test_forces_add_up_to_nothing(directory):
    for precision, limit in (("mixed", 1e-4), ("double", 1e-10)):
        done = leat_md.run(directory, leat_md.water(), "-n", 4, "--steps", 40, "--precision",
                           precision)
        lengths = sum(math.sqrt(x * x + y * y + z * z) for x, y, z in done.forces)
        net = math.sqrt(sum(f * f for f in done.report()["net_force"]))
        assert 0.0 < lengths and net <= limit * lengths, (precision, net, lengths)


def test_a_repeated_box_has_the_energy_as_often(directory):
    files = leat_md.water()
    one = leat_md.run(directory, files, *DOUBLE, "--steps", 0)
    many = leat_md.run(directory, files, *DOUBLE, "--steps", 0, "--tile", "2x1x2", "-n", 4)
    for term, value in one.report()["energy"].items():
        assert abs(many.report()["energy"][term] - 4.0 * value) <= 1e-9 * abs(4.0 * value), term
    assert many.report()["atoms"] == 12000
    # Copies of the whole follow one another.
    assert compare.force_deviation(many.forces, one.forces * 4) < 1e-10


def tilted_twice(directory):
    """The shipped water twice in a tilted box of two volumes: the same crystal in other words."""
    gro, top, mdp = leat_md.water()
    lines = gro.read_text(encoding="utf-8").splitlines()
    edge = [float(word) for word in lines[-1].split()]
    atoms = []
    for copy in range(2):
        for line in lines[2:-1]:
            x = [float(line[20 + 8 * d:28 + 8 * d]) for d in range(3)]
            x[0] += copy * edge[0]
            atoms.append(line[:20] + "".join(f"{value:10.5f}" for value in x) + "".join(
                f"{float(line[44 + 8 * d:52 + 8 * d]):10.6f}" for d in range(3)))
    box = (2 * edge[0], edge[1], edge[2], 0, 0, edge[0], 0, edge[0], 0)
    path = pathlib.Path(directory) / "tilted.gro"
    path.write_text("\n".join(["tilted", str(len(atoms)), *atoms,
                               " ".join(f"{value:.5f}" for value in box)]) + "\n", encoding="utf-8")
    twice = pathlib.Path(directory) / "twice.top"
    text = top.read_text(encoding="utf-8").replace(str(len(atoms) // 6), str(len(atoms) // 3))
    twice.write_text(text.replace('include "', f'include "{top.parent}/'), encoding="utf-8")
    mdp = leat_md.with_settings(mdp, pathlib.Path(directory) / "wide.mdp",
                                verlet_buffer_tolerance="1e-7")
    return (gro, top, mdp), (path, twice, mdp)


def assert_twice(one, two, tolerance):
    for term, value in one.report()["energy"].items():
        difference = abs(two.report()["energy"][term] - 2.0 * value)
        assert difference <= tolerance * max(abs(2.0 * value), one.report()["coulomb_gross"]), term
    assert abs(two.report()["temperature_k"] / one.report()["temperature_k"] - 1.0) < 1e-3
    assert compare.force_deviation(two.forces, one.forces * 2) < tolerance


def test_a_tilted_box_is_the_same_crystal(directory):
    upright, tilted = tilted_twice(directory)
    one = leat_md.run(directory, upright, *DOUBLE, "--steps", 0)
    for options in ((), ("-n", 2), ("-n", 8, "--grid", "2x2x2", "--plan", "onehop"), ("--oracle",),
                    ("-n", 8, "--grid", "4x2x1", "--mode", "resident", "--rank-threads")):
        assert_twice(one, leat_md.run(directory, tilted, *DOUBLE, "--steps", 0, *options), 1e-10)
    # Whole vectors more of tilt are the same box again.
    text = tilted[0].read_text(encoding="utf-8")
    words = [float(word) for word in text.splitlines()[-1].split()]
    words[5], words[7], words[8] = words[5] - words[0], words[7] + words[5], words[1]
    tilted[0].write_text("\n".join(text.splitlines()[:-1] + [" ".join(f"{w:.5f}" for w in words)]) +
                         "\n", encoding="utf-8")
    assert_twice(one, leat_md.run(directory, tilted, *DOUBLE, "--steps", 0, "-n", 4), 1e-10)


def test_molecules_move_and_migrate_in_a_tilted_box(directory):
    upright, tilted = tilted_twice(directory)
    one = leat_md.run(directory, upright, *DOUBLE, "--steps", 45)
    for options in (("-n", 8, "--grid", "2x2x2", "--plan", "onehop"), ("-n", 3, "--mode", "resident")):
        two = leat_md.run(directory, tilted, *DOUBLE, "--steps", 45, "--rank-threads", *options)
        assert_twice(one, two, 1e-9)
        # Rounding of a molecule's way in the box may differ, the pressure must not.
        assert abs(two.report()["pressure_bar"] - one.report()["pressure_bar"]) < 1e-3


def test_a_tilted_box_is_repeated_and_written(directory):
    _, tilted = tilted_twice(directory)
    done, text, _ = outcome(directory, *DOUBLE, "--steps", 0, files=tilted)
    box = [float(word) for word in text.splitlines()[-1].split()]
    assert box == [float(word) for word in
                   tilted[0].read_text(encoding="utf-8").splitlines()[-1].split()], box
    many = leat_md.run(directory, tilted, *DOUBLE, "--steps", 0, "--tile", "1x2x1", "-n", 4)
    for term, value in done.report()["energy"].items():
        assert abs(many.report()["energy"][term] - 2.0 * value) <= 1e-9 * abs(2.0 * value), term
    assert compare.force_deviation(many.forces, done.forces * 2) < 1e-10


def test_v_rescale_brings_the_temperature(directory):
    gro, top, mdp = leat_md.water()
    mdp = leat_md.with_settings(mdp, pathlib.Path(directory) / "t.mdp", tcoupl="v-rescale",
                                tau_t="0.02", ref_t="330", tc_grps="System", nsttcouple="5")
    done = leat_md.run(directory, (gro, top, mdp), "--steps", 400, "-n", 2)
    temperature = done.report()["temperature_k"]
    # Fluctuations are 330 K * sqrt(2 / 5997), 6 K.
    assert abs(temperature - 330.0) < 30.0, temperature
    threads = leat_md.run(directory, (gro, top, mdp), "--steps", 400, "-n", 2, "--rank-threads")
    assert threads.report()["energy"] == done.report()["energy"]


def test_generated_velocities_have_the_temperature(directory):
    gro, top, mdp = leat_md.water()
    mdp = leat_md.with_settings(mdp, pathlib.Path(directory) / "g.mdp", gen_vel="yes",
                                gen_temp="250", gen_seed="7")
    one = leat_md.run(directory, (gro, top, mdp), "--steps", 0).report()["temperature_k"]
    four = leat_md.run(directory, (gro, top, mdp), "--steps", 0, "-n", 4).report()["temperature_k"]
    assert abs(one - 250.0) < 1e-9 and abs(four - 250.0) < 1e-9, (one, four)


def test_the_conserved_energy_is_conserved(directory):
    done = leat_md.run(directory, leat_md.water(), "--steps", 600, "-n", 2)
    report = done.report()
    assert abs(report["drift_kj_mol_ps_atom"]) < 0.02, report["drift_kj_mol_ps_atom"]
    energy = report["energy"]
    assert energy["conserved"] == energy["total"]
    assert abs(energy["total"] - energy["potential"] - energy["kinetic"]) < 1e-9 * abs(
        energy["potential"])
    assert report["ns_per_day"] > 0.0 and report["pressure_bar"] is not None


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
