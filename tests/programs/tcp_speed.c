/* SPDX-License-Identifier: Apache-2.0
 * What TCP itself does here: what scripts/bench-network compares with. Prints "bandwidth BYTES_PER_SECOND", of one
 * connection that carries N MiB after another, each acknowledged with a byte, and "round trip NS" of a byte each way.
 *
 *   tcp_speed [MIB]      over loopback, with a process of its own at the other end */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kRounds = 9, kPings = 3000 };

static void check(int good, const char* what) {
  if (good) return;
  perror(what);
  exit(2);
}

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void all(int fd, char* bytes, size_t n, int sends) {
  while (n > 0) {
    const ssize_t done = sends ? send(fd, bytes, n, MSG_NOSIGNAL) : recv(fd, bytes, n, 0);
    check(done > 0, sends ? "send" : "recv");
    bytes += done;
    n -= (size_t)done;
  }
}

int main(int argc, char** argv) {
  const size_t size = (size_t)(argc > 1 ? atoi(argv[1]) : 64) << 20;
  char* bytes = malloc(size);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof address;
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  check(bytes != NULL && listener >= 0, "starting");
  memset(bytes, 1, size);
  check(bind(listener, (struct sockaddr*)&address, length) == 0 && listen(listener, 1) == 0 &&
            getsockname(listener, (struct sockaddr*)&address, &length) == 0,
        "listening");
  const pid_t child = fork();
  check(child >= 0, "fork");
  const int one = 1;
  if (child == 0) {
    const int fd = accept(listener, NULL, NULL);
    check(fd >= 0, "accept");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (int i = 0; i < kPings; ++i) all(fd, bytes, 1, 0), all(fd, bytes, 1, 1);
    for (int i = 0; i < kRounds + 1; ++i) all(fd, bytes, size, 0), all(fd, bytes, 1, 1);
    return 0;
  }
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  check(fd >= 0 && connect(fd, (struct sockaddr*)&address, length) == 0, "connect");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  double begin = now_ns(), times[kRounds];
  for (int i = 0; i < kPings; ++i) all(fd, bytes, 1, 1), all(fd, bytes, 1, 0);
  printf("round trip %.0f\n", (now_ns() - begin) / kPings);
  for (int i = -1; i < kRounds; ++i) {
    begin = now_ns();
    all(fd, bytes, size, 1);
    all(fd, bytes, 1, 0);
    if (i >= 0) times[i] = now_ns() - begin;
  }
  qsort(times, kRounds, sizeof *times, by_value);
  printf("bandwidth %.0f\n", (double)size / times[kRounds / 2] * 1e9);
  wait(NULL);
  return 0;
}
