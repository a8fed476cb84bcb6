# SPDX-License-Identifier: Apache-2.0
# For the tests of the checkers: `source expect.sh`. Each test breaks a rule in a copy and shows that the checker says so.
# shellcheck shell=bash

export LC_ALL=C.UTF-8
# shellcheck disable=SC2034  # the tests use it
SCRIPTS="$(cd "$(dirname "${BASH_SOURCE[0]}")/../../scripts" && pwd)"
WORK="$(mktemp -d)"
trap 'rm -rf "${WORK}"' EXIT
facts=0
wrong=0

# passes FACT COMMAND...: the command ends with 0.
passes() {
  local fact="$1" output
  shift
  facts=$((facts + 1))
  if output="$("$@" 2>&1)"; then
    echo "ok: ${fact}"
  else
    echo "WRONG: ${fact}: '$*' failed and said:" && echo "${output}"
    wrong=$((wrong + 1))
  fi
}

# fails FACT TEXT COMMAND...: the command ends with 1, and what it says contains TEXT.
fails() {
  local fact="$1" text="$2" output status=0
  shift 2
  facts=$((facts + 1))
  output="$("$@" 2>&1)" || status="$?"
  if ((status == 1)) && [[ "${output}" == *"${text}"* ]]; then
    echo "ok: ${fact}"
  else
    echo "WRONG: ${fact}: '$*' ended with ${status}, 1 expected, and '${text}' is expected in:" && echo "${output}"
    wrong=$((wrong + 1))
  fi
}

finish() {
  echo "${facts} facts, ${wrong} wrong"
  ((wrong == 0 && facts > 0))
}
