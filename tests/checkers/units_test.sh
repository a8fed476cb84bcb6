#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
if ! type systemd-analyze >/dev/null 2>&1; then
  echo "skipped: systemd-analyze is missing (Debian's package systemd)"
  exit 77
fi

check() { "${SCRIPTS}/check-units" "${WORK}"; }
# without LINE UNIT: the units, one of them without a line.
without() {
  cp "${SCRIPTS}/../units/"*.service.in "${WORK}"
  sed -i "/^$1/d" "${WORK}/$2.service.in"
}

passes "the units here pass" "${SCRIPTS}/check-units"
without CapabilityBoundingSet weir
fails "weir.service with all capabilities fails" "weir.service: its exposure is over" check
without SystemCallFilter weir
fails "weir.service with all system calls fails" "weir.service: its exposure is over" check
without ProtectSystem weir
fails "weir.service that may write to the system fails" "weir.service: its exposure is over" check
without DynamicUser weir-manager
fails "weir-manager.service as root fails" "weir-manager.service: its exposure is over" check
without RestrictAddressFamilies weir-manager
fails "weir-manager.service with all address families fails" "weir-manager.service: its exposure is over" check
without ExecStart weir-manager
fails "a unit that starts nothing fails" "weir-manager.service: " check
finish
