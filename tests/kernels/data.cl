// SPDX-License-Identifier: Apache-2.0
// The verdict on each kernel is the comment before it (laws_test.cc).
// replicate
kernel void gather(global const float* in, global const int* index, global float* out) {
  size_t i = get_global_id(0);
  out[i] = in[index[i]];
}
// refuse
kernel void scatter(global const float* in, global const int* index, global float* out) {
  size_t i = get_global_id(0);
  out[index[i]] = in[i];
}
// refuse
kernel void histogram_atomic(global const uchar* in, global uint* counts) { atomic_inc(&counts[in[get_global_id(0)]]); }
// exact
kernel void histogram_private(global const uchar* in, global uint* counts, int per_item) {
  size_t i = get_global_id(0);
  uint mine[256];
  for (int b = 0; b < 256; b++) mine[b] = 0;
  for (int j = 0; j < per_item; j++) mine[in[i * per_item + j]]++;
  for (int b = 0; b < 256; b++) counts[i * 256 + b] = mine[b];
}
// exact
kernel void histogram_local(global const uchar* in, global uint* counts) {
  local uint mine[64];
  size_t l = get_local_id(0);
  for (uint b = l; b < 64; b += get_local_size(0)) mine[b] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_inc(&mine[in[get_global_id(0)] & 63]);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (l == 0)
    for (int b = 0; b < 64; b++) counts[get_group_id(0) * 64 + b] = mine[b];
}
// guarded
kernel void table_look_up(global const uchar* in, global const uchar* table, global uchar* out) {
  size_t i = get_global_id(0);
  out[i] = table[in[i]];
}
// guarded
kernel void threshold(global const float* in, global float* out, float limit) {
  size_t i = get_global_id(0);
  if (in[i] > limit) out[i] = in[i];
}
// exact
kernel void scan_group(global const int* in, global int* out, local int* part) {
  size_t l = get_local_id(0), n = get_local_size(0);
  part[l] = in[get_global_id(0)];
  for (size_t step = 1; step < n; step <<= 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    int other = l >= step ? part[l - step] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    part[l] += other;
  }
  out[get_global_id(0)] = part[l];
}
// exact
kernel void scan_add(global int* out, global const int* sums) { out[get_global_id(0)] += sums[get_group_id(0)]; }
// exact
kernel void reduce_group(global const float* in, global float* out, local float* part, int n) {
  int i = get_global_id(0), l = get_local_id(0);
  part[l] = i < n ? in[i] : 0;
  for (int s = get_local_size(0) / 2; s > 0; s >>= 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < s) part[l] += part[l + s];
  }
  if (l == 0) out[get_group_id(0)] = part[0];
}
// exact
kernel void scan_serial(global const int* in, global int* out, int w) {
  size_t r = get_global_id(0);
  int sum = 0;
  for (int c = 0; c < w; c++) {
    sum += in[r * w + c];
    out[r * w + c] = sum;
  }
}
// replicate
kernel void search(global const int* sorted, global const int* wanted, global int* found, int n) {
  size_t i = get_global_id(0);
  int low = 0, high = n;
  while (low < high) {
    int middle = (low + high) / 2;
    if (sorted[middle] < wanted[i]) low = middle + 1;
    else high = middle;
  }
  found[i] = low;
}
// guarded
kernel void count_until_large(global const int* in, global int* out, int w) {
  size_t r = get_global_id(0);
  int c = 0, large = 0;
  do {
    large = (in[r * w + c] & 15) > 11;
    out[r * w + c] = c;
    c++;
  } while (c < w && !large);
}
// replicate
kernel void sparse_multiply(global const int* rows, global const int* columns, global const float* values,
                            global const float* x, global float* y, int n) {
  int r = get_global_id(0);
  if (r >= n) return;
  float sum = 0;
  for (int k = rows[r]; k < rows[r + 1]; k++) sum += values[k] * x[columns[k]];
  y[r] = sum;
}
// refuse
kernel void print(global const int* in) { printf("%d\n", in[get_global_id(0)]); }
// refuse
kernel void wait_for_flag(global volatile int* flag, global int* out) {
  while (flag[0] == 0) {}
  out[get_global_id(0)] = 1;
}
// refuse
kernel void store_pointer(global float* a, global ulong* out) { out[get_global_id(0)] = (ulong)(a + get_global_id(0)); }
// refuse
kernel void image_copy(read_only image2d_t in, global float4* out) {
  const sampler_t s = CLK_FILTER_NEAREST;
  out[get_global_id(0)] = read_imagef(in, s, (int2)(get_global_id(0), 0));
}
// refuse
kernel void compact(global const int* in, global int* out, global int* count) {
  if (in[get_global_id(0)] > 0) out[atomic_inc(count)] = in[get_global_id(0)];
}
uint mix(uint h) {
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  return h;
}
// exact
kernel void hash_words(global const uint* in, global uint* out, uint seed) {
  size_t i = get_global_id(0);
  out[i] = mix(in[i] ^ seed);
}
// exact
kernel void hash_blocks(global const uchar* in, global uint* out, int bytes) {
  size_t i = get_global_id(0);
  uint h = 2166136261u;
  for (int b = 0; b < bytes; b++) h = (h ^ in[i * bytes + b]) * 16777619u;
  out[i] = h;
}
// exact
kernel void hash_sixteen(global const uint4* in, global uint4* out) {
  size_t i = get_global_id(0);
  uint4 v = in[i];
  for (int r = 0; r < 16; r++) v = rotate(v, (uint4)(7)) + v.yzwx;
  out[i] = v;
}
// guarded
kernel void hash_probe(global const uint* keys, global const uint* table, global uint* out, uint mask) {
  size_t i = get_global_id(0);
  out[i] = table[mix(keys[i]) & mask];
}
// refuse
kernel void hash_insert(global const uint* keys, global uint* table, uint mask) {
  size_t i = get_global_id(0);
  atomic_cmpxchg(&table[mix(keys[i]) & mask], 0u, keys[i]);
}
