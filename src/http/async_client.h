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

/// As AskUnix (client.h). `then` is called once with the result, in the loop's thread, and never from within this call.
/// Further errors: kTimeout if the server does not accept the connection at once; kProtocol for an answer of more than
/// `answer_bytes_max` bytes.
void AskUnixAsync(boost::asio::io_context& loop, const std::string& path, const Call& call, Duration timeout,
                  std::uint64_t answer_bytes_max, AnswerHandler then);

}  // namespace weir::http
