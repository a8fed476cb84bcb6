#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages, as far as that needs no build: their version, what their build needs, and their scripts. The
# packages themselves are tested by tests/e2e/packages_e2e.py.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
export GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@example.org
export GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@example.org
export GIT_COMMITTER_DATE="2026-11-27 08:58:19 +0200"

repository="${WORK}/repository"
mkdir -p "${repository}/scripts"
cp "${SCRIPTS}/package" "${SCRIPTS}/install-deps" "${SCRIPTS}/packages" "${SCRIPTS}/lib.sh" "${repository}/scripts"
cp -r "${SCRIPTS}/../debian" "${repository}"
package() { "${repository}/scripts/package" "$@"; }
in_repository() { git -C "${repository}" "$@"; }
project() { echo "project(weir VERSION $1 LANGUAGES C CXX)" >"${repository}/CMakeLists.txt"; }
commit() { in_repository add -A && in_repository commit -q -m "$1"; }
# newer A B: dpkg takes A for newer than B.
newer() { dpkg --compare-versions "$1" gt "$2"; }

project 0.1.0
fails "a folder that is no clone is refused" "is no git clone" package --version
in_repository init -q
commit first
first="$(package --version)"
passes "a commit without a tag has its time, in UTC, and its name" \
  test "${first}" = "0.1.0+git20261127.065819.$(in_repository rev-parse --short=8 HEAD)"
passes "it is newer than the release before it" newer "${first}" 0.1.0
passes "it is older than the next release" newer 0.1.1 "${first}"
GIT_COMMITTER_DATE="2026-11-27 07:58:20 +0100" in_repository commit -q --allow-empty -m second
passes "a later commit is newer" newer "$(package --version)" "${first}"
project 0.2.0
commit release
in_repository tag -a v0.2.0 -m 0.2.0
passes "the tagged commit has the version alone" test "$(package --version)" = 0.2.0
project 0.3.0
fails "an unknown option is named" "unknown option '--quick'" package --quick
passes "a change that is not committed does not count" test "$(package --version)" = 0.2.0

# The compiler is there wherever packages are built; ccache is not needed.
needs() {
  "${repository}/scripts/install-deps" --package --list | grep -v -x -e g++ -e ccache -e dpkg-dev |
    sed 's/^debhelper$/debhelper-compat/' | sort >"${WORK}/listed"
  sed -n '/^Build-Depends:/,/^$/{s/^ \([a-z0-9+.-]*\).*/\1/p}' "${repository}/debian/control" | sort >"${WORK}/declared"
  diff "${WORK}/listed" "${WORK}/declared" && grep -q . "${WORK}/declared"
}
passes "debian/control needs what scripts/packages lists" needs
sed -i '/^ libfmt-dev,/d' "${repository}/debian/control"
fails "a package that debian/control does not name is found" "< libfmt-dev" needs
sed -i 's/^ cmake,/ cmake,\n libfmt-dev,\n libcurl4-dev,/' "${repository}/debian/control"
fails "a package that scripts/packages does not list is found" "> libcurl4-dev" needs

# A build that takes no time: the package's content is the output of MADE, and without MADE there is no package.
in_repository checkout -q -- .
mkdir "${WORK}/bin"
cat >"${WORK}/bin/dpkg-buildpackage" <<'TEXT'
#!/bin/sh
head -n 1 debian/changelog | sed 's/.*(\(.*\)).*/\1/' >version
[ -z "${MADE}" ] || eval "${MADE}" >"../weir_$(cat version)_amd64.deb"
TEXT
chmod +x "${WORK}/bin/dpkg-buildpackage"
made() { MADE="$1" WEIR_SKIP_DEPS=1 PATH="${WORK}/bin:${PATH}" package "${@:2}"; }
packages="${repository}/build/packages"
passes "packages are built" made 'cat debian/changelog CMakeLists.txt'
passes "they have the version of the commit" test -s "${packages}/weir_0.2.0_amd64.deb"
passes "they have what is committed" grep -q "VERSION 0.2.0" "${packages}/weir_0.2.0_amd64.deb"
passes "the changelog has the commit's time" \
  grep -q "Fri, 27 Nov 2026 06:58:19 +0000" "${packages}/weir_0.2.0_amd64.deb"
passes "two builds that are the same pass" made 'cat debian/changelog' --twice
passes "the second one leaves nothing" test ! -e "${packages}-again"
# shellcheck disable=SC2016  # the build expands them
for differs in pwd 'date -d @0' 'stat -c %a debian' 'echo "${DEB_BUILD_OPTIONS}"' 'echo "${USER}"'; do
  fails "a package with the output of ${differs} is found" "two builds of this commit differ: weir_0.2.0_amd64.deb" \
    made "${differs}" --twice
done
fails "a build without a package is found" "made no package" made ""

for script in "${SCRIPTS}"/../debian/*.{prerm,postrm}; do
  passes "$(basename "${script}") is a shell script" sh -n "${script}"
  passes "$(basename "${script}") has debhelper's part" grep -q -x '#DEBHELPER#' "${script}"
done
finish
