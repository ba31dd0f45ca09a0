// SPDX-License-Identifier: Apache-2.0
// Which energy may differ by how much, by its name.
//
// Advantage: one rule for reports and for CSV files, whatever terms they have. Disadvantage: a sum
// is known as one by its name only.

#include "md/compare.h"

#include <math.h>
#include <string.h>

#define NOTHING 1e-9 // kJ/mol, where the value is 0

int md_compare_term_name(const char *name, char ours[MD_COMPARE_NAME])
{
    static const char *const names[][2] = {
        {"LJ (SR)", "lj"},
        {"Coulomb (SR)", "coulomb"},
        {"Bond", "bond"},
        {"Angle", "angle"},
        {"Proper Dih.", "dihedral"},
        {"Ryckaert-Bell.", "ryckaert_bellemans"},
        {"Improper Dih.", "improper"},
        {"LJ-14", "lj14"},
        {"Coulomb-14", "coulomb14"},
        {"Potential", "potential"},
        {"Kinetic En.", "kinetic"},
        {"Total Energy", "total"},
        {"Conserved En.", "conserved"},
        {"Temperature", "temperature_k"},
        {"Pressure", "pressure_bar"},
        {"time_ps", "time"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i][0]) == 0)
            return snprintf(ours, MD_COMPARE_NAME, "%s", names[i][1]);
    int length = snprintf(ours, MD_COMPARE_NAME, "%s", name);
    char *unit = strstr(ours, "_kj_mol");
    if (unit && unit[7] == 0)
        *unit = 0;
    return length;
}

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

void md_compare_allow(struct md_compare_term *terms, int count, double tolerance, double gross)
{
    static const char *const with_kinetic[] = {"total", "conserved", NULL};
    static const char *const no_terms[] = {"potential", "total", "conserved", "kinetic", NULL};
    double potential = 0.0, kinetic = 0.0;
    for (int i = 0; i < count; i++) {
        struct md_compare_term *term = &terms[i];
        bool coulomb = strcmp(term->name, "coulomb") == 0 && isfinite(gross);
        term->allowed = tolerance * (coulomb ? fabs(gross) : fabs(term->value));
        if (!(term->allowed > 0.0))
            term->allowed = NOTHING;
        if (strcmp(term->name, "kinetic") == 0)
            kinetic = term->allowed;
        else if (!is_one_of(term->name, no_terms))
            potential += term->value != 0.0 ? term->allowed : 0.0;
    }
    for (int i = 0; i < count; i++) {
        struct md_compare_term *term = &terms[i];
        double sum = potential + (is_one_of(term->name, with_kinetic) ? kinetic : 0.0);
        if (strcmp(term->name, "kinetic") != 0 && is_one_of(term->name, no_terms) && sum > 0.0)
            term->allowed = sum;
    }
}
