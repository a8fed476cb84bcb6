f:b
kernel void f(global int p[]) { ^{ }; }
