// SPDX-License-Identifier: Apache-2.0
// Joins a variable that `weir vgpu env` prints with the step's own, as `weir run` does (cli/common/places.cc).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/// Whether a list, separated by colons or blanks, has the entry.
static inline bool has_entry(const char* list, const char* entry) {
  const size_t length = strlen(entry);
  for (const char* at = list; *at != '\0'; at += strspn(at, ": ")) {
    const size_t next = strcspn(at, ": ");
    if (next == length && strncmp(at, entry, length) == 0) return true;
    at += next;
  }
  return false;
}

/// The value for the step of the variable `name`, of which `weir vgpu env` has printed `ours`. `steps`: the step's own;
/// empty: none. May be written to `joined`, which has room for both.
///   LD_PRELOAD       ours is first, because libraries that hook the same names skip those behind them
///   LD_LIBRARY_PATH  ours is first
///   XDG_DATA_DIRS    ours is last; it is printed behind the default of an empty value
static inline const char* joined_value(const char* name, const char* ours, const char* steps, char* joined,
                                       size_t size) {
  if (steps[0] == '\0') return ours;
  if (strcmp(name, "XDG_DATA_DIRS") == 0) {
    const char* const colon = strrchr(ours, ':');
    const char* const folder = colon == NULL ? ours : colon + 1;
    if (has_entry(steps, folder)) return steps;
    snprintf(joined, size, "%s:%s", steps, folder);
    return joined;
  }
  const bool preload = strcmp(name, "LD_PRELOAD") == 0;
  if (!preload && strcmp(name, "LD_LIBRARY_PATH") != 0) return ours;
  if (preload && has_entry(steps, ours)) return steps;
  snprintf(joined, size, "%s:%s", ours, steps);
  return joined;
}
