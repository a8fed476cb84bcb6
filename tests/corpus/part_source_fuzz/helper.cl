f:bs
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
size_t first(void);
size_t first() { return get_group_id(0) * get_local_size(0); }
kernel void f(global const float* restrict a, int n) { ((global float*)a)[first()] = n; }
