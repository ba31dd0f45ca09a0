# SPDX-License-Identifier: Apache-2.0
"""Checks of `leat md` on a device beside the same on the CPU, for any --device.

Inputs are the shipped water, the reference cases where they lie beside the source, and the .gro
files of the directory that LEAT_MD_CASES names, each with a .top of its name and with rf.mdp.

Advantage: what a GPU has to pass runs with its kernels emulated as well. Disadvantage: the checks
know a device only by its option.
"""
import os
import pathlib
import shutil

import inputs
import leat_md
import molecules

MODES = ("fused", "host", "stream", "pulse", "resident")
DOUBLE = ("--precision", "double")
AS_IT_STANDS = ("--steps", 0)


def cases():
    """(gro, top, mdp) of each input."""
    found = [leat_md.water()]
    named = os.environ.get("LEAT_MD_CASES")
    if named:
        directory = pathlib.Path(named)
        found += [(gro, gro.with_suffix(".top"), directory / "rf.mdp")
                  for gro in sorted(directory.glob("*.gro"))]
    try:
        found += [leat_md.shared_case(name) for name in ("two", "water5k")]
    except leat_md.Skip:
        pass
    return found


def splits(ranks, grid):
    """Options for so many domains; `grid` where there are eight."""
    return ("-n", ranks, *(("--grid", grid) if ranks == 8 else ()))


def agrees_as_it_stands(directory, device, modes=MODES, plans=("forwarded", "onehop")):
    """Energies and forces of the coordinates as they stand: on 1, 2 and 8 domains in each mode."""
    for files in cases():
        truth = leat_md.run(directory, files, *AS_IT_STANDS, *DOUBLE)
        for ranks in (1, 2, 8):
            for plan in plans if ranks > 1 else plans[:1]:
                first = None
                for mode in modes if plan == plans[0] else modes[:1]:
                    done = leat_md.run(directory, files, *AS_IT_STANDS, *device, "--mode", mode,
                                       "--plan", plan, *splits(ranks, "2x2x2"))
                    leat_md.assert_agrees(done, 1e-5, truth.report()["energy"], truth.forces)
                    assert done.report()["device"] == device[1].split(":")[0]
                    assert (done.report()["mode"], done.report()["plan"]) == (mode, plan)
                    first = first or done
                    # Who orders an exchange does not change what is added up.
                    assert done.forces == first.forces, f"{done.command}: not the first mode's bits"
                    assert done.report()["energy"] == first.report()["energy"], done.command


def agrees_with_images(directory, device):
    """Ghosts across all boundaries, and grids that cut some dimensions only."""
    files = leat_md.water()
    truth = leat_md.run(directory, files, *AS_IT_STANDS, *DOUBLE)
    for options in (("--images",), ("-n", 2, "--images"), ("-n", 4, "--grid", "2x1x2"),
                    ("-n", 3, "--grid", "1x3x1"), ("-n", 8, "--grid", "8x1x1", "--order", "xyz")):
        done = leat_md.run(directory, files, *AS_IT_STANDS, *device, *options)
        leat_md.assert_agrees(done, 1e-5, truth.report()["energy"], truth.forces)


def free_atoms_and_pairs(directory, device, steps=24):
    """Argon without a shift; and in pairs with charges, whose excluded atoms move by themselves."""
    gro, top, mdp = inputs.argon(directory, nsteps=steps, vdw_modifier="none",
                                 verlet_buffer_tolerance="1e-7")
    text = top.read_text(encoding="utf-8")
    pairs = pathlib.Path(directory) / "pairs.top"
    pairs.write_text(text.replace("1 AR 1 AR AR 1 0.0", "1 AR 1 AR AR 1 0.3\n2 AR 1 AR AR 2 -0.3\n"
                                  "[ exclusions ]\n1 2").replace("Argon 512", "Argon 256"),
                     encoding="utf-8")
    for files in ((gro, top, mdp), (gro, pairs, mdp)):
        for length in (0, steps):
            cpu = leat_md.run(directory, files, *DOUBLE, "--steps", length)
            for split in (("-n", 1), ("-n", 2)):
                done = leat_md.run(directory, files, *device, *split, "--steps", length)
                leat_md.assert_agrees(done, 3e-5 if length else 1e-5, cpu.report()["energy"],
                                      cpu.forces)


def molecules_are_the_cpus(directory, device, steps=12):
    """Every kind of term as it stands, then all bonds held on the way; ethanol with some of them."""
    # A domain has to be wider than the cut-off and a molecule.
    short = {"rcoulomb": "0.7", "rvdw": "0.7", "verlet_buffer_tolerance": "1e-6"}
    chains = {"maker": molecules.chains, "count": 240, "width": 2.6}
    ethanol = {"maker": molecules.alcohol}
    for box, length, settings in ((chains, 0, {}), (chains, steps, {"constraints": "all-bonds"}),
                                  (ethanol, steps, {"constraints": "h-bonds"})):
        files = molecules.box(directory, changed={**short, **settings}, **box)
        cpu = leat_md.run(directory, files, "--steps", length, *DOUBLE)
        for ranks in (1, 2, 8):
            done = leat_md.run(directory, files, "--steps", length, *device, "--images",
                               *splits(ranks, "2x2x2"))
            leat_md.assert_agrees(done, 3e-5 if length else 1e-5, cpu.report()["energy"],
                                  cpu.forces)
            kinetic = [run.report()["energy"]["kinetic"] for run in (done, cpu)]
            assert abs(kinetic[0] - kinetic[1]) <= 2e-5 * kinetic[1], (done.command, kinetic)
            bars = [run.report()["pressure_bar"] for run in (done, cpu)]
            assert not length or abs(bars[0] - bars[1]) <= 0.2, (done.command, bars)


def refuses_constraints_out_of_reach(directory, device):
    """A step so long that bonds turn by more than a quarter: the error names two atoms."""
    files = molecules.box(directory, molecules.alcohol, {"constraints": "h-bonds", "dt": "0.03"})
    for ranks in (1, 2):
        done = leat_md.Run(directory, files, "--steps", 20, *device, "--images", "-n", ranks,
                           timeout=60)
        assert done.status == 1, f"status {done.status} of {done.command}\n{done.err}"
        assert "cannot be kept" in done.err or "cannot be constrained" in done.err, done.err


def wide(directory, **settings):
    """The shipped water with a buffer that no pair crosses."""
    gro, top, mdp = leat_md.water()
    path = pathlib.Path(directory) / "wide.mdp"
    return gro, top, leat_md.with_settings(mdp, path, verlet_buffer_tolerance="1e-7", **settings)


def moves_alike(directory, device, steps=45, **settings):
    """Some lists' lives of steps. Two trajectories part exponentially, so rounding has grown."""
    files = wide(directory, **settings)
    cpu = leat_md.run(directory, files, "--steps", steps, *DOUBLE)
    for ranks in (1, 2, 8):
        done = leat_md.run(directory, files, "--steps", steps, *device, *splits(ranks, "2x2x2"))
        leat_md.assert_agrees(done, 3e-5, cpu.report()["energy"], cpu.forces)
        for term in ("kinetic", "total", "conserved"):
            one, other = (run.report()["energy"][term] for run in (done, cpu))
            assert abs(one - other) <= 2e-5 * abs(other), (done.command, term, one, other)
        bars = [run.report()["pressure_bar"] for run in (done, cpu)]
        assert abs(bars[0] - bars[1]) <= 0.2, (done.command, bars)
        net = max(abs(f) for f in done.report()["net_force"])
        lengths = sum(sum(f * f for f in force) ** 0.5 for force in done.forces)
        assert net <= 1e-7 * lengths, (done.command, net, lengths)


# The thermostat, the centre's motion and energies each at their own pace, lists at another.
SUMS = {"tcoupl": "v-rescale", "tau_t": "0.05", "ref_t": "310", "tc_grps": "System",
        "nsttcouple": "4", "nstcomm": "6", "nstcalcenergy": "15", "nstlist": "11"}


def outcome(directory, *options, files):
    done = leat_md.run(directory, files, "--out", "out.gro", *options)
    coordinates = (pathlib.Path(directory) / "out.gro").read_text(encoding="utf-8")
    return done.report()["energy"], done.forces, coordinates, done.command


def gives_the_same_bits(directory, device, steps=60, modes=MODES):
    """Twice the same, and in each mode the same; the first of them is the default."""
    gro, top, mdp = leat_md.water()
    sums = leat_md.with_settings(mdp, pathlib.Path(directory) / "sums.mdp", **SUMS)
    for ranks, settings, others in ((1, mdp, ()), (2, sums, modes[1:]), (8, sums, modes[2:])):
        files = gro, top, settings
        run = ("--steps", steps, *device, *splits(ranks, "2x2x2"))
        first = outcome(directory, *run, files=files)
        for mode in (modes[0], *others):
            again = outcome(directory, *run, "--mode", mode, files=files)
            for what, one, two in zip(("energies", "forces", "coordinates"), first, again):
                assert one == two, f"{what} differ: {again[3]}"


def refuses_atoms_on_top_of_each_other(directory, device):
    """The error names the atom, and no rank is left waiting."""
    gro, top, mdp = leat_md.water()
    lines = gro.read_text(encoding="utf-8").splitlines()
    # The second water's oxygen a hundredth of a nanometre from the first's.
    x = [float(lines[2][20 + 8 * d:28 + 8 * d]) for d in range(3)]
    shift = [x[d] - float(lines[5][20 + 8 * d:28 + 8 * d]) for d in range(3)]
    shift[0] += 0.01
    for row in range(5, 8):
        moved = [float(lines[row][20 + 8 * d:28 + 8 * d]) + shift[d] for d in range(3)]
        lines[row] = lines[row][:20] + "".join(f"{value:8.3f}" for value in moved) + lines[row][44:]
    bad = pathlib.Path(directory) / "bad.gro"
    bad.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for ranks in (1, 2, 8):
        done = leat_md.Run(directory, (bad, top, mdp), "--steps", 40, *device,
                           *splits(ranks, "2x2x2"), timeout=60)
        assert done.status == 1, f"status {done.status} of {done.command}\n{done.err}"
        assert "overlapping atoms" in done.err or "cannot be constrained" in done.err, done.err


def counts_no_waits_in_plain_steps(directory, device):
    """Two exchanges a step, none of them with a wait of the host, but for sums and partitions."""
    def stats(steps):
        run = leat_md.run(directory, leat_md.water(), "-n", 2, *device, "--steps", steps, "--stats",
                          "--mode", "fused")
        return run.report()["stats"]

    # Both numbers of steps end in the life of the same list, with as many sums.
    short, long = stats(25), stats(38)
    # A few waits are messages' at sums, now asleep and now not; one a step would be so many more.
    assert long["blocking_waits"] - short["blocking_waits"] < 2 * 13, (short, long)
    # One launch an exchange, two exchanges a step, on each of two ranks.
    assert long["launches"] - short["launches"] == 2 * 2 * 13, (short, long)


def devices():
    """Options for one GPU, and for two where there are two. Skips where there is none."""
    probe = leat_md.Run(pathlib.Path.cwd(), leat_md.water(), "--steps", 0, "--device", "cuda")
    if probe.status == 77:
        raise leat_md.Skip(probe.err.strip() or "no CUDA device")
    found = [("--device", "cuda:0")]
    tool = shutil.which("nvidia-smi")
    count = len([line for line in os.popen(f"{tool} -L").read().splitlines()
                 if line.startswith("GPU ")]) if tool else 1
    return found + [("--device", "cuda:0,1")] if count > 1 else found
