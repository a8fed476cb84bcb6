#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/release in a repository of its own: what it refuses, and what a release without archives leaves.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

repository="${WORK}/repository"
mkdir -p "${repository}/scripts"
cp "${SCRIPTS}/release" "${SCRIPTS}/lib.sh" "${repository}/scripts"
cat >"${repository}/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.25)
project(weir VERSION 0.1.0 LANGUAGES C CXX DESCRIPTION "Shares GPUs")
TEXT
cat >"${repository}/CHANGELOG.md" <<'TEXT'
# Changelog

No version has been released. Published formats are only added to.

## Unreleased

### Added

- The first thing.

### Fixed

- A fault.
TEXT
echo build/ >"${repository}/.gitignore"
export GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@example.org GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@example.org
in_repository() { git -C "${repository}" "$@"; }
in_repository init -q
in_repository add -A
in_repository commit -q -m first
release() { (cd "${repository}" && scripts/release "$@"); }
holds() { grep -qxF -- "$2" "${repository}/$1"; }
lacks() { ! grep -qF -- "$2" "${repository}/$1"; }

fails "a version is needed" "no version is given" release
fails "a version has three numbers" "is not a version" release 1.2
fails "the current version is no new one" "not greater" release 0.1.0 --no-archives
fails "numbers are compared, not texts" "not greater" release 0.0.10 --no-archives
fails "an unknown option is named" "unknown option '--quick'" release 0.2.0 --quick
echo "not committed" >"${repository}/notes"
fails "changes must be committed" "uncommitted changes" release 0.2.0 --no-archives
rm "${repository}/notes"

passes "a release is made" release 0.2.0 --no-archives
passes "the version is set" holds CMakeLists.txt 'project(weir VERSION 0.2.0 LANGUAGES C CXX DESCRIPTION "Shares GPUs")'
passes "CMake's own version is not" holds CMakeLists.txt 'cmake_minimum_required(VERSION 3.25)'
passes "the changelog has the version" holds CHANGELOG.md "## 0.2.0 - $(date -u +%F)"
passes "an empty section is open for the next one" holds CHANGELOG.md "## Unreleased"
passes "it no longer says that nothing was released" lacks CHANGELOG.md "No version has been released"
passes "the notes have both parts" grep -q "A fault." "${repository}/build/dist/weir-0.2.0.md"
passes "the notes begin with the first part" test "$(head -n 1 "${repository}/build/dist/weir-0.2.0.md")" = "### Added"
passes "the checksums are right" sh -c "cd '${repository}/build/dist' && sha256sum --quiet -c SHA256SUMS"
passes "the tag is on the commit" test "$(in_repository rev-list -n 1 v0.2.0)" = "$(in_repository rev-parse HEAD)"
passes "nothing else changed" test -z "$(in_repository status --porcelain)"

fails "there must be something to release" "nothing to release" release 0.3.0 --no-archives
sed -i 's/^## Unreleased$/## Unreleased\n\n- More./' "${repository}/CHANGELOG.md"
in_repository commit -q -a -m more
in_repository tag v0.3.0
fails "a tag is never moved" "there is a tag v0.3.0 already" release 0.3.0 --no-archives
in_repository tag -d v0.3.0 >/dev/null
# Without the script that installs what a build needs, the build can't begin.
before="$(in_repository rev-parse HEAD)"
status=0
release 0.3.0 >/dev/null 2>&1 || status="$?"
passes "a build that fails ends the release" test "${status}" -ne 0
passes "a failed release leaves no commit" test "$(in_repository rev-parse HEAD)" = "${before}"
passes "a failed release leaves the files as they were" test -z "$(in_repository status --porcelain)"
passes "a failed release leaves no tag" test -z "$(in_repository tag -l v0.3.0)"
finish
