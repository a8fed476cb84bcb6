/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of modules' kernels from a C program: registers modules, hands runs in, waits for them, brings their results.
 * Over the service API of a node's weir-modules or of a cluster's managers. Version 1; only added to. Page:
 * docs/modules.md
 *
 *   #include <weir/client.h>
 *   weir_client_error error = WEIR_CLIENT_ERROR_INIT;
 *   weir_client* client = weir_client_open_node(NULL, &error);
 *   weir_client_order order = WEIR_CLIENT_ORDER_INIT;
 *   order.module = "sort";
 *   order.kernel = "sorting-network";
 *   weir_client_run* run = client ? weir_client_start(client, &order, &error) : NULL;
 *   if (run == NULL || weir_client_wait(run, -1, &error) != 0) fprintf(stderr, "%s\n", error.words);
 *
 *   cc program.c -lweir-client
 *
 * Every function may be called from any thread at any time, also for one handle, but for those that close it. None
 * throws, none ends the process, none touches signals. Where one takes an `error`, it may be NULL. Texts are UTF-8.
 */
#ifndef WEIR_CLIENT_H
#define WEIR_CLIENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong: what `weir` exits with for the same. 0 is success. */
enum {
  WEIR_CLIENT_OK = 0,
  WEIR_CLIENT_INVALID_ARGUMENT = 2,
  WEIR_CLIENT_NOT_FOUND = 3,
  WEIR_CLIENT_ALREADY_EXISTS = 4,
  WEIR_CLIENT_BUSY = 5,
  WEIR_CLIENT_PERMISSION_DENIED = 6,
  WEIR_CLIENT_RESOURCE_EXHAUSTED = 7,
  WEIR_CLIENT_UNAVAILABLE = 8,
  WEIR_CLIENT_PROTOCOL = 9,
  WEIR_CLIENT_VERSION_MISMATCH = 10,
  WEIR_CLIENT_TIMEOUT = 11,
  WEIR_CLIENT_IO = 12,
  WEIR_CLIENT_INTERNAL = 70
};

/* Of the call that it was given to; a call that succeeds leaves it as it is. */
typedef struct weir_client_error {
  uint32_t size; /* of this structure, in bytes; later versions are longer */
  int32_t code;
  char words[1016]; /* for people, ended by a zero: what was attempted, what became of it, what to do */
} weir_client_error;
#define WEIR_CLIENT_ERROR_INIT \
  { sizeof(weir_client_error), 0, "" }

typedef struct weir_client weir_client; /* somebody to ask; no connection stays open */
typedef struct weir_client_run weir_client_run;

/* This node's weir-modules. NULL: $WEIR_RUN_DIR/modules.sock, else /run/weir/modules.sock. Nobody need be there yet. */
weir_client* weir_client_open_node(const char* socket, weir_client_error* error);
/* A cluster: "gpu1:7710,gpu2:7710"; whoever leads is found, also while another one takes over. `token`: the text, or
 * NULL. */
weir_client* weir_client_open_managers(const char* managers, const char* token, weir_client_error* error);
/* Runs may outlive it. NULL does nothing. */
void weir_client_close(weir_client* client);
/* For how long a service that is away is asked again, 60 s at first: it may be started again, or another one may lead.
 */
void weir_client_set_patience(weir_client* client, double seconds);

/* A shared object under a name; the same again changes nothing, another one replaces it for later runs. */
int weir_client_register(weir_client* client, const char* module, const void* image, uint64_t bytes,
                         weir_client_error* error);
/* Takes the name away; runs that wait or run go on. */
int weir_client_remove(weir_client* client, const char* module, weir_client_error* error);
/* Calls `each` for every kernel of every module; texts are valid until it returns. */
int weir_client_list(weir_client* client,
                     void (*each)(void* own, const char* module, const char* kernel, const char* summary), void* own,
                     weir_client_error* error);

/* What to run. Fields that are 0 or NULL say nothing, but for the first three. */
typedef struct weir_client_order {
  uint32_t size; /* of this structure */
  uint32_t reserved;
  const char* module;
  const char* kernel;
  const char* arguments; /* as the kernel takes them */
  const void* input;     /* 64 MiB at most */
  uint64_t input_bytes;
  const char* device;    /* of a node: on this one and no other */
  uint64_t memory_bytes; /* that it needs of a device; 0: as the module says */
  double alone_s;        /* that it takes alone, for the placement to learn from; 0: not known */
  double seconds_max;    /* of an attempt; 0: 60 */
  const char* id; /* 1 to 64 of A-Z a-z 0-9 . _ -: the same id and order are the same run; NULL: one of its own */
} weir_client_order;
#define WEIR_CLIENT_ORDER_INIT \
  { sizeof(weir_client_order), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Hands it in, and returns when it is taken; its order is copied. NULL: it was not. */
weir_client_run* weir_client_start(weir_client* client, const weir_client_order* order, weir_client_error* error);
/* Until it is over, done or failed, or for so many seconds; below 0: for ever. 0: it is over. WEIR_CLIENT_TIMEOUT: it
 * goes on. Another: it can't be said now how it stands. A node's service that was started again has forgotten its runs;
 * then it is handed in once more. */
int weir_client_wait(weir_client_run* run, double seconds, weir_client_error* error);

/* How it ended; texts are valid until the run is closed. */
typedef struct weir_client_result {
  uint32_t size;     /* of this structure; set it before the call */
  int32_t code;      /* 0: done; else how it failed */
  const char* text;  /* what it said, or "" */
  const char* words; /* of a failed one: why; else "" */
  const char* device;
  const char* node; /* of a cluster's run; else "" */
  const char* id;
  double seconds;    /* of its last attempt */
  double ran_beside; /* others on its device, on the mean */
  uint64_t attempts;
} weir_client_result;
#define WEIR_CLIENT_RESULT_INIT \
  { sizeof(weir_client_result), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* WEIR_CLIENT_BUSY: it is not over, wait for it first. */
int weir_client_result_of(weir_client_run* run, weir_client_result* result, weir_client_error* error);
/* What it put out, valid until the run is closed; 0 bytes and NULL for nothing. Fetched the first time. */
int weir_client_output_of(weir_client_run* run, const void** output, uint64_t* bytes, weir_client_error* error);
/* The service forgets it and its result; one that is not over is ended. Until then results are kept there. */
int weir_client_forget(weir_client_run* run, weir_client_error* error);
/* Frees what this process has of it; the run itself goes on. NULL does nothing. */
void weir_client_run_close(weir_client_run* run);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_CLIENT_H */
