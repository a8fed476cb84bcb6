// SPDX-License-Identifier: Apache-2.0
// The verdict on each kernel is the comment before it (laws_test.cc).
// exact
kernel void vector_add(global const float* a, global const float* b, global float* c) {
  size_t i = get_global_id(0);
  c[i] = a[i] + b[i];
}
// exact
kernel void vector_add_int(global const float* a, global const float* b, global float* c, int n) {
  int i = get_global_id(0);
  if (i < n) c[i] = a[i] + b[i];
}
// exact
kernel void vector_add_return(global const float* a, global const float* b, global float* c, uint n) {
  uint i = get_global_id(0);
  if (i >= n) return;
  c[i] = a[i] + b[i];
}
// exact
kernel void saxpy(float k, global const float* x, global float* y, int n) {
  int i = get_global_id(0);
  if (i < n) y[i] = k * x[i] + y[i];
}
// exact
kernel void saxpy_stride(float k, global const float* x, global float* y, int n) {
  for (int i = get_global_id(0); i < n; i += get_global_size(0)) y[i] = k * x[i] + y[i];
}
// exact
kernel void scale4(global float4* x, float k) { x[get_global_id(0)] *= k; }
// exact
kernel void pairs(global const float* in, global float* out) {
  size_t i = get_global_id(0);
  out[2 * i] = in[i];
  out[2 * i + 1] = -in[i];
}
// exact
kernel void planes(global const float2* in, global float* out, int n) {
  int i = get_global_id(0);
  if (i < n) {
    out[i] = in[i].x;
    out[n + i] = in[i].y;
  }
}
// exact
kernel void reverse(global const float* in, global float* out, int n) {
  int i = get_global_id(0);
  if (i < n) out[n - 1 - i] = in[i];
}
// exact
kernel void matrix_vector(global const float* m, global const float* x, global float* y, int rows, int columns) {
  int r = get_global_id(0);
  if (r >= rows) return;
  float sum = 0;
  for (int c = 0; c < columns; c++) sum += m[r * columns + c] * x[c];
  y[r] = sum;
}
// exact
kernel void matrix_multiply(global const float* a, global const float* b, global float* c, int n, int m, int k) {
  int column = get_global_id(0), row = get_global_id(1);
  if (row >= n || column >= m) return;
  float sum = 0;
  for (int i = 0; i < k; i++) sum += a[row * k + i] * b[i * m + column];
  c[row * m + column] = sum;
}
// exact
kernel void matrix_multiply_plain(global const float* a, global const float* b, global float* c, int k) {
  size_t column = get_global_id(0), row = get_global_id(1), m = get_global_size(0);
  float sum = 0;
  for (int i = 0; i < k; i++) sum += a[row * k + i] * b[i * m + column];
  c[row * m + column] = sum;
}
#define TILE 8
// replicate: that its loop ends at n / TILE isn't understood
kernel void matrix_multiply_tiled(global const float* a, global const float* b, global float* c, int n) {
  local float of_a[TILE][TILE], of_b[TILE][TILE];
  int x = get_local_id(0), y = get_local_id(1);
  int column = get_group_id(0) * TILE + x, row = get_group_id(1) * TILE + y;
  float sum = 0;
  for (int t = 0; t < n / TILE; t++) {
    of_a[y][x] = a[row * n + t * TILE + x];
    of_b[y][x] = b[(t * TILE + y) * n + column];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < TILE; i++) sum += of_a[y][i] * of_b[i][x];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[row * n + column] = sum;
}
// exact
kernel void transpose(global const float* in, global float* out, int w, int h) {
  int x = get_global_id(0), y = get_global_id(1);
  if (x < w && y < h) out[x * h + y] = in[y * w + x];
}
// exact
kernel void transpose_tiled(global const float* in, global float* out, int w, int h) {
  local float tile[TILE][TILE + 1];
  int x = get_group_id(0) * TILE + get_local_id(0), y = get_group_id(1) * TILE + get_local_id(1);
  tile[get_local_id(1)][get_local_id(0)] = in[y * w + x];
  barrier(CLK_LOCAL_MEM_FENCE);
  int tx = get_group_id(1) * TILE + get_local_id(0), ty = get_group_id(0) * TILE + get_local_id(1);
  out[ty * h + tx] = tile[get_local_id(0)][get_local_id(1)];
}
// exact
kernel void lower_rows(global const float* in, global float* out, int n) {
  int r = get_global_id(0);
  if (r >= n) return;
  for (int c = 0; c <= r; c++) out[r * n + c] = in[r * n + c];
}
// exact
kernel void column_sums(global const float* m, global float* sums, int w, int h) {
  int x = get_global_id(0);
  if (x >= w) return;
  float sum = 0;
  for (int y = h - 1; y >= 0; y--) sum += m[y * w + x];
  sums[x] = sum;
}
// refuse
kernel void dot_all(global const float* a, global const float* b, global float* sum, int n) {
  float s = 0;
  for (int i = 0; i < n; i++) s += a[i] * b[i];
  sum[0] = s;
}
// exact
kernel void outer_product(global const float* a, global const float* b, global float* c) {
  c[get_global_id(1) * get_global_size(0) + get_global_id(0)] = a[get_global_id(1)] * b[get_global_id(0)];
}
