/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers a module and runs one of its kernels in several threads at once, with libweir-client.
 *
 *   example SOCKET|HOST:PORT,... MODULE FILE KERNEL ARGUMENTS RUNS
 *
 * If RUN_INPUT is set in the environment, every run has that text as its input, and its output is printed. The exit
 * status is the code of the first error.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/client.h>

typedef struct job {
  weir_client* client;
  weir_client_order order;
  int code;
} job;

static int complain(const char* what, const weir_client_error* error) {
  fprintf(stderr, "example: %s: %s\n", what, error->words);
  return error->code;
}

static int run_one(const job* mine) {
  weir_client_error error = WEIR_CLIENT_ERROR_INIT;
  weir_client_result result = WEIR_CLIENT_RESULT_INIT;
  weir_client_run* run = weir_client_start(mine->client, &mine->order, &error);
  if (run == NULL) return complain("handing it in", &error);
  int code = weir_client_wait(run, -1, &error);
  if (code == 0) code = weir_client_result_of(run, &result, &error);
  if (code != 0) complain("waiting for it", &error);
  if (code == 0 && result.code != 0) {
    fprintf(stderr, "example: %s\n", result.words);
    code = result.code;
  } else if (code == 0) {
    const void* output = NULL;
    uint64_t bytes = 0;
    code = weir_client_output_of(run, &output, &bytes, &error);
    if (code != 0) complain("fetching its output", &error);
    printf("%s on %s, attempt %llu, %llu bytes: %.*s\n", result.text, result.device,
           (unsigned long long)result.attempts, (unsigned long long)bytes, mine->order.input ? (int)bytes : 0,
           output ? (const char*)output : "");
  }
  if (weir_client_forget(run, &error) != 0) complain("forgetting it", &error);
  weir_client_run_close(run);
  return code;
}

static void* in_thread(void* argument) {
  job* mine = argument;
  mine->code = run_one(mine);
  return NULL;
}

static void print_kernel(void* own, const char* module, const char* kernel, const char* summary) {
  (void)summary;
  fprintf(own, "kernel %s of %s\n", kernel, module);
}

static int register_file(weir_client* client, const char* name, const char* path) {
  static char image[8 << 20];
  FILE* file = fopen(path, "rb");
  if (file == NULL) return perror(path), WEIR_CLIENT_NOT_FOUND;
  const size_t bytes = fread(image, 1, sizeof image, file);
  fclose(file);
  weir_client_error error = WEIR_CLIENT_ERROR_INIT;
  return weir_client_register(client, name, image, bytes, &error) == 0 ? 0 : complain(path, &error);
}

int main(int argc, char** argv) {
  enum { kJobsMax = 64 };
  if (argc != 7) return fprintf(stderr, "usage: %s SOCKET MODULE FILE KERNEL ARGUMENTS RUNS\n", argv[0]), 2;
  weir_client_error error = WEIR_CLIENT_ERROR_INIT;
  weir_client* client = argv[1][0] == '/' ? weir_client_open_node(argv[1], &error)
                                          : weir_client_open_managers(argv[1], getenv("TOKEN"), &error);
  if (client == NULL) return complain(argv[1], &error);
  weir_client_set_patience(client, 5);
  int code = register_file(client, argv[2], argv[3]);
  if (code == 0) code = weir_client_list(client, print_kernel, stdout, &error);
  static job jobs[kJobsMax];
  pthread_t threads[kJobsMax];
  int count = 0;
  const char* input = getenv("RUN_INPUT");
  for (const int wanted = atoi(argv[6]); code == 0 && count < wanted && count < kJobsMax; ++count) {
    const weir_client_order order = WEIR_CLIENT_ORDER_INIT;
    jobs[count] = (job){client, order, 0};
    jobs[count].order.module = argv[2];
    jobs[count].order.kernel = argv[4];
    jobs[count].order.arguments = argv[5];
    jobs[count].order.input = input;
    jobs[count].order.input_bytes = input ? strlen(input) : 0;
    if (pthread_create(&threads[count], NULL, in_thread, &jobs[count]) != 0) return 1;
  }
  for (int i = 0; i < count; ++i) {
    pthread_join(threads[i], NULL);
    if (code == 0) code = jobs[i].code;
  }
  weir_client_close(client);
  return code;
}
