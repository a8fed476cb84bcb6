// SPDX-License-Identifier: Apache-2.0
// Kernels that ask about their place through functions, macros and each other. The verdict on each kernel is the
// comment before it (laws_test.cc).
#define SIDE 4
#define AT(x, y, width) ((y) * (width) + (x))
#ifdef HALVES
typedef half Number;
#else
typedef float Number;
#endif
typedef struct {
  Number x, y;
  int n;
} Particle;
constant int kPrimes[] = {2, 3, 5, 7, 11, 13, 17, 19};

size_t first_of_group(void);
size_t place_of(int from) { return first_of_group() + get_local_id(0) - from; }
size_t first_of_group() { return get_group_id(0) * get_local_size(0); }
Number weigh(Particle p, int i) { return p.x * p.y + kPrimes[i & 7]; }
static inline size_t rows_before(const uint dimension) {
  return get_group_id(dimension) * get_local_size(dimension);
}

// exact
kernel void by_group(global const Number* in, global Number* out) {
  size_t i = place_of(0);
  out[i] = in[i] + get_group_id(0) + get_num_groups(0);
}
// exact
__kernel __attribute__((vec_type_hint(float))) void move_particles(__global Particle* restrict all, __constant Number* at, int count) {
  int i = get_global_id(0);
  if (i >= count) return;
  Particle p = all[i];
  all[i].x = weigh(p, i) + *at;
  all[i].n = p.n + get_global_size(0);
}
// exact
kernel void by_group_twice(global const Number* in, global Number* out) {
  by_group(in, out);
  out[get_global_id(0)] *= 2;
}
// exact
kernel void sum_of_square(const global Number* in, global Number* const out, int width) {
  const size_t x = get_global_id(0), y = rows_before(1) + get_local_id(1);
  Number sum = 0;
#pragma unroll
  for (int dy = 0; dy < SIDE; dy++)
    for (int dx = 0; dx < SIDE; dx++) sum += in[AT(SIDE * x + dx, SIDE * y + dy, SIDE * width)];
  out[AT(x, y, width)] = sum;
}
// exact
kernel void rows_by_groups(global const Number* in, global Number* out, int n) {
  for (size_t i = get_group_id(0) * get_local_size(0) + get_local_id(0); i < n; i += get_num_groups(0) * get_local_size(0))
    out[i] = in[i] * get_global_size(0);
}
typedef struct {
  int x, y;
} Shift;
// exact
kernel void read_shifted(global const Number* in, global Number* out, Shift by) {
  out[get_global_id(0)] = in[get_global_id(0) + by.x] + by.y;
}
// replicate
kernel void read_shifted_in_turn(global const Number* in, global Number* out, Shift by) {
  if (get_global_id(0) % 2 == 1) by.x = by.y;
  out[get_global_id(0)] = in[get_global_id(0) + by.x];
}
size_t linear_place(void) {
  size_t z = get_global_id(2) - get_global_offset(2), y = get_global_id(1) - get_global_offset(1);
  return (z * get_global_size(1) + y) * get_global_size(0) + get_global_id(0) - get_global_offset(0);
}
// exact
kernel void offset_places(global uint* out) {
  global uint* mine = out + 16 * linear_place();
  mine[0] = get_group_id(0), mine[1] = get_group_id(1), mine[2] = get_group_id(2), mine[3] = get_group_id(3);
  mine[4] = get_num_groups(0), mine[5] = get_num_groups(1), mine[6] = get_num_groups(2), mine[7] = get_local_size(1);
  mine[8] = get_global_size(0), mine[9] = get_global_size(1), mine[10] = get_global_size(2);
  mine[11] = get_global_offset(0), mine[12] = get_global_offset(1), mine[13] = get_global_offset(2);
  mine[14] = get_global_id(0) + 100 * get_global_id(1), mine[15] = get_work_dim() + get_local_size(0);
}
// refuse
kernel void copy_if_other(global const Number* in, global Number* out) {
  if (in != out) out[get_global_id(0)] = in[get_global_id(0)];
}
// refuse
kernel void group_tickets(global int* next, global int* out) {
  if (get_local_id(0) == 0) out[get_group_id(0)] = atomic_inc(next);
}
