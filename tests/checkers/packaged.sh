#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# packaged.sh BUILD: each file that `cmake --install` installs is in a Debian package (debian/*.install), without
# building one.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
build="$1"
DESTDIR="${WORK}/root" cmake --install "${build}" --prefix /usr >"${WORK}/log"
cp -r "${SCRIPTS}/../debian" "${WORK}/debian"

# unpackaged: lists the installed files that no package has, and fails if there is one.
unpackaged() {
  local patterns file pattern all=0
  # A build outside of Debian has no folder for the machine's kind, and systemd's below /usr.
  mapfile -t patterns < <(sed -e '/^#/d' -e 's/ .*//' -e 's|/\${DEB_HOST_MULTIARCH}||' -e 's|^lib/systemd|usr/&|' "${WORK}"/debian/*.install)
  while read -r file; do
    for pattern in "${patterns[@]}"; do
      # shellcheck disable=SC2254  # a pattern of dh_install is one of the shell's
      case "${file}" in ${pattern} | ${pattern}/*) continue 2 ;; esac
    done
    echo "in no package: ${file}"
    all=1
  done < <(cd "${WORK}/root" && find . -type f -o -type l | sed 's|^\./||')
  return "${all}"
}

passes "each installed file is in a package" unpackaged
for folder in cuda opencl icd emulated; do
  cp "${SCRIPTS}/../debian"/*.install "${WORK}/debian"
  sed -i "/weir\/${folder}\$/d" "${WORK}"/debian/*.install
  fails "a folder that no package has is found: ${folder}" "in no package: usr/lib/weir/${folder}/" unpackaged
done
finish
