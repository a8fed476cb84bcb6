// SPDX-License-Identifier: Apache-2.0
// The verdict on each kernel is the comment before it (laws_test.cc).
// exact
kernel void stencil3(global const float* in, global float* out, int n) {
  int i = get_global_id(0);
  if (i > 0 && i < n - 1) out[i] = (in[i - 1] + in[i] + in[i + 1]) / 3;
}
// exact
kernel void stencil5(global const float* in, global float* out, int w, int h) {
  int x = get_global_id(0), y = get_global_id(1);
  if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
  out[y * w + x] = in[y * w + x] + in[y * w + x - 1] + in[y * w + x + 1] + in[(y - 1) * w + x] + in[(y + 1) * w + x];
}
// exact
kernel void stencil5_offset(global const float* in, global float* out, int w) {
  size_t x = get_global_id(0), y = get_global_id(1), i = y * w + x;
  out[i] = in[i] + in[i - 1] + in[i + 1] + in[i - w] + in[i + w];
}
// exact
kernel void stencil7(global const float* in, global float* out, int w, int h, int d) {
  int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
  if (x < 1 || y < 1 || z < 1 || x >= w - 1 || y >= h - 1 || z >= d - 1) return;
  int i = (z * h + y) * w + x;
  out[i] = in[i] + in[i - 1] + in[i + 1] + in[i - w] + in[i + w] + in[i - w * h] + in[i + w * h];
}
// exact
kernel void stencil_in_place(global float* a, int n) {
  int i = get_global_id(0);
  if (i > 0 && i < n) a[i] = a[i - 1] + 1;
}
// guarded
kernel void blur_clamped(global const float* in, global float* out, int w, int h) {
  int x = get_global_id(0), y = get_global_id(1);
  if (x >= w || y >= h) return;
  float sum = 0;
  for (int dy = -1; dy <= 1; dy++)
    for (int dx = -1; dx <= 1; dx++) sum += in[clamp(y + dy, 0, h - 1) * w + clamp(x + dx, 0, w - 1)];
  out[y * w + x] = sum / 9;
}
// exact
kernel void blur_columns(global const float* in, global float* out, int w, int h, int r) {
  int x = get_global_id(0), y = get_global_id(1);
  if (x >= w || y < r || y >= h - r) return;
  float sum = 0;
  for (int d = -r; d <= r; d++) sum += in[(y + d) * w + x];
  out[y * w + x] = sum;
}
// guarded
kernel void blur_wrapped(global const float* in, global float* out, int n) {
  int i = get_global_id(0);
  if (i < n) out[i] = in[(i + 1) % n] + in[(i + n - 1) % n];
}
// exact
kernel void convolve(global const float* in, constant float* mask, global float* out, int n, int m) {
  int i = get_global_id(0);
  if (i >= n) return;
  float sum = 0;
  for (int j = 0; j < m; j++) sum += in[i + j] * mask[j];
  out[i] = sum;
}
// exact
kernel void grey(global const uchar4* in, global uchar* out) {
  size_t i = get_global_id(1) * get_global_size(0) + get_global_id(0);
  uchar4 p = in[i];
  out[i] = (uchar)((p.x + p.y + p.z) / 3);
}
// exact
kernel void invert(global const uchar* in, global uchar* out, int2 size) {
  int x = get_global_id(0), y = get_global_id(1);
  if (x < size.x && y < size.y) out[y * size.x + x] = 255 - in[y * size.x + x];
}
// exact
kernel void halve(global const float* in, global float* out, int w) {
  int x = get_global_id(0), y = get_global_id(1);
  if (x >= w) return;
  int from = 2 * y * 2 * w + 2 * x;
  out[y * w + x] = (in[from] + in[from + 1] + in[from + 2 * w] + in[from + 2 * w + 1]) / 4;
}
// exact
kernel void flip(global const float* in, global float* out, int w, int h) {
  int x = get_global_id(0), y = get_global_id(1);
  if (x < w && y < h) out[(h - 1 - y) * w + x] = in[y * w + x];
}
// exact
kernel void from_one_dimension(global const float* in, global float* out, int w) {
  int i = get_global_id(0), y = i / w, x = i % w;
  out[y * w + x] = in[i];
}
// guarded
kernel void rows_of_one_dimension(global const float* bias, global float* out, int w) {
  int i = get_global_id(0);
  out[i] = bias[i / w];
}
// exact
kernel void n_body(global const float4* at, global float4* force, int n) {
  int i = get_global_id(0);
  if (i >= n) return;
  float4 sum = 0;
  for (int j = 0; j < n; j++) sum += at[j] - at[i];
  force[i] = sum;
}
// exact
kernel void n_body_tiled(global const float4* at, global float4* force, local float4* tile, int n) {
  int i = get_global_id(0), l = get_local_id(0), size = get_local_size(0);
  float4 mine = at[i], sum = 0;
  for (int first = 0; first < n; first += size) {
    tile[l] = at[first + l];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = 0; j < size; j++) sum += tile[j] - mine;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  force[i] = sum;
}
typedef struct { int w, h; float k, pad[3]; } Frame;
// exact
kernel void n_body_step(global float4* at, global const float4* force, Frame frame) {
  int i = get_global_id(0);
  if (i < frame.w * frame.h) at[i] += force[i] * frame.k;
}
// exact
kernel void load_vectors(global const float* in, global float* out) {
  size_t i = get_global_id(0);
  vstore4(vload4(i, in) * 2.0f, i, out);
}
// exact
kernel void walk_pointer(global const float* in, global float* out, int w) {
  size_t i = get_global_id(0);
  global const float* p = in + i * w;
  float sum = 0;
  for (int k = 0; k < w; k++) sum += *p++;
  out[i] = sum;
}
// exact
kernel void group_copy(global const float* in, global float* out, local float* part) {
  event_t e = async_work_group_copy(part, in + get_group_id(0) * get_local_size(0), get_local_size(0), 0);
  wait_group_events(1, &e);
  out[get_global_id(0)] = part[get_local_id(0)];
}
// exact
kernel void life(global const uchar* in, global uchar* out, int w, int h) {
  int x = get_global_id(0), y = get_global_id(1);
  if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
  int n = 0;
  for (int dy = -1; dy <= 1; dy++)
    for (int dx = -1; dx <= 1; dx++) n += in[(y + dy) * w + x + dx];
  out[y * w + x] = n == 3;
}
// exact
kernel void fill_border(global float* out, int w, int h) {
  int x = get_global_id(0);
  if (x < w) {
    out[x] = 0;
    out[(h - 1) * w + x] = 0;
  }
}
// guarded
kernel void mandelbrot(global int* out, int w, int most) {
  int x = get_global_id(0), y = get_global_id(1), k = 0;
  float a = 0, b = 0;
  while (k < most && a * a + b * b < 4) {
    float c = a * a - b * b + x * 0.01f;
    b = 2 * a * b + y * 0.01f;
    a = c;
    k++;
  }
  if (k < most) out[y * w + x] = k;
}
