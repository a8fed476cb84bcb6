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

/* The kinds of error; the values are the exit codes of `weir`. 0 is success. */
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

/* The error of the call that it was passed to. A call that succeeds does not change it. */
typedef struct weir_client_error {
  uint32_t size; /* of this structure, in bytes; later versions are longer */
  int32_t code;
  char words[1016]; /* for people, zero-terminated: the attempted action, its result, and what to do */
} weir_client_error;
#define WEIR_CLIENT_ERROR_INIT \
  { sizeof(weir_client_error), 0, "" }

typedef struct weir_client weir_client; /* the service's address; no connection stays open */
typedef struct weir_client_run weir_client_run;

/* This node's weir-modules. NULL: $WEIR_RUN_DIR/modules.sock, else /run/weir/modules.sock. The service need not run
 * yet. */
weir_client* weir_client_open_node(const char* socket, weir_client_error* error);
/* A cluster: "gpu1:7710,gpu2:7710". The library finds the leading manager, also when the lead changes. `token`: the
 * text of a token's file, or NULL. */
weir_client* weir_client_open_managers(const char* managers, const char* token, weir_client_error* error);
/* Does not end runs. NULL does nothing. */
void weir_client_close(weir_client* client);
/* How long requests are repeated while no service answers; 60 s by default. In that time the service may restart, or
 * another manager may take the lead. */
void weir_client_set_patience(weir_client* client, double seconds);

/* Registers a shared object under a name. The same image again changes nothing; another image replaces it for later
 * runs. */
int weir_client_register(weir_client* client, const char* module, const void* image, uint64_t bytes,
                         weir_client_error* error);
/* Removes the name; runs that wait or run continue. */
int weir_client_remove(weir_client* client, const char* module, weir_client_error* error);
/* Calls `each` for every kernel of every module. Its texts are valid until `each` returns. */
int weir_client_list(weir_client* client,
                     void (*each)(void* own, const char* module, const char* kernel, const char* summary), void* own,
                     weir_client_error* error);

/* What to run. Except for the first three, fields that are 0 or NULL have no effect. */
typedef struct weir_client_order {
  uint32_t size; /* sizeof(weir_client_order) */
  uint32_t reserved;
  const char* module;
  const char* kernel;
  const char* arguments; /* in the kernel's own syntax */
  const void* input;     /* at most 64 MiB */
  uint64_t input_bytes;
  const char* device;    /* of a node: run only on this device */
  uint64_t memory_bytes; /* the device memory that the run needs; 0: as the module says */
  double alone_s;        /* duration of the run alone, from which the placement learns; 0: not known */
  double seconds_max;    /* limit of one attempt; 0: 60 */
  /* 1 to 64 of A-Z a-z 0-9 . _ -; an order that is repeated with its id starts no second run; NULL: a new id */
  const char* id;
} weir_client_order;
#define WEIR_CLIENT_ORDER_INIT \
  { sizeof(weir_client_order), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Submits the run and returns when the service has accepted it; the order is copied. NULL: it was not accepted. */
weir_client_run* weir_client_start(weir_client* client, const weir_client_order* order, weir_client_error* error);
/* Waits until the run is done or has failed, at most for `seconds`; below 0: without limit. Returns 0: it is over.
 * WEIR_CLIENT_TIMEOUT: it is still in progress. Another value: its state cannot be found out now. A node's service
 * that was restarted has lost its runs; the library then submits the run once more. */
int weir_client_wait(weir_client_run* run, double seconds, weir_client_error* error);

/* The result of a run. Its texts are valid until the run is closed. */
typedef struct weir_client_result {
  uint32_t size;     /* sizeof(weir_client_result); set it before the call */
  int32_t code;      /* 0: done; otherwise the kind of failure */
  const char* text;  /* the text that the kernel reported, or "" */
  const char* words; /* the reason of a failure, or "" */
  const char* device;
  const char* node; /* the node of a cluster's run, or "" */
  const char* id;
  double seconds;    /* duration of the last attempt */
  double ran_beside; /* the mean number of other runs on its device meanwhile */
  uint64_t attempts;
} weir_client_result;
#define WEIR_CLIENT_RESULT_INIT \
  { sizeof(weir_client_result), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* WEIR_CLIENT_BUSY: the run is not over; wait for it first. */
int weir_client_result_of(weir_client_run* run, weir_client_result* result, weir_client_error* error);
/* The run's output, valid until the run is closed; 0 bytes and NULL if there is none. The first call fetches it. */
int weir_client_output_of(weir_client_run* run, const void** output, uint64_t* bytes, weir_client_error* error);
/* Makes the service delete the run and its result, which it otherwise keeps. A run that is not over is ended. */
int weir_client_forget(weir_client_run* run, weir_client_error* error);
/* Frees this process's memory of the run; the run itself continues. NULL does nothing. */
void weir_client_run_close(weir_client_run* run);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_CLIENT_H */
