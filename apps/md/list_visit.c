// SPDX-License-Identifier: Apache-2.0
// The pairs of a list, one by one, for checks of it.
//
// Advantage: says what the loops over clusters run over, without their arithmetic. Disadvantage: a
// call a pair, and half of the pairs are beyond the cut-off.

#include "md/list_internal.h"

struct visit {
    const struct md_list *list;
    md_list_visitor *visitor;
    void *user;
};

static double wrap_of(const struct md_list *list, int cluster, int slot, int d)
{
    size_t at = MD_WRAP_STRIDE * (size_t)cluster + (size_t)(d * MD_J_ATOMS + slot);
    return list->precision == MD_DOUBLE ? ((const double *)list->wrap.data)[at]
                                        : (double)((const float *)list->wrap.data)[at];
}

static void visit_clusters(const struct visit *visit, const struct md_row *row, int cluster_j,
                           uint32_t mask)
{
    const struct md_list *list = visit->list;
    const int *atom = list->atom.data, *filled = list->filled.data;
    const int cluster_i = row->i / 2, begin = row->i % 2 * MD_I_ATOMS;
    for (int a = 0; a < MD_I_ATOMS && begin + a < filled[cluster_i]; a++)
        for (int b = 0; b < filled[cluster_j]; b++) {
            if (!(mask >> (MD_J_ATOMS * a + b) & 1))
                continue;
            double offset[3];
            for (int d = 0; d < 3; d++)
                offset[d] = list->shift[row->shift][d] + wrap_of(list, cluster_i, begin + a, d) -
                            wrap_of(list, cluster_j, b, d);
            visit->visitor(visit->user, atom[MD_J_ATOMS * cluster_i + begin + a],
                           atom[MD_J_ATOMS * cluster_j + b], offset);
        }
}

// All that was built, in a share.
static void built_rows(const struct md_part_list *part, int share, struct md_rows *rows)
{
    const struct md_share *own = &part->shares[share];
    *rows = (struct md_rows){0};
    if (own->row_end > own->row_begin)
        *rows = (struct md_rows){(struct md_row *)part->made.rows.data + own->row_begin,
                                 part->made.j.data, part->made.mask.data,
                                 own->row_end - own->row_begin};
}

void md_list_visit(const struct md_list *list, bool built, md_list_visitor *visitor, void *user)
{
    const struct visit visit = {list, visitor, user};
    for (int part = 0; part < 2; part++)
        for (int share = 0; share < list->thread_count; share++) {
            struct md_rows rows;
            if (built)
                built_rows(&list->parts[part], share, &rows);
            else
                md_list_rows(list, (enum md_part)part, share, &rows);
            for (size_t k = 0; k < rows.row_count; k++) {
                const struct md_row *row = &rows.row[k];
                for (int j = 0; j < row->count; j++)
                    visit_clusters(&visit, row, rows.j[row->first + (size_t)j],
                                   j < row->masked_count ? rows.mask[row->first_mask + (size_t)j]
                                                         : UINT32_MAX);
            }
        }
}
