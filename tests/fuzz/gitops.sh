#!/bin/sh
# deadline: 600
# The parsers and matchers of gitops that meet a model's or a repository's bytes, under the sanitizers: their corpora, and a
# bounded search from there.
set -eu
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/fuzz.sh"
cd "$ROOT"

sources="$(echo gitops/*.c) $(echo pipeline/base/*.c)"
libraries="-lgit2 -ljansson -lutf8proc -lz -lm"
runs=20000

fuzz gitops_place gitops_patterns gitops_message gitops_edits gitops_edit_text gitops_binpatch gitops_policy
