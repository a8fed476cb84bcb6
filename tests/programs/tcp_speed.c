/* SPDX-License-Identifier: Apache-2.0
 * The speed of TCP itself, with which scripts/bench-network compares. Prints "round trip NS" of one byte each way, and
 * "bandwidth BYTES_PER_SECOND" and "bandwidth back BYTES_PER_SECOND" of one connection that sends pieces of N MiB
 * there, each acknowledged by a byte, and back, each requested by a byte.
 *
 *   tcp_speed [MIB]                                over loopback, to a second process that it starts
 *   tcp_speed --serve ADDRESS PORT                 the other end, until it is killed; PORT 0 is any, and printed
 *   tcp_speed --to ADDRESS PORT [MIB [PINGS]]      to such a server */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kRounds = 9, kPings = 3000 };

struct plan {
  uint64_t bytes, pings;
};

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

static void all(int fd, void* bytes, size_t n, int sends) {
  for (char* at = bytes; n > 0;) {
    const ssize_t done = sends ? send(fd, at, n, MSG_NOSIGNAL) : recv(fd, at, n, 0);
    check(done > 0, sends ? "send" : "recv");
    at += done;
    n -= (size_t)done;
  }
}

static char* filled(size_t size) {
  char* bytes = malloc(size);
  check(bytes != NULL, "malloc");
  memset(bytes, 1, size);
  return bytes;
}

static struct sockaddr_in address_of(const char* text, const char* port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
  check(inet_pton(AF_INET, text, &address.sin_addr) == 1, text);
  return address;
}

static int listen_at(struct sockaddr_in* address) {
  socklen_t length = sizeof *address;
  const int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  check(bind(listener, (struct sockaddr*)address, length) == 0 && listen(listener, 1) == 0 &&
            getsockname(listener, (struct sockaddr*)address, &length) == 0,
        "listening");
  return listener;
}

static void serve_one(int fd) {
  const int one = 1;
  struct plan plan;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  all(fd, &plan, sizeof plan, 0);
  char* bytes = filled(plan.bytes);
  for (uint64_t i = 0; i < plan.pings; ++i) all(fd, bytes, 1, 0), all(fd, bytes, 1, 1);
  for (int i = 0; i < kRounds + 1; ++i) all(fd, bytes, plan.bytes, 0), all(fd, bytes, 1, 1);
  for (int i = 0; i < kRounds + 1; ++i) all(fd, bytes, 1, 0), all(fd, bytes, plan.bytes, 1);
}

static void measure(const struct sockaddr_in* address, struct plan plan) {
  char* bytes = filled(plan.bytes);
  const int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  check(fd >= 0 && connect(fd, (const struct sockaddr*)address, sizeof *address) == 0, "connect");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  all(fd, &plan, sizeof plan, 1);
  double begin = now_ns(), times[kRounds];
  for (uint64_t i = 0; i < plan.pings; ++i) all(fd, bytes, 1, 1), all(fd, bytes, 1, 0);
  printf("round trip %.0f\n", (now_ns() - begin) / (double)plan.pings);
  for (int back = 0; back < 2; ++back) {
    for (int i = -1; i < kRounds; ++i) {
      begin = now_ns();
      all(fd, bytes, back ? 1 : plan.bytes, 1);
      all(fd, bytes, back ? plan.bytes : 1, 0);
      if (i >= 0) times[i] = now_ns() - begin;
    }
    qsort(times, kRounds, sizeof *times, by_value);
    printf("bandwidth%s %.0f\n", back ? " back" : "", (double)plan.bytes / times[kRounds / 2] * 1e9);
  }
}

int main(int argc, char** argv) {
  if (argc == 4 && strcmp(argv[1], "--serve") == 0) {
    struct sockaddr_in address = address_of(argv[2], argv[3]);
    const int listener = listen_at(&address);
    printf("port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    signal(SIGCHLD, SIG_IGN);
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; close(fd))
      if (fork() == 0) return serve_one(fd), 0;
    check(0, "accept");
  }
  const int to = argc >= 4 && strcmp(argv[1], "--to") == 0, first = to ? 4 : 1;
  const struct plan plan = {(uint64_t)(argc > first ? atoi(argv[first]) : 64) << 20,
                            (uint64_t)(argc > first + 1 ? atoi(argv[first + 1]) : kPings)};
  if (to) {
    const struct sockaddr_in address = address_of(argv[2], argv[3]);
    return measure(&address, plan), 0;
  }
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  const int listener = listen_at(&address);
  const pid_t child = fork();
  check(child >= 0, "fork");
  if (child == 0) return serve_one(accept(listener, NULL, NULL)), 0;
  measure(&address, plan);
  wait(NULL);
  return 0;
}
