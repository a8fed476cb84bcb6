// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/trace_file.h"

#include <fmt/format.h>

#include <span>

#include "platform/files.h"

namespace weir::cli {

Result<proto::Trace> LoadTrace(const std::string& file) {
  constexpr const char* kHow = "'weir record --trace FILE' makes a trace";
  const auto text = platform::ReadFile(file, proto::kTraceBytesMax);
  if (!text) return Fail(text.error().code, fmt::format("cannot read a trace: {}; {}", text.error().message, kHow));
  auto trace = proto::DecodeTrace(std::as_bytes(std::span(*text)));
  if (!trace) return Fail(trace.error().code, fmt::format("{}: {}; {}", file, trace.error().message, kHow));
  return trace;
}

}  // namespace weir::cli
