// SPDX-License-Identifier: Apache-2.0
#include "daemon/memory_sample.h"

#include <gtest/gtest.h>

namespace weir::daemon {
namespace {

TEST(MemorySample, SumsOfForgedBooksAreSaturated) {
  gate::MemoryBooks forged;
  forged.resident_slots = ~0U;
  forged.threads = ~0U;
  forged.need = forged.in_use = forged.made = Bytes{~0ULL};
  forged.switch_copy = forged.steal = forged.elsewhere = Duration{1LL << 61};
  forged.evictions = ~0ULL;
  engine::MemorySample sample;
  for (int i = 0; i < 5; ++i) AddBooks(forged, true, sample);
  EXPECT_EQ(sample.resident, ~0U);
  EXPECT_EQ(sample.threads, ~0U);
  EXPECT_EQ(sample.need.count, ~0ULL);
  EXPECT_EQ(sample.steal, Duration::max());
  EXPECT_EQ(sample.switch_copy, Duration::max());
  EXPECT_EQ(sample.evictions, ~0ULL);
}

TEST(MemorySample, BooksOfSeveralExecutorsAreAddedUp) {
  gate::MemoryBooks books;
  books.resident_slots = 2;
  books.need = MiB(100);
  books.must = MiB(50);
  books.steal = milliseconds(3);
  engine::MemorySample sample;
  AddBooks(books, true, sample);
  books.must = MiB(70);
  AddBooks(books, false, sample);
  EXPECT_EQ(sample.resident, 4U);
  EXPECT_EQ(sample.need, MiB(200));
  EXPECT_EQ(sample.must, MiB(70));
  EXPECT_EQ(sample.steal, milliseconds(6));
  EXPECT_FALSE(sample.done);
}

}  // namespace
}  // namespace weir::daemon
