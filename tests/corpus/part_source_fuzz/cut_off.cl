f:b
#if __X
#define Y(a) a##__Z
#elif Y(1)
#endif
int x = "\