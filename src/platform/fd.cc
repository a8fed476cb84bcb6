// SPDX-License-Identifier: Apache-2.0
#include "platform/fd.h"

#include <cerrno>
#include <cstring>

namespace weir::platform {

Error ErrnoError(std::string_view attempted, int error_number) {
  Errc code = Errc::kIo;
  switch (error_number) {
    case EACCES:
    case EPERM: code = Errc::kPermissionDenied; break;
    case ENOENT:
    case ESRCH: code = Errc::kNotFound; break;
    case EEXIST:
    case EADDRINUSE: code = Errc::kAlreadyExists; break;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE: code = Errc::kUnavailable; break;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM: code = Errc::kResourceExhausted; break;
    case EAGAIN:
    case ETIMEDOUT: code = Errc::kTimeout; break;
    default: break;
  }
  char text[128] = {};
  return Fail(code, std::string(attempted) + ": " + ::strerror_r(error_number, text, sizeof text));
}

}  // namespace weir::platform
