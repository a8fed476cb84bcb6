// SPDX-License-Identifier: Apache-2.0
// Work of an adjustable length for vulkan_compute.c.
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer Values { uint values[]; };
layout(push_constant) uniform Push { uint rounds; };

void main() {
  uint value = values[gl_GlobalInvocationID.x];
  for (uint i = 0; i < rounds; ++i) value = value * 1664525u + 1013904223u;
  values[gl_GlobalInvocationID.x] = value;
}
