f:bl g:b
# 1 "<stdin>"
typedef struct __attribute__((packed)) { int a; } S;
constant S table[] = { { 1 }, { 2 } };
__kernel __attribute__((reqd_work_group_size(8, 1, 1))) void g(__global S* p) { p[get_global_linear_id()] = table[0]; }
kernel void f(global S *q, local int* l) {
#pragma unroll
  for (int i = 0; i < get_num_groups(0); i++) g(q);
}
