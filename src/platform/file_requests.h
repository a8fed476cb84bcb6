// SPDX-License-Identifier: Apache-2.0
// Files that a service needs and that its user may not open: the process that started the service opens them. The
// service names a file by its number in a list that was made before it started, so it can't ask for another one.
//
//   service                                      the process that started it
//   FileRequests::Open ── number, 1 byte ──────▶ AnswerFileRequest opens the file
//                      ◀── '\0', descriptor ──── or
//                      ◀── code, message ─────── of the error
#pragma once

#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "platform/fd.h"

namespace weir::platform {

struct OfferedFile {
  enum class How {
    kRead,  // opened for reading
    kMake,  // opened for reading and writing; a missing file is made with mode 0600
    kPort,  // a Unix stream socket is connected to; a character device or a file is opened for reading and writing
  };
  std::string path;
  How how = How::kRead;
};

/// Opens it with this process's rights. Never blocks. kInvalidArgument: `path` is no port.
Result<Fd> OpenOffered(const OfferedFile& file);

/// Answers the request that waits on `socket`. False: the service has closed the socket or has sent something else.
bool AnswerFileRequest(int socket, std::span<const OfferedFile> offered);

/// The service's side. Several threads may use it.
class FileRequests {
 public:
  /// `socket`: a connected SOCK_SEQPACKET socket. `offered`: the same list as that of the other process.
  FileRequests(Fd socket, std::vector<OfferedFile> offered)
      : socket_(std::move(socket)), offered_(std::move(offered)) {}
  /// Waits for the answer. Errors: those of OpenOffered; kUnavailable: no process answers.
  Result<Fd> Open(unsigned char number);

 private:
  std::mutex mutex_;
  Fd socket_;
  const std::vector<OfferedFile> offered_;
};

}  // namespace weir::platform
