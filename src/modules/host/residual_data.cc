// SPDX-License-Identifier: Apache-2.0
#include "modules/host/residual_data.h"

#include <algorithm>

namespace weir::modules {

void ResidualData::ReleaseAll(Objects& objects) {
  for (const Object& object : objects)
    if (object.release != nullptr) object.release(object.object);
}

ResidualData::Objects ResidualData::TakeOut(std::uint64_t bytes, std::size_t count) {
  Objects out;
  std::uint64_t freed = 0;
  for (auto at = objects_.begin(); at != objects_.end() && (freed < bytes || out.size() < count);) {
    const auto next = std::next(at);
    if (at->users.empty()) {
      freed += at->bytes;
      bytes_ -= at->bytes;
      out.splice(out.end(), objects_, at);
    }
    at = next;
  }
  return out;
}

bool ResidualData::Keep(std::uint64_t run, const Key& key, void* object, std::uint64_t bytes, Release release) {
  Objects out;
  bool kept = false;
  {
    const std::scoped_lock lock(mutex_);
    if (bytes > bytes_max_) return false;
    if (bytes_ + bytes > bytes_max_ || objects_.size() >= kObjectsMax)
      out = TakeOut(bytes_ + bytes > bytes_max_ ? bytes_ + bytes - bytes_max_ : 0,
                    objects_.size() >= kObjectsMax ? 1 : 0);
    kept = bytes_ + bytes <= bytes_max_ && objects_.size() < kObjectsMax;
    if (kept) {
      for (auto at = objects_.begin(); at != objects_.end();) {
        const auto next = std::next(at);
        if (!at->replaced && at->key == key) {
          at->replaced = true;
          if (at->users.empty()) {
            bytes_ -= at->bytes;
            out.splice(out.end(), objects_, at);
          }
        }
        at = next;
      }
      objects_.push_back({.key = key, .object = object, .bytes = bytes, .release = release, .users = {run}});
      bytes_ += bytes;
    }
  }
  ReleaseAll(out);
  return kept;
}

void* ResidualData::Find(std::uint64_t run, const Key& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(objects_, [&](const Object& o) { return !o.replaced && o.key == key; });
  if (found == objects_.end()) return nullptr;
  found->users.insert(run);
  objects_.splice(objects_.end(), objects_, found);
  return found->object;
}

std::uint64_t ResidualData::MakeRoom(std::uint64_t bytes) {
  Objects out;
  {
    const std::scoped_lock lock(mutex_);
    out = TakeOut(bytes, 0);
  }
  std::uint64_t freed = 0;
  for (const Object& object : out) freed += object.bytes;
  ReleaseAll(out);
  return freed;
}

void ResidualData::EndRun(std::uint64_t run) {
  Objects out;
  {
    const std::scoped_lock lock(mutex_);
    for (auto at = objects_.begin(); at != objects_.end();) {
      const auto next = std::next(at);
      at->users.erase(run);
      if (at->replaced && at->users.empty()) {
        bytes_ -= at->bytes;
        out.splice(out.end(), objects_, at);
      }
      at = next;
    }
  }
  ReleaseAll(out);
}

void ResidualData::Forget(const std::string& blob) {
  Objects out;
  {
    const std::scoped_lock lock(mutex_);
    for (auto at = objects_.begin(); at != objects_.end();) {
      const auto next = std::next(at);
      if (at->key.blob == blob) {
        bytes_ -= at->bytes;
        out.splice(out.end(), objects_, at);
      }
      at = next;
    }
  }
  ReleaseAll(out);
}

std::uint64_t ResidualData::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

}  // namespace weir::modules
