// SPDX-License-Identifier: Apache-2.0
// Slurm's plugin: a job with shares (srun --gres=vgpu:1 PROGRAM) runs as a tenant of its own vGPU.
//
//   a step begins   weir-engine-driver --job ID    makes the job's vGPU unless it exists, and prints its name
//                   weir vgpu env NAME             prints the variables that make a program its tenant, for the step
//   the job ends    weir vgpu rm NAME              (if this fails, the engine driver removes the vGPU)
//
// In plugstack.conf: required /usr/lib/x86_64-linux-gnu/weir/spank_weir.so shares=8 licence=vgpu
// With `optional` instead, a job continues without a vGPU if the node's daemon does not run. Other arguments: driver=,
// weir= (the two programs), socket=, device=, prefix=, node=.
//
// Both programs run as root, like slurmstepd, and get nothing of the job's environment.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <slurm/spank.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "drivers/spank/step_environment.h"

SPANK_PLUGIN(weir, 1)

enum {
  kFailed = -1,  // Slurm treats only negative values as failures
  kArgumentsMax = 24,
  kPatienceMs = 20000,    // for each program
  kSaidBytesMax = 16384,  // limit of a reply
  kWhyBytesMax = 400,     // part of an error that the user sees
  kNameBytesMax = 63,     // of a vGPU
};

struct settings {
  const char *driver, *weir, *shares, *licence, *socket, *device, *prefix, *node;
};

static bool take(const char* argument, const char* key, const char** value) {
  const size_t length = strlen(key);
  if (strncmp(argument, key, length) != 0 || argument[length] != '=' || argument[length + 1] == '\0') return false;
  *value = argument + length + 1;
  return true;
}

static bool read_settings(int count, char** arguments, struct settings* settings) {
  *settings = (struct settings){.driver = "/usr/bin/weir-engine-driver",
                                .weir = "/usr/bin/weir",
                                .shares = "8",
                                .licence = "vgpu",
                                .prefix = "slurm"};
  for (int i = 0; i < count; ++i) {
    const char* argument = arguments[i];
    if (take(argument, "driver", &settings->driver) || take(argument, "weir", &settings->weir) ||
        take(argument, "shares", &settings->shares) || take(argument, "licence", &settings->licence) ||
        take(argument, "socket", &settings->socket) || take(argument, "device", &settings->device) ||
        take(argument, "prefix", &settings->prefix) || take(argument, "node", &settings->node))
      continue;
    slurm_error("weir: plugstack.conf: unknown argument '%s'", argument);
    return false;
  }
  return true;
}

static long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000L + t.tv_nsec / 1000000L;
}

/// Reads until the other end is closed. False: it took too long or was too long.
static bool read_said(int fd, char* said, size_t size) {
  const long deadline = now_ms() + kPatienceMs;
  size_t used = 0;
  for (;;) {
    struct pollfd waited = {.fd = fd, .events = POLLIN};
    const long left = deadline - now_ms();
    if (left <= 0) return false;
    const int ready = poll(&waited, 1, (int)left);
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    const ssize_t n = read(fd, said + used, size - 1 - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    used += (size_t)n;
    said[used] = '\0';
    if (n == 0) return true;
    if (used == size - 1) return false;
  }
}

/// Runs a program and stores its output in `said`. With `complain`, the program's errors go to Slurm's log and thus to
/// the user.
static bool run(char* const argv[], char* said, size_t size, bool complain) {
  char conf[4200];
  char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  char* environment[] = {path, NULL, NULL};
  const char* conf_path = getenv("SLURM_CONF");  // slurmstepd's own value, from slurmd
  if (conf_path != NULL && (size_t)snprintf(conf, sizeof conf, "SLURM_CONF=%s", conf_path) < sizeof conf)
    environment[1] = conf;

  said[0] = '\0';
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  const int why = memfd_create("weir-why", MFD_CLOEXEC);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, why, STDERR_FILENO);
  pid_t child = -1;
  const int error = posix_spawn(&child, argv[0], &actions, NULL, argv, environment);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  bool well = false;
  if (error != 0) {
    slurm_error("weir: cannot run %s: %s", argv[0], strerror(error));
  } else {
    const bool ended = read_said(ends[0], said, size);
    if (!ended) kill(child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    well = ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!well && complain) {
      char text[kWhyBytesMax + 1];
      const ssize_t n = pread(why, text, kWhyBytesMax, 0);
      text[n > 0 ? n : 0] = '\0';
      slurm_error("weir: %s %s", argv[0], ended ? "failed:" : "did not answer in time");
      slurm_spank_log("weir: %s", text);
    }
  }
  close(ends[0]);
  close(why);
  return well;
}

/// Checks that the driver has printed a vGPU's name and a line end; removes the line end.
static bool is_name(char* said) {
  const size_t length = strcspn(said, "\n");
  if (length == 0 || length > kNameBytesMax || strcmp(said + length, "\n") != 0) return false;
  said[length] = '\0';
  return strspn(said, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

/// Sets NAME=VALUE lines in the step's environment, joined with the step's own.
static bool set_environment(spank_t spank, char* said) {
  for (char *line = said, *end; *line != '\0'; line = end + 1) {
    end = strchr(line, '\n');
    char* value = strchr(line, '=');
    if (end == NULL || value == NULL || value > end || value == line) return false;
    *end = '\0';
    *value++ = '\0';
    char steps[kSaidBytesMax], joined[2 * kSaidBytesMax];
    if (spank_getenv(spank, line, steps, sizeof steps) != ESPANK_SUCCESS) steps[0] = '\0';
    if (spank_setenv(spank, line, joined_value(line, value, steps, joined, sizeof joined), 1) != ESPANK_SUCCESS)
      return false;
  }
  return true;
}

static char** append(char** at, const char* option, const char* value) {
  if (value == NULL) return at;
  *at++ = (char*)option;
  *at++ = (char*)value;
  return at;
}

int slurm_spank_init_post_opt(spank_t spank, int count, char** arguments) {
  if (spank_remote(spank) != 1) return ESPANK_SUCCESS;
  struct settings settings;
  if (!read_settings(count, arguments, &settings)) return kFailed;
  uint32_t job_id = 0;
  if (spank_get_item(spank, S_JOB_ID, &job_id) != ESPANK_SUCCESS) return kFailed;
  char job[16];
  snprintf(job, sizeof job, "%u", job_id);

  char name[kSaidBytesMax];
  char* make[kArgumentsMax] = {(char*)settings.driver, (char*)"--engine", (char*)"slurm", (char*)"--job", job};
  char** at = make + 5;
  at = append(at, "--shares", settings.shares);
  at = append(at, "--licence", settings.licence);
  at = append(at, "--prefix", settings.prefix);
  at = append(at, "--socket", settings.socket);
  at = append(at, "--device", settings.device);
  at = append(at, "--slurm-node", settings.node);
  *at = NULL;
  if (!run(make, name, sizeof name, true)) return kFailed;
  if (name[0] == '\0') return ESPANK_SUCCESS;  // a job without shares
  if (!is_name(name)) {
    slurm_error("weir: %s did not print a vGPU's name", settings.driver);
    return kFailed;
  }

  char said[kSaidBytesMax];
  char* ask[kArgumentsMax] = {(char*)settings.weir, (char*)"vgpu", (char*)"env", name};
  *append(ask + 4, "--socket", settings.socket) = NULL;
  if (!run(ask, said, sizeof said, true)) return kFailed;
  if (!set_environment(spank, said)) {
    slurm_error("weir: %s did not print an environment", settings.weir);
    return kFailed;
  }
  return ESPANK_SUCCESS;
}

int slurm_spank_job_epilog(spank_t spank, int count, char** arguments) {
  struct settings settings;
  uint32_t job_id = 0;
  if (!read_settings(count, arguments, &settings)) return ESPANK_SUCCESS;  // a failing epilog would drain the node
  if (spank_get_item(spank, S_JOB_ID, &job_id) != ESPANK_SUCCESS) return ESPANK_SUCCESS;
  char name[kNameBytesMax + 1], said[kSaidBytesMax];
  if ((size_t)snprintf(name, sizeof name, "%s-%u", settings.prefix, job_id) >= sizeof name) return ESPANK_SUCCESS;
  char* removal[kArgumentsMax] = {(char*)settings.weir, (char*)"vgpu", (char*)"rm", name};
  *append(removal + 4, "--socket", settings.socket) = NULL;
  run(removal, said, sizeof said, false);
  return ESPANK_SUCCESS;
}
