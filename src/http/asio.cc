// SPDX-License-Identifier: Apache-2.0
// Asio itself, compiled here once instead of by each file that includes a part of it.
#include <boost/asio/impl/src.hpp>
