// SPDX-License-Identifier: Apache-2.0
// SETTLE (Miyamoto & Kollman, J. Comput. Chem. 13 (1992) 952): rigid three-site waters in closed
// form.
//
// The constraint forces act along the old bonds, so they leave alone the centre of mass, the
// components of the new positions along the old plane's normal, and the angular momentum about that
// normal. The first two say how the rigid triangle tilts out of the old plane, the third how it
// turns in it. Here the frame's x axis lies along the old H-H line instead of being set by the new
// oxygen: the turn is then small, and the old geometry need not be exact (a file's rounded
// coordinates): any triangle of some extent gives a result that is exact to rounding.
//
// Advantage: no iteration and no tolerance; five square roots a water, and all waters alike, so
// LANES of them go through the same arithmetic at once and a water's result does not depend on
// which others are beside it. Disadvantage: three sites of this symmetry only, and turns below a
// quarter.

#include "md/dynamics.h"

#include "core/error.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define LANES 8

// Distances from the centre of mass along the symmetry axis, and what follows from the masses.
struct shape {
    double o_nm, h_nm, half_hh_nm;
    double inv_o, inv_hh;
    double h_share; // of one hydrogen in the molecule's mass
    double h_over_o;
    double largest_move2; // beyond it the geometry is that of a broken or exploding molecule
    double least_normal;  // below it the old sites are nearly in a line, and their plane is chance
};

// A group of waters, one array element each: bonds run from the oxygen to the two hydrogens, `move`
// is what the constraints displace the hydrogens by, and the rest is what one stage of the
// arithmetic hands to the next. Suffix 1 is before constraining, 2 is the rigid triangle tilted but
// not yet turned, both relative to the centre of mass.
struct lanes {
    double old_b[3][LANES], old_c[3][LANES];
    double new_b[3][LANES], new_c[3][LANES];
    double move_b[3][LANES], move_c[3][LANES];
    double move2[LANES]; // sum of the displacements' squares; not a number without a solution
    double root[4][LANES];
    double tilt[LANES]; // product of the two sines as find_tilt has them
    double ex[3][LANES], ey[3][LANES];
    double b1x[LANES], b1y[LANES], c1x[LANES], c1y[LANES], c2x[LANES], b2y[LANES], c2y[LANES];
    double p[LANES], q[LANES], g[LANES], rest[LANES];
};

struct vector {
    double x, y, z;
};

static inline struct vector load(double (*from)[LANES], int lane)
{
    return (struct vector){from[0][lane], from[1][lane], from[2][lane]};
}

static inline void store(double (*to)[LANES], int lane, struct vector a)
{
    to[0][lane] = a.x;
    to[1][lane] = a.y;
    to[2][lane] = a.z;
}

static inline double dot(struct vector a, struct vector b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

static inline struct vector cross(struct vector a, struct vector b)
{
    return (struct vector){a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

static inline struct vector scale(double s, struct vector a)
{
    return (struct vector){s * a.x, s * a.y, s * a.z};
}

static inline struct vector combine(double s, struct vector a, double t, struct vector b)
{
    return (struct vector){s * a.x + t * b.x, s * a.y + t * b.y, s * a.z + t * b.z};
}

static int make_shape(const struct md_waters *waters, struct shape *shape)
{
    double oh = waters->d_oh_nm, hh = waters->d_hh_nm;
    double mo = waters->mass_o_u, mh = waters->mass_h_u;
    double height2 = oh * oh - 0.25 * hh * hh;
    if (!(oh > 0.0 && hh > 0.0 && height2 > 1e-6 * oh * oh && mo > 0.0 && mh > 0.0) ||
        !isfinite(height2) || !isfinite(mo) || !isfinite(mh))
        return leat_fail(-EINVAL,
                         "rigid water with O-H %g nm, H-H %g nm, masses %g u and %g u: expected "
                         "positive masses and a triangle (0 < H-H < 2 O-H); correct [ settles ] "
                         "and the masses in the topology",
                         oh, hh, mo, mh);
    double height = sqrt(height2), total = mo + 2.0 * mh;
    shape->o_nm = 2.0 * mh * height / total;
    shape->h_nm = mo * height / total;
    shape->half_hh_nm = 0.5 * hh;
    shape->inv_o = 1.0 / shape->o_nm;
    shape->inv_hh = 1.0 / hh;
    shape->h_share = mh / total;
    shape->h_over_o = mh / mo;
    shape->largest_move2 = oh * oh;
    shape->least_normal = 1e-3 * hh * height;
    return 0;
}

// The square roots stand in loops of their own because sqrt() sets errno, which keeps a compiler
// from putting it, or a loop it is in, into vector instructions.
static inline void take_roots(double *a)
{
#ifdef __SSE2__
    for (int lane = 0; lane < LANES; lane += 2)
        _mm_storeu_pd(a + lane, _mm_sqrt_pd(_mm_loadu_pd(a + lane)));
#else
    for (int lane = 0; lane < LANES; lane++)
        a[lane] = sqrt(a[lane]);
#endif
}

// Phi lifts the oxygen out of the old plane, psi one hydrogen above the other. All four roots are
// lengths in the old triangle: the H-H line, the normal, and the normal times cos phi and times
// cos phi cos psi; kept so, they cost one division later on, not one each.
static void find_tilt(const struct shape *restrict shape, struct lanes *restrict w)
{
    for (int lane = 0; lane < LANES; lane++) {
        struct vector old_b = load(w->old_b, lane), old_c = load(w->old_c, lane);
        struct vector along = combine(1.0, old_c, -1.0, old_b), normal = cross(old_b, old_c);
        double b = dot(load(w->new_b, lane), normal), c = dot(load(w->new_c, lane), normal);
        double phi = -shape->h_share * (b + c) * shape->inv_o; // sine times the normal
        double psi = (b - c) * shape->inv_hh; // sine times the normal times cos phi
        double normal2 = dot(normal, normal), rest2 = normal2 - phi * phi;
        w->root[0][lane] = dot(along, along);
        w->root[1][lane] = normal2;
        w->root[2][lane] = rest2;
        w->root[3][lane] = rest2 - psi * psi;
        w->tilt[lane] = phi * psi;
    }
    for (int k = 0; k < 4; k++)
        take_roots(w->root[k]);
}

// The frame, and the equation for the turn by theta in it, which gives the sum of old bond x new
// hydrogen the value that it has before constraining: p cos theta + q sin theta = g.
static void find_turn(const struct shape *restrict shape, struct lanes *restrict w)
{
    for (int lane = 0; lane < LANES; lane++) {
        struct vector old_b = load(w->old_b, lane), old_c = load(w->old_c, lane);
        struct vector new_b = load(w->new_b, lane), new_c = load(w->new_c, lane);
        double along = w->root[0][lane], normal = w->root[1][lane], rest = w->root[2][lane];
        double inv_all = 1.0 / (along * normal * rest), inv_along = inv_all * (normal * rest);
        double inv_normal = inv_all * (along * rest), inv_rest = inv_all * (along * normal);
        double cos_phi = rest * inv_normal, cos_psi = w->root[3][lane] * inv_rest;
        struct vector ex = scale(inv_along, combine(1.0, old_c, -1.0, old_b));
        struct vector ey = scale(inv_normal, cross(cross(old_b, old_c), ex));

        double bx = dot(new_b, ex), by = dot(new_b, ey), cx = dot(new_c, ex), cy = dot(new_c, ey);
        double ox = -shape->h_share * (bx + cx), oy = -shape->h_share * (by + cy);
        double c2x = shape->half_hh_nm * cos_psi, mean2y = -shape->h_nm * cos_phi;
        double half2y = shape->half_hh_nm * w->tilt[lane] * (inv_rest * inv_normal);
        double b2y = mean2y - half2y, c2y = mean2y + half2y;

        // Both old hydrogens are as far from the oxygen along -ey as the triangle is high.
        double b0x = dot(old_b, ex), c0x = b0x + along, y = -normal * inv_along;
        double g = b0x * (by + oy) + c0x * (cy + oy) - y * (bx + cx + 2.0 * ox);
        double p = b0x * b2y + c0x * c2y, q = c2x * (c0x - b0x) + y * (b2y + c2y);
        w->p[lane] = p;
        w->q[lane] = q;
        w->g[lane] = g;
        w->rest[lane] = p * p + q * q - g * g;
        w->b1x[lane] = bx + ox;
        w->b1y[lane] = by + oy;
        w->c1x[lane] = cx + ox;
        w->c1y[lane] = cy + oy;
        w->c2x[lane] = c2x;
        w->b2y[lane] = b2y;
        w->c2y[lane] = c2y;
        store(w->ex, lane, ex);
        store(w->ey, lane, ey);
    }
    take_roots(w->rest);
}

static void find_moves(struct lanes *w)
{
    for (int lane = 0; lane < LANES; lane++) {
        struct vector ex = load(w->ex, lane), ey = load(w->ey, lane);
        double p = w->p[lane], q = w->q[lane], g = w->g[lane], rest = w->rest[lane];
        double inv_r2 = 1.0 / (p * p + q * q);
        double sine = (q * g - p * rest) * inv_r2, cosine = (p * g + q * rest) * inv_r2;
        double c2x = w->c2x[lane], b2y = w->b2y[lane], c2y = w->c2y[lane];
        double bx = -cosine * c2x - sine * b2y - w->b1x[lane];
        double by = -sine * c2x + cosine * b2y - w->b1y[lane];
        double cx = cosine * c2x - sine * c2y - w->c1x[lane];
        double cy = sine * c2x + cosine * c2y - w->c1y[lane];
        store(w->move_b, lane, combine(bx, ex, by, ey));
        store(w->move_c, lane, combine(cx, ex, cy, ey));
        w->move2[lane] = bx * bx + by * by + cx * cx + cy * cy;
    }
}

// What the unconstrained positions are: x_new, or x_old + v dt where x_new is NULL.
struct source {
    const struct md_waters *waters;
    const int64_t *id;
    const double *x_old, *x_new, *v;
    double dt_ps;
};

static inline struct vector at(const double *site)
{
    return (struct vector){site[0], site[1], site[2]};
}

// From the first site to the second and to the third.
static inline void bonds(const double *site, struct vector *b, struct vector *c)
{
    struct vector o = at(site);
    *b = combine(1.0, at(site + 3), -1.0, o);
    *c = combine(1.0, at(site + 6), -1.0, o);
}

// Lanes past the end repeat the last water: arithmetic on leftovers could trap or be slow.
static void gather(const struct source *source, int first, struct lanes *restrict w)
{
    for (int lane = 0; lane < LANES; lane++) {
        int water = first + lane < source->waters->count ? first + lane : source->waters->count - 1;
        int64_t o = 3 * (int64_t)source->waters->oxygen[water];
        struct vector old_b, old_c, b, c;
        bonds(source->x_old + o, &old_b, &old_c);
        bonds(source->x_new ? source->x_new + o : source->v + o, &b, &c);
        store(w->old_b, lane, old_b);
        store(w->old_c, lane, old_c);
        store(w->new_b, lane, source->x_new ? b : combine(1.0, old_b, source->dt_ps, b));
        store(w->new_c, lane, source->x_new ? c : combine(1.0, old_c, source->dt_ps, c));
    }
}

static double distance(const double *a, const double *b)
{
    double x = a[0] - b[0], y = a[1] - b[1], z = a[2] - b[2];
    return sqrt(x * x + y * y + z * z);
}

static int refuse(const struct source *source, int water)
{
    int oxygen = source->waters->oxygen[water];
    const double *x = source->x_old + 3 * (int64_t)oxygen;
    return leat_fail(-EDOM,
                     "the water whose oxygen is atom %lld cannot be constrained "
                     "from O-H %.6g and %.6g nm, H-H %.6g nm, oxygen at (%.6g %.6g %.6g) nm: "
                     "expected a whole molecule that turns less than a quarter and whose "
                     "hydrogens move less than a bond; minimise the start's energy, shorten dt or "
                     "make the input's molecules whole",
                     (long long)source->id[oxygen] + 1, distance(x, x + 3), distance(x, x + 6),
                     distance(x + 3, x + 6), x[0], x[1], x[2]);
}

// Displacements of the group of waters from `first` on.
static int solve(const struct source *source, const struct shape *shape, int first, struct lanes *w)
{
    gather(source, first, w);
    find_tilt(shape, w);
    find_turn(shape, w);
    find_moves(w);
    for (int lane = 0; lane < LANES && first + lane < source->waters->count; lane++)
        if (!(w->move2[lane] <= shape->largest_move2 && w->root[1][lane] >= shape->least_normal))
            return refuse(source, first + lane);
    return 0;
}

static inline void add(double *site, struct vector a)
{
    site[0] += a.x;
    site[1] += a.y;
    site[2] += a.z;
}

static void scatter(const struct md_waters *waters, const struct shape *shape, int first,
                    struct lanes *restrict w, double factor, double *restrict to)
{
    for (int lane = 0; lane < LANES && first + lane < waters->count; lane++) {
        double *site = to + 3 * (int64_t)waters->oxygen[first + lane];
        struct vector b = load(w->move_b, lane), c = load(w->move_c, lane);
        // The oxygen's share from the hydrogens', so that momentum is kept to rounding.
        add(site, scale(-factor * shape->h_over_o, combine(1.0, b, 1.0, c)));
        add(site + 3, scale(factor, b));
        add(site + 6, scale(factor, c));
    }
}

// One running sum a lane, added up in the end: at one sum for all, each water would wait for the
// one before. The forces sum to zero, so old bonds serve for old positions, without the box's
// digits.
static void add_virial(const struct lanes *restrict w, double (*restrict sum)[LANES])
{
    for (int row = 0; row < 3; row++)
        for (int column = 0; column < 3; column++)
            for (int lane = 0; lane < LANES; lane++)
                sum[3 * row + column][lane] += w->old_b[row][lane] * w->move_b[column][lane] +
                                               w->old_c[row][lane] * w->move_c[column][lane];
}

static void clear_moves(struct lanes *w, int from)
{
    for (int axis = 0; axis < 3; axis++)
        for (int lane = from; lane < LANES; lane++)
            w->move_b[axis][lane] = w->move_c[axis][lane] = 0.0;
}

static int check_step(double dt_ps)
{
    if (!(dt_ps > 0.0) || !isfinite(dt_ps))
        return leat_fail(-EINVAL, "time step %g ps: expected a positive number", dt_ps);
    return 0;
}

// x_new gets the displacements and v the displacements / dt, each where it is not NULL.
static int apply(const struct source *source, const struct shape *shape, double *x_new, double *v,
                 double *virial)
{
    const struct md_waters *waters = source->waters;
    double sum[9][LANES] = {{0.0}};
    struct lanes w;
    for (int first = 0; first < waters->count; first += LANES) {
        int error = solve(source, shape, first, &w);
        if (error)
            return error;
        if (x_new)
            scatter(waters, shape, first, &w, 1.0, x_new);
        if (v)
            scatter(waters, shape, first, &w, 1.0 / source->dt_ps, v);
        if (waters->count - first < LANES)
            clear_moves(&w, waters->count - first);
        add_virial(&w, sum);
    }
    for (int k = 0; virial && k < 9; k++) {
        double total = 0.0;
        for (int lane = 0; lane < LANES; lane++)
            total += sum[k][lane];
        virial[k] -= 0.5 * waters->mass_h_u / (source->dt_ps * source->dt_ps) * total;
    }
    return 0;
}

int md_settle(const struct md_waters *waters, const int64_t *id, const double *x_old, double *x_new,
              double *v, double dt_ps, double *virial)
{
    struct shape shape;
    struct lanes w;
    if (waters->count == 0)
        return 0;
    int error = make_shape(waters, &shape);
    if (!error && (v || virial))
        error = check_step(dt_ps);
    if (error)
        return error;
    struct source source = {waters, id, x_old, x_new, NULL, dt_ps};
    // A first pass without effect: on an error nothing may have changed.
    for (int first = 0; first < waters->count; first += LANES)
        if ((error = solve(&source, &shape, first, &w)))
            return error;
    return apply(&source, &shape, x_new, v, virial);
}

int md_settle_step(const struct md_waters *waters, const int64_t *id, const double *x, double *v,
                   double dt_ps, double *virial)
{
    struct shape shape;
    if (waters->count == 0)
        return 0;
    int error = make_shape(waters, &shape);
    if (!error)
        error = check_step(dt_ps);
    if (error)
        return error;
    struct source source = {waters, id, x, NULL, v, dt_ps};
    return apply(&source, &shape, NULL, v, virial);
}

// Impulses along the three bonds that stop the sites' relative motion along them: a symmetric
// positive definite system, eliminated without pivots. Sites in one point or line have none.
static bool bond_impulses(const struct md_waters *waters, const struct vector r[3],
                          const struct vector u[3], double impulse[3])
{
    double o = 1.0 / waters->mass_o_u, h = 1.0 / waters->mass_h_u;
    double a00 = dot(r[0], r[0]) * (o + h), a11 = dot(r[1], r[1]) * (o + h);
    double a22 = 2.0 * dot(r[2], r[2]) * h;
    double a01 = dot(r[0], r[1]) * o, a02 = -dot(r[0], r[2]) * h, a12 = dot(r[1], r[2]) * h;
    double b0 = -dot(u[0], r[0]), b1 = -dot(u[1], r[1]), b2 = -dot(u[2], r[2]);
    double l10 = a01 / a00, l20 = a02 / a00;
    double d1 = a11 - l10 * a01, e12 = a12 - l10 * a02, l21 = e12 / d1;
    double d2 = a22 - l20 * a02 - l21 * e12;
    b1 -= l10 * b0;
    b2 -= l20 * b0 + l21 * b1;
    impulse[2] = b2 / d2;
    impulse[1] = b1 / d1 - l21 * impulse[2];
    impulse[0] = b0 / a00 - l10 * impulse[1] - l20 * impulse[2];
    return isfinite(impulse[0] + impulse[1] + impulse[2]);
}

void md_settle_velocities(const struct md_waters *waters, const double *x, double *v)
{
    for (int water = 0; water < waters->count; water++) {
        int64_t o = 3 * (int64_t)waters->oxygen[water];
        struct vector r[3], u[3];
        bonds(x + o, &r[0], &r[1]);
        bonds(v + o, &u[0], &u[1]);
        r[2] = combine(1.0, r[1], -1.0, r[0]);
        u[2] = combine(1.0, u[1], -1.0, u[0]);
        double impulse[3];
        if (!bond_impulses(waters, r, u, impulse))
            continue;
        struct vector b = combine(impulse[0], r[0], -impulse[2], r[2]);
        struct vector c = combine(impulse[1], r[1], impulse[2], r[2]);
        add(v + o, scale(-1.0 / waters->mass_o_u, combine(1.0, b, 1.0, c)));
        add(v + o + 3, scale(1.0 / waters->mass_h_u, b));
        add(v + o + 6, scale(1.0 / waters->mass_h_u, c));
    }
}
