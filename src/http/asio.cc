// SPDX-License-Identifier: Apache-2.0
// Compiles Asio once, instead of in each file that includes a part of it.
#include <boost/asio/impl/src.hpp>
