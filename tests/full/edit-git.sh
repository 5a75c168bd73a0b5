#!/bin/sh
# deadline: 900
# tests/e2e/edit-git.py with 300 commits.
EDIT_GIT_COMMITS=300 exec "$(dirname "$0")/../e2e/edit-git.py"
