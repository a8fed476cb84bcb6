/* SPDX-License-Identifier: Apache-2.0
 * Cases of probe.c about the process: threads, forks, errno, descriptors, signals, cancellation, and every way to end.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/shim/probe.h"

static void* present_often(void* swap) {
  for (int i = 0; i < 1000; ++i) ((swap_function)swap)(NULL, 1);
  return NULL;
}
void threads(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  swap_function swap = swap_of(gl);
  pthread_t all[8];
  for (int i = 0; i < 8; ++i) EXPECT(pthread_create(&all[i], NULL, present_often, (void*)swap) == 0);
  for (int i = 0; i < 8; ++i) pthread_join(all[i], NULL);
  EXPECT(swaps_of(gl, "weir_fake_swaps") == 8000);
}

/* Parent and child present until stdin ends. */
void forks(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  swap_function swap = swap_of(gl);
  swap(NULL, 1);
  const pid_t child = fork();
  char byte;
  do {
    swap(NULL, 1);
    usleep(1000);
  } while (read(STDIN_FILENO, &byte, 1) < 0); /* it doesn't block; 0 is its end */
  if (child == 0) _exit(failures);
  int status = 1;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(status == 0);
}

void error_number(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  errno = 4321;
  const swap_function swap = swap_of(gl);
  glx_make_current_function make_current;
  void (*flush)(void);
  *(void**)&make_current = dlsym(gl, "glXMakeCurrent");
  *(void**)&flush = dlsym(gl, "glFlush");
  EXPECT(errno == 4321);
  make_current(NULL, 7, CONTEXT_SINGLE);
  EXPECT(errno == 4321);
  for (int i = 0; i < 3; ++i) {
    swap(NULL, 1);
    EXPECT(errno == 4321);
    flush();
    EXPECT(errno == 4321);
  }
}

void environment(void) {
  char before[16384], after[16384];
  for (int i = 0; i < 2; ++i) {
    size_t used = 0;
    char* text = i == 0 ? before : after;
    for (char** variable = environ; *variable != NULL; ++variable)
      used += (size_t)snprintf(text + used, sizeof before - used, "%s\n", *variable);
    if (i == 0) handle();
  }
  EXPECT(strcmp(before, after) == 0);
}

void descriptors(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  const swap_function swap = swap_of(gl);
  const int out = fcntl(STDOUT_FILENO, F_DUPFD, 100);
  int inherited[256];
  for (int fd = 3; fd < 256; ++fd) inherited[fd] = fcntl(fd, F_GETFD) >= 0;
  for (int fd = 0; fd < 3; ++fd) close(fd);
  for (int i = 0; i < 3; ++i) swap(NULL, 1);
  for (int fd = 0; fd < 3; ++fd) EXPECT(fcntl(fd, F_GETFD) < 0); /* what is written to stderr goes nowhere of ours */
  EXPECT(dup2(out, STDOUT_FILENO) == STDOUT_FILENO);
  for (int fd = 3; fd < 256; ++fd)
    if (!inherited[fd]) EXPECT(fcntl(fd, F_GETFD) < 0 || (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
}

static volatile sig_atomic_t ticks;
static void tick(int number) {
  (void)number;
  ++ticks;
}
static void* next_signal(void* gl) { /* in a thread, with its own mask */
  const swap_function swap = swap_of(gl);
  sigset_t before, after;
  struct sigaction actions_before[NSIG], actions_after[NSIG];
  memset(actions_before, 0, sizeof actions_before);
  memset(actions_after, 0, sizeof actions_after);
  for (int i = 1; i < NSIG; ++i) sigaction(i, NULL, &actions_before[i]);
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  unsigned long presented = 0;
  while (ticks < 30) {
    swap(NULL, 1);
    ++presented;
  }
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  for (int i = 1; i < NSIG; ++i) {
    sigaction(i, NULL, &actions_after[i]);
    EXPECT(actions_before[i].sa_handler == actions_after[i].sa_handler);
    EXPECT(sigismember(&before, i) == sigismember(&after, i));
  }
  EXPECT(swaps_of(gl, "weir_fake_swaps") == presented);
  return NULL;
}
void signals(void) {
  struct sigaction action = {.sa_handler = tick}; /* without SA_RESTART */
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &often, NULL);
  next_signal(open_library("WEIR_FAKE_GL"));
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
}

typedef void (*then_function)(void);
static void on_swap(void* gl, then_function then) {
  void (*set)(then_function);
  FIND(set, gl, "weir_fake_on_swap", 0);
  set(then);
}

/* The driver's present is left by longjmp, as by an X error handler. */
static jmp_buf back;
static void leave_swap(void) { longjmp(back, 1); }
void longjmps(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  const swap_function swap = swap_of(gl);
  on_swap(gl, leave_swap);
  for (volatile int i = 0; i < 20; ++i)
    if (setjmp(back) == 0) swap(NULL, 1);
  on_swap(gl, NULL);
  for (int i = 0; i < 3; ++i) swap(NULL, 1);
  EXPECT(swaps_of(gl, "weir_fake_swaps") == 23);
}

static void wait_for_ever(void) {
  for (;;) pause();
}
static void* present_once(void* swap) {
  ((swap_function)swap)(NULL, 1);
  return NULL;
}
static _Atomic int returned;
static void* present_with_a_cancellation_pending(void* swap) {
  pthread_cancel(pthread_self());
  ((swap_function)swap)(NULL, 1); /* neither the shim nor this driver is a place to be cancelled */
  returned = 1;
  pthread_testcancel();
  returned = 2;
  return NULL;
}
void cancels(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  const swap_function swap = swap_of(gl);
  pthread_t thread;
  void* result = NULL;
  EXPECT(pthread_create(&thread, NULL, present_with_a_cancellation_pending, (void*)swap) == 0);
  pthread_join(thread, &result);
  EXPECT(result == PTHREAD_CANCELED && returned == 1);
  on_swap(gl, wait_for_ever);
  EXPECT(pthread_create(&thread, NULL, present_once, (void*)swap) == 0);
  while (swaps_of(gl, "weir_fake_swaps") < 2) usleep(100);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  EXPECT(result == PTHREAD_CANCELED);
  on_swap(gl, NULL);
  for (int i = 0; i < 2; ++i) swap(NULL, 1);
  EXPECT(swaps_of(gl, "weir_fake_swaps") == 4);
}

static swap_function last_swap;
static void present_at_exit(void) {
  for (int i = 0; i < 2; ++i) last_swap(NULL, 1);
  write(STDOUT_FILENO, "presented\n", 10);
}
static void exit_in_handler(int number) {
  (void)number;
  exit(7);
}
static void exit_at_once_in_handler(int number) {
  (void)number;
  _exit(8);
}
static void raise_term(void) { raise(SIGTERM); }

/* WEIR_PROBE_END says how the program ends; a thread of its still presents. */
void ends(void) {
  const char* how = getenv("WEIR_PROBE_END");
  void* gl = open_library("WEIR_FAKE_GL");
  last_swap = swap_of(gl);
  last_swap(NULL, 1);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, present_often, (void*)last_swap) == 0);
  atexit(present_at_exit);
  at_quick_exit(present_at_exit);
  if (strcmp(how, "return") == 0) return;
  if (strcmp(how, "exit") == 0) exit(3);
  if (strcmp(how, "_exit") == 0) _exit(4);
  if (strcmp(how, "quick_exit") == 0) quick_exit(5);
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "pthread_exit") == 0) pthread_exit(NULL);
  signal(SIGTERM, strcmp(how, "exit in a handler") == 0 ? exit_in_handler : exit_at_once_in_handler);
  pthread_join(thread, NULL);
  on_swap(gl, raise_term);
  last_swap(NULL, 1);
}

/* The gate is paused: a thread waits there for ever, and the program ends nevertheless. */
void ends_while_waiting(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, present_once, (void*)swap_of(gl)) == 0);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) < 0) usleep(1000);
}

void execs(void) {
  handle();
  if (failures == 0) execl("/proc/self/exe", "probe", "handle", (char*)NULL);
  EXPECT(0 && "exec works");
}
