// SPDX-License-Identifier: Apache-2.0
// Every .mdp option of GROMACS (to release 2022, and the on/off switches of later ones), and what
// this driver makes of it.
//
// Advantage: what is supported is read off one table, and an unknown key can be told from one that
// GROMACS knows. Disadvantage: new options of GROMACS have to be added by hand.

#include "md/settings_table.h"

#include <math.h>

#define IGNORED(n)                                                                                 \
    {                                                                                              \
        .names = n, .rule = MD_IGNORED                                                             \
    }
#define EMPTY(n)                                                                                   \
    {                                                                                              \
        .names = n, .rule = MD_EMPTY                                                               \
    }
#define NEUTRAL(n, v)                                                                              \
    {                                                                                              \
        .names = n, .rule = MD_NEUTRAL, .values = v                                                \
    }
#define NUMBER(n, kind, member, low)                                                               \
    {                                                                                              \
        .names = n, .rule = kind, .offset = offsetof(struct md_raw_settings, member), .least = low \
    }
#define TEXT(n, member)                                                                            \
    {                                                                                              \
        .names = n, .rule = MD_TEXT, .offset = offsetof(struct md_raw_settings, member),           \
        .bytes = sizeof(((struct md_raw_settings *)0)->member)                                     \
    }
#define CHOICE(n, member, v, l)                                                                    \
    {                                                                                              \
        .names = n, .rule = MD_CHOICE, .offset = offsetof(struct md_raw_settings, member),         \
        .values = v, .lacking = l                                                                  \
    }

// Exact names come before patterns: the first match counts.
const struct md_option md_options[] = {
    // Preprocessing.
    TEXT("include", include),
    TEXT("define", out.define),

    // Run control.
    CHOICE("integrator", integrator, "md md-vv steep",
           "cg bd sd sd1 sd2 nm l-bfgs tpi tpic md-vv-avek mimic"),
    NEUTRAL("tinit", "0"),
    NUMBER("dt", MD_REAL, out.dt_ps, 0),
    NUMBER("nsteps", MD_INT64, out.steps, -1),
    NEUTRAL("init-step", "0"),
    IGNORED("simulation-part"),
    NEUTRAL("mts", "no"),
    IGNORED("mts-*"),
    CHOICE("comm-mode", comm_mode, "linear none", "angular linear-acceleration-correction"),
    NUMBER("nstcomm", MD_INT, out.nstcomm, 0),
    NEUTRAL("comm-grps", "system"),
    NUMBER("ld-seed", MD_INT64, out.ld_seed, -HUGE_VAL),
    NUMBER("emtol", MD_REAL, out.emtol_kj_mol_nm, 0),
    NUMBER("emstep", MD_REAL, out.emstep_nm, 0),
    IGNORED("bd-fric niter fcstep nstcgsteep nbfgscorr rtpi"),

    // Output.
    NUMBER("nstcalcenergy", MD_INT, out.nstcalcenergy, -1),
    NUMBER("nstenergy", MD_INT, out.nstenergy, 0),
    NUMBER("nstxout", MD_INT64, out.nstxout, -HUGE_VAL),
    NUMBER("nstvout", MD_INT64, out.nstvout, -HUGE_VAL),
    NUMBER("nstfout", MD_INT64, out.nstfout, -HUGE_VAL),
    NUMBER("nstxout-compressed nstxtcout", MD_INT64, nstxout_compressed, -HUGE_VAL),
    IGNORED("nstlog nstcheckpoint energygrps"),
    IGNORED("compressed-x-precision xtc-precision"),
    IGNORED("compressed-x-grps xtc-grps"),

    // Neighbour searching.
    CHOICE("cutoff-scheme", cutoff_scheme, "verlet", "group"),
    NUMBER("nstlist", MD_INT, out.nstlist, 0),
    CHOICE("pbc", pbc, "xyz", "no xy screw"),
    NEUTRAL("periodic-molecules", "no"),
    NUMBER("verlet-buffer-tolerance verlet-buffer-drift", MD_REAL, out.verlet_buffer_tolerance,
           -HUGE_VAL),
    IGNORED("verlet-buffer-pressure-tolerance"),
    NUMBER("rlist", MD_REAL, out.rlist_nm, 0),
    IGNORED("ns-type rlistlong nstcalclr"),

    // Electrostatics and van der Waals.
    CHOICE(
        "coulombtype", coulombtype, "cut-off reaction-field",
        "generalized-reaction-field reaction-field-nec reaction-field-zero pme ewald p3m-ad "
        "poisson "
        "switch shift user generalized-born encad-shift pme-user pme-switch pme-user-switch fmm"),
    CHOICE("coulomb-modifier", coulomb_modifier, "potential-shift potential-shift-verlet none",
           "potential-switch exact-cutoff force-switch"),
    NUMBER("rcoulomb", MD_REAL, out.rcoulomb_nm, 0),
    NUMBER("epsilon-r", MD_REAL, out.epsilon_r, 0),
    NUMBER("epsilon-rf", MD_REAL, out.epsilon_rf, 0),
    CHOICE("vdw-type", vdwtype, "cut-off", "switch shift user encad-shift pme"),
    CHOICE("vdw-modifier", vdw_modifier, "potential-shift potential-shift-verlet none",
           "potential-switch exact-cutoff force-switch"),
    NUMBER("rvdw", MD_REAL, out.rvdw_nm, 0),
    NEUTRAL("dispcorr", "no"),
    NEUTRAL("implicit-solvent", "no"),
    EMPTY("energygrp-table energygrp-excl"),
    IGNORED("rcoulomb-switch rvdw-switch table-extension"),
    IGNORED("fourierspacing fourier-nx fourier-ny fourier-nz optimize-fft"),
    IGNORED("pme-order ewald-rtol ewald-rtol-lj lj-pme-comb-rule"),
    IGNORED("ewald-geometry epsilon-surface"),

    // Temperature and pressure.
    CHOICE("tcoupl", tcoupl, "no v-rescale", "berendsen nose-hoover andersen andersen-massive yes"),
    NUMBER("nsttcouple", MD_INT, out.nsttcouple, -1),
    TEXT("tc-grps", tc_groups),
    TEXT("tau-t", tau_t),
    TEXT("ref-t", ref_t),
    IGNORED("nh-chain-length print-nose-hoover-chain-variables"),
    IGNORED("ensemble-temperature-setting ensemble-temperature"),
    NEUTRAL("pcoupl", "no"),
    IGNORED("pcoupltype nstpcouple tau-p compressibility ref-p refcoord-scaling"),
    NEUTRAL("annealing", "no"),
    IGNORED("annealing-*"),

    // Start, constraints.
    CHOICE("gen-vel", gen_vel, "no yes", ""),
    NUMBER("gen-temp", MD_REAL, out.gen_temp_k, 0),
    NUMBER("gen-seed", MD_INT64, out.gen_seed, -HUGE_VAL),
    CHOICE("continuation unconstrained-start", continuation, "no yes", ""),
    CHOICE("constraints", constraints, "none h-bonds all-bonds", "h-angles all-angles"),
    NEUTRAL("constraint-algorithm", "lincs shake"),
    IGNORED("shake-sor shake-tol"),
    IGNORED("lincs-order lincs-iter lincs-warnangle"),
    NEUTRAL("morse", "no"),
    NEUTRAL("mass-repartition-factor", "1"),

    // Everything that acts on the system from outside, or on part of it.
    NEUTRAL("qmmm", "no"),
    IGNORED("qmmm-grps"),
    NEUTRAL("qmmm-cp2k-active", "no false"),
    IGNORED("qmmm-cp2k-*"),
    NEUTRAL("nwall", "0"),
    IGNORED("wall-*"),
    NEUTRAL("pull", "no"),
    IGNORED("pull-*"),
    NEUTRAL("awh", "no"),
    IGNORED("awh*"),
    NEUTRAL("rotation", "no"),
    IGNORED("rot-*"),
    EMPTY("imd-group"),
    NEUTRAL("disre", "no"),
    IGNORED("disre-* nstdisreout"),
    NEUTRAL("orire", "no"),
    IGNORED("orire-* nstorireout"),
    NEUTRAL("free-energy", "no"),
    EMPTY("couple-moltype"),
    IGNORED("couple-lambda0 couple-lambda1 couple-intramol"),
    IGNORED("init-lambda init-lambda-state delta-lambda nstdhdl"),
    IGNORED("fep-lambdas foreign-lambda mass-lambdas coul-lambdas vdw-lambdas bonded-lambdas"),
    IGNORED("restraint-lambdas temperature-lambdas calc-lambda-neighbors"),
    IGNORED("init-lambda-weights init-lambda-counts init-wl-histogram-counts"),
    IGNORED("dhdl-print-energy dhdl-derivatives"),
    IGNORED("sc-function sc-alpha sc-power sc-r-power sc-sigma sc-coul sc-gapsys-*"),
    IGNORED("separate-dhdl-file dh-hist-size dh-hist-spacing"),
    IGNORED("nstexpanded lmc-* lmin-* weight-* wl-* mininum-var-min symmetrized-transition-matrix"),
    NEUTRAL("simulated-tempering", "no"),
    IGNORED("simulated-tempering-scaling sim-temp-low sim-temp-high"),
    EMPTY("acc-grps freezegrps"),
    IGNORED("accelerate freezedim"),
    NEUTRAL("cos-acceleration", "0"),
    NEUTRAL("deform", "0"),
    IGNORED("deform-init-flow"),
    NEUTRAL("swapcoords", "no"),
    NEUTRAL("adress", "no"),
    NEUTRAL("electric-field-x electric-field-y electric-field-z", "0"),
    NEUTRAL("density-guided-simulation-active", "no false"),
    IGNORED("density-guided-simulation-*"),
    NEUTRAL("colvars-active", "no false"),
    IGNORED("colvars-*"),
    NEUTRAL("plumed-active nnpot-active", "no false"),
    IGNORED("plumed-* nnpot-*"),

    // Kept by GROMACS for old files, or for the user's own purposes.
    IGNORED("user1-grps user2-grps userint1 userint2 userint3 userint4"),
    IGNORED("userreal1 userreal2 userreal3 userreal4"),
    IGNORED("title cpp domain-decomposition andersen-seed"),
    IGNORED("dihre dihre-fc dihre-tau nstdihreout adress-*"),
    IGNORED("gb-algorithm nstgbradii rgbradii gb-epsilon-solvent gb-saltconc"),
    IGNORED("gb-obc-alpha gb-obc-beta gb-obc-gamma gb-dielectric-offset"),
    IGNORED("sa-algorithm sa-surface-tension"),
};

const int md_option_count = (int)(sizeof md_options / sizeof md_options[0]);
_Static_assert(sizeof md_options / sizeof md_options[0] <= MD_OPTIONS_MAX, "raise MD_OPTIONS_MAX");
