// SPDX-License-Identifier: Apache-2.0
// One HTTP request over a new connection, without blocking the loop that it runs in.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "http/message.h"

namespace weir::http {

using AnswerHandler = std::function<void(Result<Answer>)>;

/// As AskUnix (client.h). `then` is called once, in the loop's thread, with its result, and not from this call.
/// kTimeout also where the server does not take the connection at once. kProtocol also for an answer of more than
/// `answer_bytes_max`.
void AskUnixAsync(boost::asio::io_context& loop, const std::string& path, const Call& call, Duration timeout,
                  std::uint64_t answer_bytes_max, AnswerHandler then);

}  // namespace weir::http
