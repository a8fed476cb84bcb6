f:b
int f(a) int a; { }
